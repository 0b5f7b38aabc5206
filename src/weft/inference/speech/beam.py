"""Beam searches for what was said: over prefixes of CTC (Graves & Jaitly, 2014; Hannun et al., 2014, arXiv:1408.2873) and over hypotheses
of a transducer, with a language model's opinion beside the recogniser's (shallow fusion).

A CTC prefix has the probability of all its paths, of those that end in a blank and of those that do not; a transducer's hypotheses that
say the same are added up. Shapes: T states of the encoder, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.models.base import EmitsLabels, NextTokenLogits, Transduces, need

BLANK = 0
NEVER = -math.inf
Prefix = tuple[int, ...]


@dataclass
class Fusion:
    """A language model that tells how likely each next token of a text is."""

    model: Any
    weight: float
    """Of its log-probabilities."""
    bonus: float = 0.0
    """For each token, as texts would else become shorter."""
    tokens: dict[int, int] = field(default_factory=dict)
    """Its id of each token of the recogniser; those that it has not are not said."""
    begin: int = 0
    """Its token that stands before a text."""
    known: dict[Prefix, dict[int, float]] = field(default_factory=dict)

    def score(self, before: Prefix) -> dict[int, float]:
        """What each next token adds to a hypothesis."""
        if before not in self.known:
            ids = [self.begin, *(self.tokens[token] for token in before)]
            device = next(self.model.parameters()).device
            with torch.inference_mode():
                hidden = self.model.hidden(torch.tensor([ids], device=device))[:, -1]
                log_probs = self.model.head(hidden)[0].float().log_softmax(-1).tolist()
            self.known[before] = {own: self.weight * log_probs[other] + self.bonus for own, other in self.tokens.items()}
        return self.known[before]


def fusion_of(model: Any, tokenizer: Any, own: Any, weight: float, bonus: float = 0.0) -> Fusion:
    """A language model beside a recogniser whose tokenizer is `own`: tokens are the same where they stand for the same text."""
    need(model, NextTokenLogits)
    if not 0.0 <= weight < math.inf:
        raise ConfigError(f"the weight of a language model must be at least 0, not {weight}")
    found = {}
    for token in range(getattr(own, "end", 2) + 1, own.size):
        other = tokenizer.encode(own.decode([token])).tolist()
        if len(other) == 1:
            found[token] = other[0]
    if not found:
        raise ConfigError("the language model has none of the recogniser's tokens; train it on texts with the same --data.tokenizer")
    newline = tokenizer.encode("\n").tolist()
    return Fusion(model, weight, bonus, found, newline[0] if len(newline) == 1 else next(iter(found.values())))


def log_add(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


def prefix_beam(log_probs: Sequence[Sequence[float]], beams: int, fusion: Fusion | None = None) -> list[tuple[Prefix, float]]:
    """Log-probabilities of each state (T, V) -> prefixes, the best first, with the score of each."""
    alive: dict[Prefix, list[float]] = {(): [0.0, NEVER, 0.0]}  # ends in blank, ends in its label, what the language model says
    for row in log_probs:
        likely = sorted(range(len(row)), key=row.__getitem__)[-(beams + 1) :]
        found: dict[Prefix, list[float]] = {}
        for prefix, (blank, label, said) in alive.items():
            whole, last = log_add(blank, label), prefix[-1] if prefix else None
            own = found.setdefault(prefix, [NEVER, NEVER, said])
            own[0] = log_add(own[0], whole + row[BLANK])
            if last is not None:
                own[1] = log_add(own[1], label + row[last])
            more = fusion.score(prefix) if fusion else None
            for token in likely:
                if token == BLANK or (more is not None and token not in more):
                    continue
                longer = found.setdefault((*prefix, token), [NEVER, NEVER, said + (more[token] if more else 0.0)])
                longer[1] = log_add(longer[1], (blank if token == last else whole) + row[token])
        ranked = sorted(found.items(), key=lambda item: -(log_add(item[1][0], item[1][1]) + item[1][2]))
        alive = dict(ranked[:beams])
    return [(prefix, log_add(blank, label) + said) for prefix, (blank, label, said) in alive.items()]


@torch.inference_mode()
def ctc_beam(model: EmitsLabels, source: Tensor, lengths: Tensor, beams: int, fusion: Fusion | None = None) -> list[list[int]]:
    """source (B, S, M), lengths (B,) -> the likeliest labels of each row."""
    log_probs = model.ctc_head(model.encode(source, lengths)).float().log_softmax(-1).tolist()
    sizes = model.encoded_lengths(lengths).tolist()
    return [list(prefix_beam(row[:size], beams, fusion)[0][0]) for row, size in zip(log_probs, sizes, strict=True)]


@dataclass
class Hypothesis:
    """Tokens of a transducer, their score, and its prediction network behind them."""

    ids: Prefix
    score: float
    symbols: Tensor
    """What the joint is given of the tokens (J,)."""
    state: dict[str, Tensor]
    """(1, …) each."""


@torch.inference_mode()
def transducer_beam(
    model: Transduces, source: Tensor, lengths: Tensor, start: int, beams: int, fusion: Fusion | None = None, most: int = 3
) -> list[list[int]]:
    """source (B, S, M), lengths (B,) -> the likeliest labels of each row; at most `most` tokens at one state."""
    frames, sizes = model.from_frame(model.encode(source, lengths)), model.encoded_lengths(lengths).tolist()
    return [_search(model, row[:size], start, beams, fusion, most) for row, size in zip(frames, sizes, strict=True)]


def _search(model: Transduces, frames: Tensor, start: int, beams: int, fusion: Fusion | None, most: int) -> list[int]:
    """frames (T, J) of one sound."""
    predicted, state = model.predict(torch.full((1, 1), start, device=frames.device))
    alive = [Hypothesis((), 0.0, model.from_symbols(predicted[:, 0])[0], state)]
    for frame in frames:
        finished: dict[Prefix, Hypothesis] = {}
        for _ in range(most + 1):
            log_probs = model.join(frame, torch.stack([each.symbols for each in alive])).float().log_softmax(-1)
            values, tokens = (each.tolist() for each in log_probs[:, 1:].topk(min(beams, log_probs.size(1) - 1)))
            blanks, further = log_probs[:, BLANK].tolist(), list[tuple[float, Hypothesis, int]]()
            for number, each in enumerate(alive):
                _merge(finished, Hypothesis(each.ids, each.score + blanks[number], each.symbols, each.state))
                more = fusion.score(each.ids) if fusion else None
                for value, token in zip(values[number], (token + 1 for token in tokens[number]), strict=True):
                    if more is None or token in more:
                        further.append((each.score + value + (more[token] if more else 0.0), each, token))
            worst = sorted((each.score for each in finished.values()), reverse=True)[:beams]
            enough = worst[-1] if len(worst) == beams else NEVER
            further = sorted((each for each in further if each[0] > enough), key=lambda each: -each[0])[:beams]
            if not further:
                break
            alive = _extended(model, further)
        alive = sorted(finished.values(), key=lambda each: -each.score)[:beams]
    return list(alive[0].ids)


def _merge(finished: dict[Prefix, Hypothesis], one: Hypothesis) -> None:
    """Ways to say the same are added up."""
    if other := finished.get(one.ids):
        other.score = log_add(other.score, one.score)
    else:
        finished[one.ids] = one


def _extended(model: Transduces, chosen: Sequence[tuple[float, Hypothesis, int]]) -> list[Hypothesis]:
    """Hypotheses with a token more each, all read by the prediction network at once."""
    device = chosen[0][1].symbols.device
    ids = torch.tensor([[token] for _, _, token in chosen], device=device)
    state = {name: torch.cat([each.state[name] for _, each, _ in chosen]) for name in chosen[0][1].state}
    predicted, state = model.predict(ids, state)
    symbols = model.from_symbols(predicted[:, 0])
    return [
        Hypothesis((*each.ids, token), score, symbols[i], {name: held[i : i + 1] for name, held in state.items()})
        for i, (score, each, token) in enumerate(chosen)
    ]
