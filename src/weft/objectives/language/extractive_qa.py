"""Cross-entropy of where an answer begins and where it ends: -(log p(first = i) + log p(last = j)) / 2 (Devlin et al., 2018).

Each end has one vector of its own: a token is as likely the first as its state's product with the one vector says, and the
last as that with the other. The answer of a model is the pair with the greatest sum of both scores, where the last does not
come before the first and both lie in the paragraph; [CLS] with itself means that there is none.

Batch: ids, segments (B, T), lengths (B,), first and last (B,), 0 for no answer. Shapes: N best pairs, L tokens of the longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Model
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


class FindsSpans(Model, Protocol):
    """Gives every token scores of being the first and the last of the answer."""

    def answer(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True, kw_only=True)
class ExtractiveQAConfig(ObjectiveConfig):
    unit = "nats per example"

    max_answer_length: int = 30
    """Longest answer that is searched for, in tokens."""
    null_score_threshold: float = 0.0
    """Margin by which the score of "no answer" (null) must exceed that of the best answer to be given; 0 takes it from the data."""

    def build(self) -> ExtractiveQA:
        return ExtractiveQA(self)


class ExtractiveQA(Objective):
    def __init__(self, config: ExtractiveQAConfig):
        super().__init__()
        self.config = config
        if config.max_answer_length < 1:
            raise ConfigError(f"--objective.max_answer_length must be at least 1, not {config.max_answer_length}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        first = batch["first"]
        return {"loss": count(len(first), like=first), "accuracy": count((first > 0).sum(), like=first)}

    def scores(self, model: FindsSpans, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of each token as the first and as the last of the answer, each (B, T); padding can be neither."""
        first, last = model.answer(batch["ids"], batch["segments"], batch["lengths"])
        padding = torch.arange(first.size(1), device=first.device) >= batch["lengths"][:, None]
        return first.float().masked_fill(padding, -torch.inf), last.float().masked_fill(padding, -torch.inf)

    def forward(self, model: FindsSpans, batch: Batch, turn: str) -> Terms:
        first, last = self.scores(model, batch)
        loss = F.cross_entropy(first, batch["first"], reduction="sum") + F.cross_entropy(last, batch["last"], reduction="sum")
        right = (first.detach().argmax(1) == batch["first"]) & (last.detach().argmax(1) == batch["last"]) & (batch["first"] > 0)
        return Terms({"loss": loss / 2}, {"accuracy": right.sum().float()})

    def decode(self, model: FindsSpans, batch: Batch, number: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best answers: scores, first and last tokens, each (B, N); and the score of no answer (B,).

        Scores are log-probabilities, so that windows can be compared: one without the answer gives little to all that it has.
        """
        first, last = (scores.log_softmax(1) for scores in self.scores(model, batch))
        position = torch.arange(first.size(1), device=first.device)
        inside = (batch["segments"] == 1) & (position < batch["lengths"][:, None] - 1)  # the last token is [SEP]
        return *best_spans(first, last, inside, self.config.max_answer_length, number), first[:, 0] + last[:, 0]


def best_spans(first: Tensor, last: Tensor, inside: Tensor, longest: int, number: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of both ends and where they may lie (B, T) -> the N best pairs i <= j < i + L, best first: scores, i and j, each (B, N).

    Where there are fewer pairs than N, the rest score -inf.
    """
    t = first.size(1)
    longest = min(longest, t)
    ends = F.pad(last.masked_fill(~inside, -torch.inf), (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # (B, T, L)
    pairs = (first.masked_fill(~inside, -torch.inf).unsqueeze(2) + ends).flatten(1)  # (B, T * L)
    pairs = F.pad(pairs, (0, max(0, number - pairs.size(1))), value=-torch.inf)
    scores, found = (part[:, :number] for part in pairs.sort(dim=1, descending=True, stable=True))  # of equals, always the first
    begin = torch.div(found, longest, rounding_mode="floor").clamp(max=t - 1)
    return scores, begin, (begin + found % longest).clamp(max=t - 1)
