"""Choosing the next token of every row of a batch, each by its own settings.

The logits of a row go through, in this order: bias, repetition penalty, frequency and presence penalty, what its constraint allows; then,
unless the likeliest token is taken, temperature, top_k, top_p (of what top_k left) and min_p. Rows never meet: each draws with a key made
of its seed, its number and the position of the token, and probabilities are summed as whole numbers, which no order of adding up changes.
So a row gets the same tokens alone and in any batch. Settings are known on the host, so that nothing here waits for the device but
`logprobs` and constraints.
Shapes: B rows, R rows that ask for something, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.inference.constraints import Constraints
from weft.inference.penalties import Penalties
from weft.inference.request import GREEDY, Request, Sampling, Token
from weft.kernels.decode_step import KERNELS

CERTAIN = 1 << 40
"""Weight of a row's likeliest token. Those a trillion times less likely are never drawn; 2^22 tokens can be summed in 63 bits."""
COLDEST = 1e-30
"""A float32 that a logit can still be divided by."""


class Sampler:
    """The settings of a batch's rows; made anew when rows come or go."""

    def __init__(
        self,
        requests: Sequence[Request],
        vocabulary: int,
        device: Any = None,
        answers: Sequence[Sequence[int]] = (),
        rooms: Sequence[int] = (),
    ):
        """answers: the tokens that each request got so far, which its penalties count and its constraint follows; by default none.
        rooms: most tokens of each whole answer, where the context holds fewer than were asked for."""
        settings = [request.sampling for request in requests]
        self.constraints = Constraints([request.constraint for request in requests], answers)
        if self.constraints:
            most = [min(s.max_new_tokens, room) for s, room in zip(settings, rooms or [s.max_new_tokens for s in settings], strict=True)]
            self.rooms = [room - len(answer) for room, answer in zip(most, answers or [()] * len(most), strict=True)]
        self.penalties = Penalties.of(requests, answers, vocabulary, device)
        seeds = torch.tensor([random.seed_of(s.seed, "generate") for s in settings])
        self.keys = random.fold(torch.tensor([r.number for r in requests]), seeds).to(device)  # (B,) as random.keys makes them of one seed
        self.draws = any(s.temperature != GREEDY for s in settings)
        if not self.draws:
            return  # nothing else is needed, and each tensor that is sent to a device takes its time
        self.greedy = torch.tensor([s.temperature == GREEDY for s in settings], device=device)  # (B,)
        self.mixed = any(s.temperature == GREEDY for s in settings)
        self.temperature = torch.tensor([[max(s.temperature, COLDEST)] for s in settings], device=device)  # (B, 1)
        floors = [[math.log(s.min_p) if s.min_p else -math.inf] for s in settings]
        self.floor = torch.tensor(floors, device=device) if any(s.min_p for s in settings) else None  # (B, 1)
        self.truncation = Truncation.of(settings, vocabulary, device)

    def choose(self, logits: Tensor, position: Tensor) -> Tensor:
        """logits (B, V), position (B,) of the token in each answer, from 0 -> ids (B,)."""
        logits = self._changed(logits)
        if not self.draws:
            return argmax(logits)
        drawn = self._draw(logits.float(), random.fold(self.keys, position))
        return torch.where(self.greedy, argmax(logits), drawn) if self.mixed else drawn

    def record(self, ids: Tensor) -> None:
        """Count what was chosen (B,) for the penalties, and go on with it in the constraints."""
        if self.penalties:
            self.penalties.record(ids)
        if self.constraints:
            self.constraints.advance(ids.tolist())
            self.rooms = [room - 1 for room in self.rooms]

    def _changed(self, logits: Tensor) -> Tensor:
        """logits (B, V) with penalties, and -inf where a constraint does not allow a token."""
        if self.penalties:
            logits = self.penalties.apply(logits.float())
        if self.constraints:
            logits = logits.float().masked_fill(self.constraints.forbidden(logits.size(-1), self.rooms, logits.device), -math.inf)
        return logits

    def probabilities(self, logits: Tensor) -> Tensor:
        """logits (B, V) -> the probabilities by which tokens are chosen, in float64; 1 for the likeliest of a greedy row."""
        logits = self._changed(logits)
        best = torch.zeros_like(logits, dtype=torch.float64).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
        if not self.draws:
            return best
        shares = weights(self._left(logits.float())).double()
        return torch.where(self.greedy[:, None], best, shares / shares.sum(-1, keepdim=True))

    def _left(self, logits: Tensor) -> Tensor:
        """logits (B, V) -> those of the tokens that can be drawn, the likeliest being 0, and -inf of the others."""
        logits = (logits - logits.amax(-1, keepdim=True)) / self.temperature
        if self.truncation:
            logits = self.truncation.apply(logits)
        return logits if self.floor is None else logits.masked_fill(logits < self.floor, -math.inf)

    def _draw(self, logits: Tensor, key: Tensor) -> Tensor:
        return draw(self._left(logits), key)

    @staticmethod
    def logprobs(logits: Tensor, ids: Tensor, alternatives: int) -> list[Token]:
        """logits (B, V) as the model gave them, ids (B,) -> these tokens with their log-probabilities.

        Each names so many likeliest tokens, and itself where it is none of them.
        """
        logprobs = logits.float().log_softmax(-1)
        best = ids_of(rank_keys(logprobs).topk(min(alternatives, logprobs.size(-1))).values)  # (B, N)
        own, others = logprobs.gather(-1, ids.unsqueeze(-1)), logprobs.gather(-1, best)
        tokens = []
        for number, (logprob,), row in zip(ids.tolist(), own.tolist(), zip(best.tolist(), others.tolist(), strict=True), strict=True):
            top = tuple(zip(*row, strict=True))
            tokens.append(Token(number, logprob, top if number in row[0] else (*top, (number, logprob))))
        return tokens


def draw(logits: Tensor, key: Tensor) -> Tensor:
    """logits (..., V), the highest 0, and keys (...) -> ids (...), drawn by their probabilities."""
    sums = weights(logits).cumsum(-1)
    share = random.integers(key, 1 << 53).double() * 2.0**-53  # in [0, 1), and fine enough for rare tokens
    point = (share.unsqueeze(-1) * sums[..., -1:]).long()  # also rounded, the product stays below the sum
    return torch.searchsorted(sums, point, right=True).squeeze(-1).clamp(max=sums.size(-1) - 1)  # an id even if logits are no numbers


def argmax(logits: Tensor) -> Tensor:
    """logits (B, V) -> ids (B,), of equals the first."""
    if KERNELS is None or not logits.is_cuda or logits.dtype == torch.float64 or logits.stride(1) != 1:
        return logits.argmax(-1)
    ids: Tensor = KERNELS.likeliest(logits)
    return ids


class Truncation:
    """The rows that draw among some of the likeliest tokens only."""

    def __init__(self, rows: dict[int, Sampling], vocabulary: int, device: Any):
        most = [min(s.top_k or vocabulary, vocabulary) for s in rows.values()]
        self.rows = torch.tensor(list(rows), device=device)  # (R,)
        self.top_k = torch.tensor(most, device=device).unsqueeze(-1)
        self.top_p = torch.tensor([[s.top_p] for s in rows.values()], dtype=torch.float64, device=device)
        self.width = max(most)

    @classmethod
    def of(cls, settings: Sequence[Sampling], vocabulary: int, device: Any) -> Truncation | None:
        rows = {i: s for i, s in enumerate(settings) if s.temperature != GREEDY and (0 < s.top_k < vocabulary or s.top_p < 1)}
        return cls(rows, vocabulary, device) if rows else None

    def apply(self, logits: Tensor) -> Tensor:
        """logits (B, V), the likeliest of each row 0 -> the same, -inf where they are cut off."""
        own = logits[self.rows]  # (R, V)
        keys = rank_keys(own)
        ranked = keys.topk(self.width).values  # the likeliest first
        shares = weights(own.gather(-1, ids_of(ranked)))
        shares = shares.masked_fill(torch.arange(self.width, device=own.device) >= self.top_k, 0)
        sums = shares.cumsum(-1)
        kept = (sums - shares < self.top_p * sums[:, -1:]) & (shares > 0)  # those before it do not reach top_p yet
        last = ranked.gather(-1, kept.sum(-1, keepdim=True).clamp(min=1) - 1)
        return logits.index_copy(0, self.rows, own.masked_fill(keys < last, -math.inf))


def weights(logits: Tensor) -> Tensor:
    """logits (..., V), the highest 0 -> whole numbers in the proportions of their probabilities."""
    return (logits.exp() * CERTAIN).long()


def rank_keys(values: Tensor) -> Tensor:
    """float32 (R, V) -> int64 in the same order, but for equals, of which the first stands highest."""
    bits = (values + 0.0).view(torch.int32)  # of -0.0 it makes 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # as integers, negative floats stand in the wrong order
    return (ordered.long() << 32) - torch.arange(values.size(-1), device=values.device)


def ids_of(keys: Tensor) -> Tensor:
    """The ids of such keys."""
    return -keys & 0xFFFFFFFF
