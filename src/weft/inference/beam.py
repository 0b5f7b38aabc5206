"""Beam search: the likeliest whole sequences, not the likeliest next tokens.

A hypothesis is scored by its log-probability over ((5 + length) / 6)^alpha, END counted, and, where a source is to be covered, plus
beta times the sum over the source's tokens of log(min(attention that each got from all of the target, 1)) (Wu et al., 2016,
arXiv:1609.08144, equation 14). The search ends for a row when no hypothesis still alive can overtake: a log-probability only falls and
coverage adds at most 0, so the best that one can reach is what it has now, at the longest length.

Where a row has a constraint, only tokens that it allows are followed. Their log-probabilities stay those of the model, so that the best
is the likeliest of the sequences that are allowed.
Shapes: B rows, K beams, T time, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.constraint import Constraint
from weft.inference.constraints import Constraints

Score = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Prefixes (N, T), the row (N,) each belongs to, and which of the prefixes before (N,) it continues -> logits (N, V) of what follows."""
Cover = Callable[[Sequence[Sequence[int]], Sequence[int]], list[float]]
"""Whole sequences and the row that each belongs to -> how well each covers its source, at most 0."""


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]
    """Tokens after the start, END included where it ended."""
    logprob: float
    score: float
    """What hypotheses are compared by."""


BeamSteps = Generator[None, None, list[list[Hypothesis]]]
"""A search that pauses after each token; what it returns at its end are the best hypotheses of each row, best first."""


@dataclass(frozen=True)
class Beam:
    """How wide to search, and what is best."""

    beams: int = 5
    """Hypotheses that are followed at once, and most that are kept."""
    length_penalty: float = 0.6
    """How much longer sequences are favoured: 0 compares log-probabilities, 1 nearly their means."""
    coverage_penalty: float = 0.0
    """How much a source that is not covered counts."""

    def check(self) -> None:
        """Refuse settings that search for nothing, or for which stopping early would be wrong."""
        if self.beams < 1:
            raise ConfigError(f"beam search needs at least one beam, not {self.beams}")
        for name, value in (("length_penalty (alpha)", self.length_penalty), ("coverage_penalty (beta)", self.coverage_penalty)):
            if not 0.0 <= value < math.inf:
                raise ConfigError(f"{name} must be at least 0, not {value}")

    def score(self, logprob: float, length: int, covered: float) -> float:
        return logprob / penalty(length, self.length_penalty) + self.coverage_penalty * covered


def penalty(length: int, length_penalty: float) -> float:
    return float(((5 + length) / 6) ** length_penalty)


def finish(steps: BeamSteps) -> list[list[Hypothesis]]:
    """Run a search to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            best: list[list[Hypothesis]] = ended.value
            return best


def search(
    score: Score, rows: int, start: int, end: int, *, beams: int, longest: int, length_penalty: float = 0.6, device: Any = None
) -> list[list[Hypothesis]]:
    """The best hypotheses of each row, best first, at most `beams`. Those not ended after `longest` tokens compete as they are."""
    begin = torch.full((rows,), start, device=device)
    return finish(searching(score, begin, end, Beam(beams, length_penalty), longest))


@torch.inference_mode()
def searching(
    score: Score,
    start: Tensor,
    end: int,
    beam: Beam,
    longest: int,
    cover: Cover | None = None,
    constraints: Sequence[Constraint | None] = (),
    rooms: Sequence[int] = (),
) -> BeamSteps:
    """As `search`, from a token of its own for each row (B,), and step by step. rooms: the longest answer of each row that its constraint
    is told of, where that is not the same for all."""
    beam.check()
    if longest < 1:
        raise ConfigError(f"beam search needs room for at least one token, not {longest}")
    rows, device, beams = len(start), start.device, beam.beams
    best = BestHypotheses(rows, beam, cover)
    allowed, rooms = Constraints(constraints), rooms or [longest] * rows
    alive = torch.zeros(rows, 1, device=device)  # log-probabilities (B, K)
    ids = start.view(rows, 1, 1)  # (B, K, T)
    row = torch.arange(rows, device=device)  # which rows are still searched
    origin = row.unsqueeze(1)  # (B, K) which prefix of the step before each continues
    for length in range(1, longest + 1):
        b, k, t = ids.shape
        logits = score(ids.view(b * k, t), row.repeat_interleave(k), origin.flatten())
        total = alive.unsqueeze(-1) + logits.float().log_softmax(-1).view(b, k, -1)  # (B, K, V)
        v = total.size(-1)
        if allowed:
            left = [rooms[number] - length + 1 for number in row.tolist() for _ in range(k)]
            total = total.masked_fill(allowed.forbidden(v, left, device).view(b, k, v), -math.inf)
        values, index = total.view(b, k * v).topk(min(2 * beams, k * v))  # twice as many: at most half of them end
        parent, token = index // v, index % v
        best.add_ended(row, ids, values, parent, token, end)
        going = values.masked_fill(token == end, -math.inf)
        alive, order = going.topk(min(beams, going.size(1)))
        parent, token = parent.gather(1, order), token.gather(1, order)
        origin = torch.arange(b, device=device)[:, None] * k + parent
        if allowed:
            allowed.advance(token.flatten().tolist(), origin.flatten().tolist(), (alive > -math.inf).flatten().tolist())
        ids = torch.cat([ids.gather(1, parent.unsqueeze(-1).expand(-1, -1, t)), token.unsqueeze(-1)], dim=-1)
        if length == longest:
            best.add_alive(row, ids, alive)
            break
        heads = zip(row.tolist(), alive[:, 0].tolist(), strict=True)
        open_rows = [i for i, (number, head) in enumerate(heads) if not finished(best.of_row[number], head, beam, longest)]
        if not open_rows:
            break
        if len(open_rows) < len(row):
            if allowed:
                allowed.of_rows([i * alive.size(1) + j for i in open_rows for j in range(alive.size(1))])
            chosen = torch.tensor(open_rows, device=device)
            row, ids, alive, origin = row[chosen], ids[chosen], alive[chosen], origin[chosen]
        yield
    return best.of_row


class BestHypotheses:
    """The best hypotheses of each row so far."""

    def __init__(self, rows: int, beam: Beam, cover: Cover | None):
        self.beam, self.cover = beam, cover if beam.coverage_penalty else None
        self.of_row: list[list[Hypothesis]] = [[] for _ in range(rows)]

    def add_ended(self, row: Tensor, ids: Tensor, logprobs: Tensor, parent: Tensor, token: Tensor, end: int) -> None:
        """Keep the hypotheses that end with this token, if they are among the best of their row."""
        ranked = (token == end) & (torch.arange(token.size(1), device=token.device) < self.beam.beams)  # one beyond the beam was not chosen
        i, j = (ranked & (logprobs > -math.inf)).nonzero(as_tuple=True)
        sequences, values = (
            ids[i, parent[i, j], 1:].tolist(),
            logprobs[i, j].tolist(),
        )  # fetched at once: a device is waited for each time
        self._keep(row[i].tolist(), [[*tokens, end] for tokens in sequences], values)

    def add_alive(self, row: Tensor, ids: Tensor, alive: Tensor) -> None:
        """What did not end in time competes too."""
        i, j = (alive > -math.inf).nonzero(as_tuple=True)
        self._keep(row[i].tolist(), ids[i, j, 1:].tolist(), alive[i, j].tolist())

    def _keep(self, rows: Sequence[int], sequences: Sequence[list[int]], values: Sequence[float]) -> None:
        covered = self.cover(sequences, rows) if self.cover and rows else [0.0] * len(rows)
        for number, ids, value, share in zip(rows, sequences, values, covered, strict=True):
            best = self.of_row[number]
            best.append(Hypothesis(ids, value, self.beam.score(value, len(ids), share)))
            best.sort(key=lambda hypothesis: -hypothesis.score)
            del best[self.beam.beams :]


def finished(best: list[Hypothesis], best_alive: float, beam: Beam, longest: int) -> bool:
    """Whether nothing alive can still enter the best of a row."""
    if best_alive == -math.inf:
        return True
    return len(best) == beam.beams and best[-1].score >= best_alive / penalty(longest, beam.length_penalty)
