"""Cross-entropy of a language model in both directions: each word from those before it, and from those behind it (Peters et al., 2018).

Both directions share the words' characters and the softmax. Batch: ids (B, T), lengths (B,), words (B, W) with IGNORE behind a sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from weft.data.base import IGNORE, Batch
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class BiLMConfig(ObjectiveConfig):
    unit = "nats per word"

    def build(self) -> BiLM:
        return BiLM()


class BiLM(Objective):
    def counts(self, batch: Batch) -> dict[str, Tensor]:
        words = batch["words"] != IGNORE
        number = count((words[:, 1:] & words[:, :-1]).sum(), like=batch["words"])  # an end of a sentence has no neighbour
        return {"loss": 2 * number, "forward_loss": number, "backward_loss": number}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        target = batch["words"]
        words = model.split_words(batch["ids"], batch["lengths"], target.size(1))
        forward, backward = (model.dropout(states) for states in model.layer_pairs(words)[0][-1])  # each (B, W, P)
        target = target[:, : forward.size(1)]
        neighbours = (target[:, 1:] != IGNORE) & (target[:, :-1] != IGNORE)  # (B, W - 1)
        ahead = word_loss(model, forward[:, :-1], target[:, 1:].masked_fill(~neighbours, IGNORE))
        behind = word_loss(model, backward[:, 1:], target[:, :-1].masked_fill(~neighbours, IGNORE))
        return Terms({"loss": ahead + behind}, {"forward_loss": ahead.detach(), "backward_loss": behind.detach()})

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        found = super().summary(means)
        return found | ({"perplexity": math.exp(min(found["loss"], 700.0))} if "loss" in found else {})


def word_loss(model: Any, states: Tensor, target: Tensor) -> Tensor:
    """states (B, W, P), target (B, W) with IGNORE -> the sum of -log p."""
    states, target = states.flatten(0, 1), target.flatten()
    if not model.static_shapes:  # what counts for nothing need not be computed
        states, target = states[target != IGNORE], target[target != IGNORE]
    return F.cross_entropy(model.softmax(states).float(), target, ignore_index=IGNORE, reduction="sum")
