"""What a run stands in: its recipe and what else one wants to know of it afterwards, and the machine."""

from __future__ import annotations

import logging
import platform
from pathlib import Path

import torch

from weft import __version__
from weft.core import config
from weft.data.base import Data
from weft.recipes.base import Recipe
from weft.runs import record
from weft.training.checkpoint import checkpoint, files
from weft.training.trainer import Trainer

log = logging.getLogger("weft")


def write_description(folder: Path, recipe: Recipe, trainer: Trainer, data: Data, size: int, init: str | None) -> None:
    """recipe.json, and what else one wants to know of a run afterwards; says where a run goes on with other data."""
    facts = {
        "parameters": size,
        "init": init,
        "plan": trainer.plan.lines(),
        "data": data.info,
        "problems": data.problems.lines(),
        "shares": data.train.shares(trainer.end, recipe.train.seed),
        "examples": trainer.source.mark(),
        "versions": {"weft": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "machine": machine(),
    }
    if trainer.step and record.written(folder / "environment.json").get("examples", facts["examples"]) != facts["examples"]:
        log.warning("%s: the data have changed since the run began; it goes on with what they are now (--out begins another)", folder)
    with files.writing(folder):
        files.replace(folder / "recipe.json", checkpoint.encode(config.to_dict(recipe)))
        files.replace(folder / "environment.json", checkpoint.encode(facts))


def machine() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {torch.get_num_threads()} threads"


def processor() -> str:
    """What a processor calls itself, where Linux tells it; with its family and model, as under a hypervisor many have one name."""
    about = Path("/proc/cpuinfo")
    first = about.read_text().partition("\n\n")[0] if about.is_file() else ""
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "model name" not in told:
        return platform.processor() or platform.machine()
    number = f", family {told['cpu family']} model {told['model']}" if "cpu family" in told and "model" in told else ""
    return told["model name"] + number
