"""Cross-entropy of the right one among several texts, each scored by itself (Devlin et al., 2018, section 4.4).

Batch: ids, segments (B, N, T), lengths (B, N), label (B,) the place of the right choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from weft.data.base import Batch
from weft.models.base import Model
from weft.objectives.base import Objective, ObjectiveConfig, Terms
from weft.objectives.classification import correct, label_loss, labelled


class Chooses(Model, Protocol):
    """Gives a score to each of several texts."""

    def choose(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(ObjectiveConfig):
    unit = "nats per example"

    def build(self) -> MultipleChoice:
        return MultipleChoice()


class MultipleChoice(Objective):
    classes = "label"

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        number = labelled(batch["label"])
        return {"loss": number, "accuracy": number}

    def forward(self, model: Chooses, batch: Batch, turn: str) -> Terms:
        logits = model.choose(batch["ids"], batch["segments"], batch["lengths"])  # (B, N)
        return Terms({"loss": label_loss(logits, batch["label"])}, {"accuracy": correct(logits, batch["label"])})
