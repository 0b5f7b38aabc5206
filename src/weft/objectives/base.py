"""The one contract between models and the trainer: an objective turns a model and a batch into named sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from weft.core.config import Config
from weft.data.base import Batch

Counts = dict[str, Tensor]


@dataclass(frozen=True)
class Turn:
    """One update inside a step: which submodules it changes ("" is the whole model)."""

    name: str = ""
    modules: tuple[str, ...] = ("",)
    fresh: bool = True
    """Draw new batches, or reuse those of the turn before."""


@dataclass
class Terms:
    """What an objective says about one micro-batch: sums, never means."""

    sums: dict[str, Tensor]
    """Differentiable, one scalar per named term."""
    metrics: dict[str, Tensor] = field(default_factory=dict)
    """Detached sums of any shape; each is divided by the count of its name, or by the first count if it has none."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Config):
    """Settings of an objective; fields that are 0 and named like a fact of the data are filled in from it."""

    mixes: ClassVar[bool] = False
    """Whether it learns from examples of two classes at once, each with its share."""
    unit: ClassVar[str] = ""
    """What its losses are counted in, such as "nats per token"; "example" stands for what the data has, such as an image."""

    def build(self) -> Objective:
        raise NotImplementedError


class Objective(nn.Module):
    """A module, so its state (teacher, chain, noise table) moves, saves and loads like any other.

    State changes only in `after_update`, so evaluation and accumulation cannot move it. Where `model` stands, an objective names the
    capability that it uses (weft.models.base).
    """

    turns: tuple[Turn, ...] = (Turn(),)
    separable = True
    """False: the loss of a batch is not a sum over its examples."""
    needs: type | None = None
    """The capability (weft.models.base) that a model must have, where not every model that could be given has it."""
    weights: dict[str, float] = {}
    """Of the named terms; 1 where not given."""
    compile = True  # type: ignore[assignment]
    """False where a second derivative is taken."""
    capture = True
    """False where the objective decides something on the host, which a captured graph could not replay."""
    autocast = True
    """False where bf16 would lose the answer, as in differences of energies."""

    classes = ""
    """What of a batch are the classes that its "accuracy" is about; evaluation tells the share of the commonest beside it."""
    carries = False
    """True where a state goes from batch to batch, so that one process must see all of them."""

    updates_model = False
    """True where `update` changes the model in place of the optimiser, of which only the learning rate is used."""

    def bind(self, model: Any) -> None:
        """Make the state that depends on the model it will train, once, before the first step."""

    def counts(self, batch: Batch) -> Counts:
        """Items per term as float32 scalars on the device, known before any forward."""
        raise NotImplementedError

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        raise NotImplementedError

    def class_logits(self, model: Any, batch: Batch) -> Tensor | None:
        """Of the classes that `classes` names, (..., C); None where an objective tells no classes of a fixed list."""
        return None

    def update(self, model: Any, batch: Batch, turn: str, rate: float) -> tuple[Terms, Counts]:
        """Change the model by a rule of its own, such as many small updates, and say what the batch gave on the way."""
        raise NotImplementedError

    def after_update(self, model: Any, turn: str) -> None:
        """Move a teacher, clip a critic, advance a chain."""

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """Further sums that only validation needs, of any shape."""
        return {}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        """Reported numbers from exact means; by default the scalars. "loss" is the weighted total of a turn's terms."""
        return {name: float(value) for name, value in means.items() if value.numel() == 1}


def count(number: int | Tensor, like: Tensor) -> Tensor:
    """A count as a float32 scalar on the device of `like`; a Python number needs no synchronisation."""
    if isinstance(number, Tensor):
        return number.to(torch.float32)
    return torch.full((), float(number), dtype=torch.float32, device=like.device)
