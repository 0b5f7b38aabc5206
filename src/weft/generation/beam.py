"""Beam search: the likeliest whole sequences, not the likeliest next tokens.

A hypothesis is scored by its log-probability over ((5 + length) / 6)^alpha (Wu et al., 2016, arXiv:1609.08144), END counted.
The search ends for a row when no hypothesis still alive can overtake: a log-probability only falls, so the best it can reach
is what it has now, at the longest length. Shapes: B rows, K beams, T time, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.errors import ConfigError
from weft.models.base import Decodes, offers

Score = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Prefixes (N, T), the row (N,) each belongs to, and which of the prefixes before (N,) it continues -> logits (N, V) of what follows."""


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]
    """Tokens after the start, END included where it ended."""
    log_probability: float
    score: float
    """What hypotheses are compared by."""


def penalty(length: int, alpha: float) -> float:
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def search(
    score: Score, rows: int, start: int, end: int, *, beams: int, longest: int, alpha: float = 0.6, device: Any = None
) -> list[list[Hypothesis]]:
    """The best hypotheses of each row, best first, at most `beams`. Those not ended after `longest` tokens compete as they are."""
    if beams < 1 or longest < 1:
        raise ConfigError(f"beam search needs at least one beam and one token, not {beams} and {longest}")
    ended: list[list[Hypothesis]] = [[] for _ in range(rows)]
    alive = torch.zeros(rows, 1, device=device)  # log-probabilities (B, K)
    ids = torch.full((rows, 1, 1), start, device=device)  # (B, K, T)
    row = torch.arange(rows, device=device)  # which rows are still searched
    origin = row.unsqueeze(1)  # (B, K) which prefix of the step before each continues
    for length in range(1, longest + 1):
        b, k, t = ids.shape
        logits = score(ids.view(b * k, t), row.repeat_interleave(k), origin.flatten())
        total = alive.unsqueeze(-1) + logits.float().log_softmax(-1).view(b, k, -1)  # (B, K, V)
        v = total.size(-1)
        best, place = total.view(b, k * v).topk(min(2 * beams, k * v))  # twice as many: at most half of them end
        parent, token = place // v, place % v
        collect(ended, row, ids, best, parent, token, end, length, alpha, beams)
        going = best.masked_fill(token == end, float("-inf"))
        alive, order = going.topk(min(beams, going.size(1)))
        parent, token = parent.gather(1, order), token.gather(1, order)
        origin = torch.arange(b, device=device)[:, None] * k + parent
        ids = torch.cat([ids.gather(1, parent.unsqueeze(-1).expand(-1, -1, t)), token.unsqueeze(-1)], dim=-1)
        heads = zip(row.tolist(), alive[:, 0].tolist(), strict=True)
        open_rows = [i for i, (number, head) in enumerate(heads) if not settled(ended[number], head, beams, longest, alpha)]
        if length == longest:
            leave(ended, row, ids, alive, alpha, length, beams)
        if not open_rows:
            break
        if len(open_rows) < len(row):
            chosen = torch.tensor(open_rows, device=device)
            row, ids, alive, origin = row[chosen], ids[chosen], alive[chosen], origin[chosen]
    return ended


def collect(
    ended: list[list[Hypothesis]],
    row: Tensor,
    ids: Tensor,
    best: Tensor,
    parent: Tensor,
    token: Tensor,
    end: int,
    length: int,
    alpha: float,
    beams: int,
) -> None:
    """Keep the hypotheses that end with this token, if they are among the best of their row."""
    ranked = (token == end) & (torch.arange(token.size(1), device=token.device) < beams)  # one beyond the beam was not chosen
    i, j = (ranked & (best > float("-inf"))).nonzero(as_tuple=True)
    sequences, values = ids[i, parent[i, j], 1:].tolist(), best[i, j].tolist()  # fetched at once: a device is waited for each time
    for number, tokens, value in zip(row[i].tolist(), sequences, values, strict=True):
        keep(ended[number], Hypothesis([*tokens, end], value, value / penalty(length, alpha)), beams)


def leave(ended: list[list[Hypothesis]], row: Tensor, ids: Tensor, alive: Tensor, alpha: float, length: int, beams: int) -> None:
    """What did not end in time competes too."""
    for number, sequences, values in zip(row.tolist(), ids[:, :, 1:].tolist(), alive.tolist(), strict=True):
        for tokens, value in zip(sequences, values, strict=True):
            if value > float("-inf"):
                keep(ended[number], Hypothesis(tokens, value, value / penalty(length, alpha)), beams)


def keep(held: list[Hypothesis], new: Hypothesis, beams: int) -> None:
    held.append(new)
    held.sort(key=lambda hypothesis: -hypothesis.score)
    del held[beams:]


def settled(held: list[Hypothesis], best_alive: float, beams: int, longest: int, alpha: float) -> bool:
    """Whether nothing alive can still enter the best of a row."""
    return len(held) == beams and held[-1].score >= best_alive / penalty(longest, alpha)


def translate(
    model: Any,
    source: Tensor,
    lengths: Tensor,
    start: int,
    end: int,
    *,
    beams: int = 5,
    longest: int = 0,
    alpha: float = 0.6,
    cached: bool = True,
) -> list[list[Hypothesis]]:
    """source (B, S) and lengths (B,) through an encoder and a decoder -> the best targets of each row, best first.

    cached: read every target once, where the model can.
    """
    with torch.inference_mode():
        memory = model.encode(source, lengths)
        cache = model.new_cache() if cached and offers(model, Decodes) else None
        if cache:
            cache.add_rows(len(source))

        def score(ids: Tensor, row: Tensor, origin: Tensor) -> Tensor:
            if cache is None:
                hidden = model.decode(ids, memory[row], lengths[row])
            else:
                if ids.size(1) > 1:
                    cache.take(origin.tolist())
                hidden = model.decode(ids[:, -1:], memory[row], lengths[row], cache)
                cache.count([1] * len(ids))
            logits: Tensor = model.head(hidden[:, -1])
            return logits

        most = longest or 3 * source.size(1) + 50
        if context := getattr(model.config, "context", 0):
            most = min(most, context - 1)
        return search(score, len(source), start, end, beams=beams, longest=most, alpha=alpha, device=source.device)
