"""What the studies of adversarial networks share: a small run of the trainer, watched as it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from weft.core import config
from weft.data.base import Data, DataLoader
from weft.recipes.base import Recipe
from weft.training import execution
from weft.training.hooks import Hook, evaluate
from weft.training.trainer import Trainer


@dataclass
class Watch(Hook):
    """Calls a function of the trainer every few steps, and at the start."""

    look: Callable[[Trainer], None]
    every: int
    name = "watch"

    def start(self, trainer: Trainer) -> None:
        self.look(trainer)

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step % self.every == 0:
            self.look(trainer)


def train(recipe: Recipe, changes: dict[str, Any], look: Callable[[Trainer], None] | None = None, every: int = 1) -> tuple[Trainer, Data]:
    """A recipe trained without a folder: nothing is saved."""
    made = config.override(recipe, changes)
    data = made.data.build()
    resolved = made.resolve(data.info)
    torch.manual_seed(resolved.train.seed)
    model, objective = resolved.model.build(), resolved.objective.build()
    plan = execution.choose(resolved.train, model, objective)
    source = DataLoader(data.train, resolved.train.seed, plan.device)
    hooks = [Watch(look, every)] if look else []
    trainer = Trainer(model, objective, source, resolved.train, resolved.optim, plan, hooks)  # type: ignore[arg-type]
    trainer.fit()
    return trainer, data


def measured(trainer: Trainer, data: Data, examples: int = 1000) -> dict[str, float]:
    """The objective's numbers on validation data."""
    assert data.validation is not None
    held = DataLoader(data.validation, trainer.settings.seed, trainer.plan.device, shuffle=False)
    return evaluate(trainer.model, trainer.objective, held, min(examples, len(data.validation)), 256)
