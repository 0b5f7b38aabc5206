"""What a run stands in: its recipe and what else one wants to know of it afterwards, and the machine."""

from __future__ import annotations

import logging
import platform
import re
from pathlib import Path

import torch

from weft import __version__
from weft.core import config
from weft.core.untrusted import kept
from weft.data.base import Data
from weft.recipes.base import Recipe
from weft.runs import record
from weft.training.checkpoint import checkpoint, files
from weft.training.trainer import Trainer

MOST_THREADS = 4096
log = logging.getLogger("weft")


def write_description(folder: Path, recipe: Recipe, trainer: Trainer, data: Data, size: int, init: str | None) -> None:
    """recipe.json, and what else one wants to know of a run afterwards; says where a run goes on with other data."""
    facts = {
        "parameters": size,
        "init": init,
        "plan": trainer.plan.lines(),
        "kernels": trainer.plan.table(),
        "data": data.info,
        "problems": data.problems.lines(),
        "shares": data.train.shares(trainer.end, recipe.train.seed),
        "examples": trainer.source.fingerprint(),
        "versions": {"weft": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "machine": machine(),
        "threads": torch.get_num_threads(),
    }
    before = kept(record.written(folder / "environment.json"), record.ENVIRONMENT)
    if trainer.step and before.get("examples", facts["examples"]) != facts["examples"]:
        log.warning("%s: the data have changed since the run began; it goes on with what they are now (--out begins another)", folder)
    with files.writing(folder):
        files.replace(folder / "recipe.json", checkpoint.encode(config.to_dict(recipe)))
        files.replace(folder / "environment.json", checkpoint.encode(facts))


def keep_threads(folder: Path, saved: int = 0) -> None:
    """On a CPU, go on with as many threads as the run began with: sums are shared out among them, so their number changes the last bits."""
    facts = kept(record.written(folder / "environment.json"), record.ENVIRONMENT)
    fields = re.search(r", (\d{1,4}) threads$", facts.get("machine", ""))  # of runs that began before their number was saved
    number, here = saved or facts.get("threads", int(fields[1]) if fields else 0), torch.get_num_threads()
    if not 0 < number <= MOST_THREADS:
        log.warning("%s: does not say with how many threads it began; it goes on with %d, which may change the last bits", folder, here)
    elif number != here:
        log.warning(
            "%s: goes on with %d threads, as it began, not with the %d of this process, which would change the last bits",
            folder,
            number,
            here,
        )
        torch.set_num_threads(number)


def machine() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {torch.get_num_threads()} threads"


def processor() -> str:
    """What a processor calls itself, where Linux tells it; with its family and model, as under a hypervisor many have one name."""
    about = Path("/proc/cpuinfo")
    first = about.read_text().partition("\n\n")[0] if about.is_file() else ""
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    number = f", family {fields['cpu family']} model {fields['model']}" if "cpu family" in fields and "model" in fields else ""
    return fields["model name"] + number
