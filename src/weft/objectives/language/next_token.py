"""Cross-entropy of the next token: -sum over t of log p(x_t | x_<t), the log-likelihood of the sequence.

Batch: ids (B, T), targets (B, T) with IGNORE where nothing is to be predicted; where there are documents (B, T), their numbers, the
model reads each as if it stood alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from weft.core.errors import CapabilityError
from weft.data.base import IGNORE, UNKNOWN_NATS, Batch
from weft.kernels.chunked_cross_entropy import chunked_cross_entropy
from weft.models.base import NextTokenLogits
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class NextTokenConfig(ObjectiveConfig):
    unit = "nats per token"

    bytes_per_token: float = 0.0
    """Bytes of text a token stands for, on average; 0 takes it from the data. Used for bits per byte."""
    unknown_per_token: float = 0.0
    """Characters of the text that the model has no token for, per token; 0 takes it from the data. Each costs 20.1 bits in bits per
    byte."""

    def build(self) -> NextToken:
        return NextToken(self)


class NextToken(Objective):
    logits_backend = "whole"
    """"whole" or "chunked": the trainer chooses by device and vocabulary."""

    def __init__(self, config: NextTokenConfig):
        super().__init__()
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count((batch["targets"] != IGNORE).sum(), like=batch["targets"])}

    def forward(self, model: NextTokenLogits, batch: Batch, turn: str) -> Terms:
        if not getattr(model, "causal", True):
            raise CapabilityError(f"{type(model).__name__} reads in both directions and would see the token that it is to tell")
        within = {"documents": batch["documents"]} if "documents" in batch else {}
        hidden = model.hidden(batch["ids"], **within)
        return Terms({"loss": chunked_cross_entropy(model.head, hidden, batch["targets"], self.logits_backend)})

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means)
        numbers["perplexity"] = math.exp(min(numbers["loss"], 700.0))
        if self.config.bytes_per_token:
            nats = numbers["loss"] + self.config.unknown_per_token * UNKNOWN_NATS
            numbers["bits_per_byte"] = nats / math.log(2) / self.config.bytes_per_token
        return numbers
