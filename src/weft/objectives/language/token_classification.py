"""Cross-entropy of the tag of each word, told at its first token: -sum over words of log p(tag).

Batch: ids (B, T), lengths (B,), tags (B, T) with IGNORE where no word begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from weft.data.base import IGNORE, Batch
from weft.models.base import Model
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


class Tags(Model, Protocol):
    """Gives tag logits to every token."""

    def tag(self, ids: Tensor, *, lengths: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig(ObjectiveConfig):
    unit = "nats per word"

    def build(self) -> TokenClassification:
        return TokenClassification()


class TokenClassification(Objective):
    classes = "tags"

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        number = count((batch["tags"] != IGNORE).sum(), like=batch["tags"])
        return {"loss": number, "accuracy": number}

    def forward(self, model: Tags, batch: Batch, turn: str) -> Terms:
        logits = self.class_logits(model, batch)
        loss = F.cross_entropy(logits.flatten(0, 1), batch["tags"].flatten(), ignore_index=IGNORE, reduction="sum")
        return Terms({"loss": loss}, {"accuracy": (logits.detach().argmax(-1) == batch["tags"]).sum().float()})

    def class_logits(self, model: Tags, batch: Batch) -> Tensor:
        """Of the tags of all tokens (B, T, C)."""
        logits: Tensor = model.tag(batch["ids"], lengths=batch["lengths"]).float()
        return logits
