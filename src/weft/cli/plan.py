"""`weft plan RECIPE --gpus N --device h200`: what a training run needs, and how to spread it, without allocating anything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli import console
from weft.cli.options.plan_words import Given, parse, refuse_large, subject_of
from weft.core.errors import ConfigError
from weft.training.checkpoint import files

if TYPE_CHECKING:
    from weft.planning.plan import TrainingPlan


def main(words: list[str]) -> int:
    console.show_warnings()
    given = parse(words)
    settings = given.settings
    if settings.growth:
        from weft.planning import wording

        print(console.table(wording.growth()))
        return 0
    if not given.name and not settings.model:
        before = f" before {given.words[0]}" if given.words else ""
        raise ConfigError(
            f"name a recipe (weft list recipes) or a preset{before}, as in weft plan gpt3-175b --gpus 64; see weft plan --help"
        )
    if settings.json:
        files.check_file(Path(settings.json))
    found = make(given)
    tell(found)
    if settings.check:
        print(checked(found))
    if settings.json:
        files.deliver(Path(settings.json), (json.dumps(found.facts(), indent=2) + "\n").encode())
    return 0


def make(given: Given) -> TrainingPlan:
    from weft.planning import plan
    from weft.planning.layout import Layout

    settings = given.settings
    for flag in ("tokens", "context", "batch", "vocabulary", "micro_batch", "pue", "carbon", "price"):
        if not 0 <= getattr(settings, flag) < math.inf:
            raise ConfigError(f"--{flag} must be a number that is not negative, not {getattr(settings, flag)}")
        refuse_large(flag, getattr(settings, flag))
    asked = settings.parallel
    request = plan.PlanRequest(
        gpus=settings.gpus,
        tokens=settings.tokens,
        mfu=settings.mfu,
        micro_batch=settings.micro_batch,
        activation_checkpointing=None if settings.activation_checkpointing == "auto" else settings.activation_checkpointing == "on",
        asked=Layout(asked.replicate, asked.shard, asked.tensor, asked.pipeline),
        pue=settings.pue,
        carbon=settings.carbon,
        price=settings.price,
    )
    plan.check(request)
    return plan.make(subject_of(given), settings.device, request)


def tell(plan: TrainingPlan) -> None:
    from weft.planning import wording

    print(f"{plan.subject.name} on {plan.request.gpus:,} x {plan.device.name}")
    print(console.table(wording.rows(plan)))


def checked(plan: TrainingPlan) -> str:
    from weft.planning.shards import bytes_on

    layout = plan.choice.layout
    for stage in range(layout.pipeline):
        built, planned = bytes_on(plan.subject, layout, stage), 4 * plan.weights.local(layout, stage)
        if built != planned:
            raise ConfigError(f"stage {stage}: PyTorch puts {built:,} bytes of weights on a device, the plan says {planned:,}")
    return f"  checked: PyTorch's own sharding puts the planned bytes of weights on a device of each of {layout.pipeline} stages"
