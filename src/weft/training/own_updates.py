"""Turns in which the objective changes the model itself (`Objective.update`), such as by many small updates in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.objectives.base import Objective, Turn
from weft.training.optimizer.settings import SGD, OptimConfig

if TYPE_CHECKING:
    from weft.training.trainer import Trainer


@torch.no_grad()
def run(trainer: Trainer, turn: Turn, drawn: list[Batch]) -> None:
    """One micro-batch after the other, at the learning rate of the schedule; a loss that is not finite counts as a refused update."""
    updater = trainer.updaters[turn.name]
    for batch in drawn:
        terms, counts = trainer.objective.update(trainer.model, trainer.source.examples(batch), turn.name, updater.lr)
        trainer.means.add(turn.name, terms, counts)
        updater.refused += (~torch.stack([*terms.sums.values()]).isfinite()).any()


def check(objective: Objective, config: OptimConfig) -> None:
    """Refuse an optimiser of which more than the learning rate would be needed."""
    if objective.updates_model and config != SGD(lr=config.lr, schedule=config.schedule):
        raise ConfigError(f"{type(objective).__name__} makes updates of plain SGD; give it --optim.type sgd with a rate and no more")
