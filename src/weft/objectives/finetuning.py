"""Cross-entropy of a class, or of the right choice, and beside it that of the text itself (Radford et al., 2018, section 3.2).

Going on to predict the next token while the task is learned makes the model generalise better and learn sooner. The first is a
mean over examples, the second over all tokens that have one before them, special tokens included.

Batch: ids (B, T) or, of N sequences for each example, (B, N, T); lengths (B,) or (B, N); label (B,), the class, or the place of
the right choice among N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.kernels.chunked_cross_entropy import chunked_cross_entropy
from weft.models.base import ClassifiesText
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import correct, label_loss, labelled, of_two, rightness


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig(ObjectiveConfig):
    unit = "nats per example"

    text_weight: float = 0.5
    """Weight of the cross-entropy of the text, the paper's lambda; 0 learns the task alone."""
    choices: int = 0
    """Choices of an example; 0 takes it from the data, and where those have none a class is told."""

    def build(self) -> Finetuning:
        return Finetuning(self)


class Finetuning(Objective):
    needs = ClassifiesText
    classes = "label"
    logits_backend = "whole"
    """"whole" or "chunked": the trainer chooses by device and vocabulary."""

    def __init__(self, config: FinetuningConfig):
        super().__init__()
        self.config, self.weights = config, {"text": config.text_weight}
        if not 0.0 <= config.text_weight < math.inf:
            raise ConfigError(f"--objective.text-weight must be a finite number, 0 or more, not {config.text_weight}")
        if config.choices < 0:
            raise ConfigError(f"--objective.choices must not be negative, not {config.choices}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = labelled(batch["label"])
        return {"task": examples, "text": count((batch["lengths"] - 1).sum(), like=batch["ids"]), "accuracy": examples}

    def forward(self, model: ClassifiesText, batch: Batch, turn: str) -> Terms:
        ids, lengths, label = batch["ids"], batch["lengths"], batch["label"]
        hidden = hidden_of(model, ids)
        logits = (model.choice_logits if self.config.choices else model.class_logits)(hidden, lengths)
        right = {"accuracy": correct(logits, label)} if self.config.choices else rightness(logits, label)
        return Terms({"task": label_loss(logits, label), "text": lm_loss(model, hidden, ids, lengths, self.logits_backend)}, right)

    def class_logits(self, model: ClassifiesText, batch: Batch) -> Tensor | None:
        if self.config.choices:
            return None
        logits: Tensor = model.class_logits(hidden_of(model, batch["ids"]), batch["lengths"])
        return logits

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        return super().summary(means) | of_two(means.get("outcomes"))


def hidden_of(model: ClassifiesText, ids: Tensor) -> Tensor:
    """ids (B, T) or (B, N, T) -> (B, T, D) or (B, N, T, D)."""
    hidden: Tensor = model.hidden(ids.flatten(0, -2)).view(*ids.shape, -1)
    return hidden


def lm_loss(model: ClassifiesText, hidden: Tensor, ids: Tensor, lengths: Tensor, logits: str = "whole") -> Tensor:
    """Summed -log p of every token but the first of its sequence and what fills up; hidden (..., T, D), ids (..., T)."""
    place = torch.arange(1, ids.size(-1), device=ids.device)
    following = ids[..., 1:].masked_fill(place >= lengths[..., None], IGNORE)
    return chunked_cross_entropy(model.head, hidden[..., :-1, :], following, logits)
