"""Cross-entropy of an answer, and whether all of it is right.

A question is answered character by character, each the likeliest one. That gives the right answer exactly if every character
of it is the likeliest after those before it, so one pass over question and answer tells what answering would.

Batch: ids (B, T), targets (B, T) with IGNORE outside the answer. The first target is the special token that ends the question: it is
learned, but whoever asks writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from weft.data.base import IGNORE, Batch
from weft.models.base import NextTokenLogits
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class AnswerConfig(ObjectiveConfig):
    unit = "nats per token"

    def build(self) -> Answer:
        return Answer()


class Answer(Objective):
    def counts(self, batch: Batch) -> dict[str, Tensor]:
        targets = batch["targets"]
        return {"loss": count((targets != IGNORE).sum(), like=targets), "accuracy": count(len(targets), like=targets)}

    def forward(self, model: NextTokenLogits, batch: Batch, turn: str) -> Terms:
        targets = batch["targets"]
        logits = model.head(model.hidden(batch["ids"])).float()  # (B, T, V)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
        return Terms({"loss": loss}, {"accuracy": right(logits.detach(), targets).sum().float()})


def right(logits: Tensor, targets: Tensor) -> Tensor:
    """logits (B, T, V), targets (B, T) -> (B,) True where the likeliest characters are the answer."""
    counted = targets != IGNORE
    answer = counted & (counted.cumsum(1) > 1)
    return ((logits.argmax(-1) == targets) | ~answer).all(1)
