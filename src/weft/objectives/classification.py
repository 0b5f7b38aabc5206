"""Cross-entropy of the class: -sum over labelled examples of log p(y | x).

Batch: the input, by default image (B, ...), and label (B,) int64; an UNLABELLED example counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from weft.data.base import UNLABELLED, Batch
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(ObjectiveConfig):
    input: str = "image"
    """Name of the input in a batch: image, or x for the rows of a table."""

    def build(self) -> Classification:
        return Classification(self)


class Classification(Objective):
    def __init__(self, config: ClassificationConfig):
        super().__init__()
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        number = labelled(batch["label"])
        return {"loss": number, "accuracy": number}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        logits = model.classify(batch[self.config.input])  # (B, C)
        return Terms({"loss": label_loss(logits, batch["label"])}, {"accuracy": correct(logits, batch["label"])})


def labelled(label: Tensor) -> Tensor:
    """How many of label (B,) are known."""
    return count((label != UNLABELLED).sum(), like=label)


def label_loss(logits: Tensor, label: Tensor) -> Tensor:
    """Summed -log p(label) of the labelled among logits (B, C), label (B,)."""
    return F.cross_entropy(logits.float(), label, ignore_index=UNLABELLED, reduction="sum")


def correct(logits: Tensor, label: Tensor) -> Tensor:
    """How many labelled examples have their class on top; UNLABELLED is no class, so it never is."""
    return (logits.detach().argmax(-1) == label).sum().float()
