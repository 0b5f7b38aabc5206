"""Logits changed before a token is chosen: bias, and penalties on tokens that occurred already.

Shapes: B rows, R rows that count tokens, N biased logits, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.inference.request import Request, Sampling


def check_bias(sampling: Sampling, vocabulary: int) -> None:
    """Refuse a bias of tokens that there are not, or one that leaves nothing to choose."""
    for number, bias in sampling.logit_bias.items():
        if not 0 <= number < vocabulary:
            raise ConfigError(f"logit_bias names token {number}; there are those from 0 to {vocabulary - 1}")
        if math.isnan(bias) or bias == math.inf:
            raise ConfigError(f"logit_bias of token {number} must be a number, or -inf, not {bias}")


def counts(sampling: Sampling) -> bool:
    """Whether settings ask how often a token occurred."""
    return bool(sampling.repetition_penalty != 1 or sampling.presence_penalty or sampling.frequency_penalty)


class Penalties:
    """Bias and penalties of the rows that ask for them, and the counts that these need."""

    def __init__(self, requests: Sequence[Request], answers: Sequence[Sequence[int]], vocabulary: int, device: Any):
        for request in requests:
            check_bias(request.sampling, vocabulary)
        biased = [(row, number, bias) for row, r in enumerate(requests) for number, bias in r.sampling.logit_bias.items()]
        self.biased = tuple(torch.tensor(column, device=device) for column in list(zip(*biased, strict=True))[:2])  # two of (N,)
        self.bias = torch.tensor([float(bias) for _, _, bias in biased], device=device)
        counting = {row: request.sampling for row, request in enumerate(requests) if counts(request.sampling)}
        self.rows = torch.tensor(list(counting), dtype=torch.int64, device=device)  # (R,)
        self.repetition, self.presence, self.frequency = (
            torch.tensor([[float(getattr(s, f"{name}_penalty"))] for s in counting.values()], device=device)
            for name in ("repetition", "presence", "frequency")
        )
        said = torch.zeros(len(counting), vocabulary)
        seen = torch.zeros(len(counting), vocabulary, dtype=torch.bool)
        for index, row in enumerate(counting):
            answer = torch.tensor(answers[row] if answers else [], dtype=torch.int64)
            said[index] = torch.bincount(answer, minlength=vocabulary)
            seen[index, torch.tensor(requests[row].ids, dtype=torch.int64)] = True
        self.said = said.to(device)
        """(R, V) how often each token occurs in the answer."""
        self.seen = (seen | (said > 0)).to(device)
        """(R, V) whether it occurs in prompt or answer."""

    @classmethod
    def of(cls, requests: Sequence[Request], answers: Sequence[Sequence[int]], vocabulary: int, device: Any) -> Penalties | None:
        used = any(counts(request.sampling) or request.sampling.logit_bias for request in requests)
        return cls(requests, answers, vocabulary, device) if used else None

    def apply(self, logits: Tensor) -> Tensor:
        """logits (B, V), float32 -> those that are chosen by."""
        if len(self.bias):
            logits = logits.index_put(self.biased, self.bias, accumulate=True)
        if not len(self.rows):
            return logits
        own = logits[self.rows]  # (R, V)
        repeated = torch.where(own > 0, own / self.repetition, own * self.repetition)
        own = torch.where(self.seen, repeated, own) - self.frequency * self.said - self.presence * (self.said > 0)
        return logits.index_copy(0, self.rows, own)

    def record(self, ids: Tensor) -> None:
        """Count the tokens (B,) that were chosen."""
        if len(self.rows):
            chosen = ids[self.rows].unsqueeze(-1)  # (R, 1)
            self.said.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=self.said.dtype))
            self.seen.scatter_(1, chosen, True)
