"""`weft plan RECIPE --gpus N --device h200`: what a training run needs, and how to spread it, without allocating anything."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from weft.cli import console, flags
from weft.config import Config
from weft.errors import ConfigError
from weft.training import files

if TYPE_CHECKING:
    from weft.planning.plan import Plan

ABOUT = """Parameters, FLOPs, memory per device, time, energy and a layout for a recipe (weft plan gpt/text) or a preset of a model
(weft plan gpt3-175b), or a refusal that names the nearest layout that fits. Nothing is allocated."""


@dataclass(frozen=True, kw_only=True)
class Parallel(Config):
    replicate: int = 0
    """Copies of the model; 0 leaves it to the plan."""
    shard: int = 0
    """Devices that share weights, gradients and optimiser state; 0 leaves it to the plan."""
    tensor: int = 0
    """Devices that share the matrices of each block; 0 leaves it to the plan."""
    pipeline: int = 0
    """Stages of consecutive blocks; 0 leaves it to the plan."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    gpus: int = 1
    """Devices to spread the run over."""
    device: Literal["h200", "h100", "a100", "cpu"] = "h200"
    """Kind of device."""
    model: str = ""
    """Preset to plan, alone or in the place of the recipe's model: gpt3-175b, llama-7b, bert/base."""
    tokens: float = 0.0
    """Tokens to train on, such as 300e9; 0 is the recipe's own number, GPT-3's 300e9 or 20 for each parameter."""
    context: int = 0
    """Tokens of an example; 0 is the recipe's or the preset's."""
    batch: int = 0
    """Examples per update; 0 is the recipe's or, for a preset, about the batch of the GPT-3 of that size."""
    vocabulary: int = 0
    """Number of tokens; 0 takes it from the preset or from the data."""
    mfu: float = 0.0
    """Share of the device's peak that a run reaches, such as 0.4; 0 estimates it from the parts of a step."""
    micro: int = 0
    """Examples of a micro-batch on one device; 0 leaves it to the plan."""
    checkpoint: Literal["auto", "on", "off"] = "auto"
    """Compute activations again in the backward pass instead of keeping them."""
    parallel: Parallel = field(default_factory=Parallel)
    pue: float = 1.2
    """Energy of the data centre over that of its machines."""
    carbon: float = 0.4
    """Kilograms of CO2 per kWh."""
    growth: bool = False
    """Show how the GPTs grew, counted from their configurations, instead of a plan."""
    check: bool = False
    """Also build one device's part with PyTorch's own sharding and compare its bytes with the plan's."""
    json: str = ""
    """File to write the plan to."""


def main(words: list[str]) -> int:
    console.show_warnings()
    settings, names = flags.parse(Settings(), words, "weft plan", "[RECIPE]", ABOUT)
    if settings.growth:
        from weft.planning import telling

        print(console.table(telling.growth()))
        return 0
    if not names and not settings.model:
        raise ConfigError("name a recipe (weft list recipes) or a preset, as in weft plan gpt3-175b --gpus 64; see weft plan --help")
    if settings.json:
        files.check_file(Path(settings.json))
    found = make(names[0] if names else "", settings)
    tell(found)
    if settings.check:
        print(checked(found))
    if settings.json:
        files.deliver(Path(settings.json), (json.dumps(found.facts(), indent=2) + "\n").encode())
    return 0


def make(name: str, settings: Settings) -> Plan:
    from weft.planning import plan, subject
    from weft.planning.layout import Layout

    for flag in ("tokens", "context", "batch", "vocabulary", "micro", "pue", "carbon"):
        if not 0 <= getattr(settings, flag) < math.inf:
            raise ConfigError(f"--{flag} must be a number that is not negative, not {getattr(settings, flag)}")
    asked = settings.parallel
    subject_ = subject.subject(name, settings.model, settings.batch, settings.context, settings.vocabulary)
    wishes = plan.Wishes(
        gpus=settings.gpus,
        tokens=settings.tokens,
        mfu=settings.mfu,
        micro=settings.micro,
        checkpoint=None if settings.checkpoint == "auto" else settings.checkpoint == "on",
        asked=Layout(asked.replicate, asked.shard, asked.tensor, asked.pipeline),
        pue=settings.pue,
        carbon=settings.carbon,
    )
    return plan.make(subject_, settings.device, wishes)


def tell(plan: Plan) -> None:
    from weft.planning import telling

    print(f"{plan.subject.name} on {plan.wishes.gpus:,} x {plan.device.name}")
    print(console.table(telling.rows(plan)))


def checked(plan: Plan) -> str:
    from weft.planning.shards import bytes_on

    layout = plan.choice.layout
    for stage in range(layout.pipeline):
        built, planned = bytes_on(plan.subject, layout, stage), 4 * plan.weights.local(layout, stage)
        if built != planned:
            raise ConfigError(f"stage {stage}: PyTorch puts {built:,} bytes of weights on a device, the plan says {planned:,}")
    return f"  checked: PyTorch's own sharding puts the planned bytes of weights on a device of each of {layout.pipeline} stages"
