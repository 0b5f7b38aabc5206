"""Targets made at once, not token by token: one pass, or several that improve on what is least sure.

Mask-predict (Ghazvininejad et al., 2019, arXiv:1904.09324): of N positions all are masked at first. After pass t of T the
N (T - t) / T least sure of all tokens are masked and predicted again from the others, which stay. Several of the likeliest
lengths are tried beside each other. The paper takes the one whose tokens are surest on average, which prefers a wrong length
that is easy to fill to the right one; here the length itself counts as much as one of the tokens. A length may be scaled, which
makes a target faster or slower: the number of tokens is then exactly the scaled one. A model of fixed positions makes one pass and
is cut at its first END. Rows do not see each other or padding, so a target does not depend on what it was made beside.

Shapes: B rows, K lengths of each, T positions, C lengths that can be predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.models.base import NonAutoregressiveDecoder, need

PAD = 0
PASSES = 10
"""Where none are asked for, as in the paper."""


@dataclass(frozen=True)
class MaskPredict:
    """How a target is made."""

    iterations: int = 0
    """Passes through the decoder; one takes all tokens as they are first predicted. 0 is 10, or 1 for a model that is cut at END."""
    candidates: int = 5
    """How many of the likeliest lengths are tried."""
    length_factor: float = 1.0
    """The predicted length is multiplied by this: 0.5 makes half as many tokens, 2 twice as many."""

    def after(self, own: Mapping[str, Any]) -> MaskPredict:
        """What was asked for, and what the settings of an objective say where nothing was."""
        iterations = self.iterations or int(own.get("iterations", 0))
        return MaskPredict(iterations, int(own.get("candidates", self.candidates)), self.length_factor)

    def resolve(self, model: NonAutoregressiveDecoder) -> MaskPredict:
        """What holds for a model; refused where it makes no target."""
        iterations = self.iterations or (1 if model.config.fixed_length else PASSES)
        for name, value in (("iterations", iterations), ("candidates", self.candidates)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")
        if not 0.0 < self.length_factor < math.inf:
            raise ConfigError(f"length_factor must be above 0, not {self.length_factor}")
        if model.config.fixed_length and (iterations > 1 or self.length_factor != 1.0):
            raise ConfigError("a model that is cut at END makes one pass and predicts no length: iterations and length_factor must be 1")
        return replace(self, iterations=iterations)


@dataclass(frozen=True)
class MaskPredictOutput:
    """A target made at once."""

    ids: list[int]
    """Its tokens; END is the last where the model gave one."""
    stop: str
    """Why it ended: "length", as it has all tokens of the predicted length or all positions are full, or "stop", cut at END."""
    iterations: int
    """Passes in which any of its tokens was predicted."""
    score: float
    """Log-probabilities of its tokens, each as it was last predicted, and of its length, over the number of tokens."""
    logprobs: list[float]
    """Of its tokens, each as it was last predicted."""


@torch.inference_mode()
def mask_predict(
    model: NonAutoregressiveDecoder, source: Tensor, lengths: Tensor, start: int, end: int, how: MaskPredict | None = None
) -> list[MaskPredictOutput]:
    """source (B, S) and lengths (B,) -> the target of each row."""
    need(model, NonAutoregressiveDecoder)
    how = (how or MaskPredict()).resolve(model)
    if not len(source):
        return []
    memory = model.encode(source, lengths)
    if model.config.fixed_length:
        return cut_at_end(model, memory, lengths, start, end)
    sizes, length = predict_lengths(model, memory, lengths, how)  # each (B, K)
    b, k = sizes.shape
    row = torch.arange(b, device=source.device).repeat_interleave(k)
    ids, sure = refine(model, memory[row], lengths[row], sizes.flatten(), start, end, how.iterations)
    score = (sure.sum(1).view(b, k) + length) / sizes
    chosen = torch.arange(b, device=source.device) * k + score.argmax(1)
    targets = zip(ids[chosen].tolist(), sure[chosen].tolist(), sizes.flatten()[chosen].tolist(), score.amax(1).tolist(), strict=True)
    return [MaskPredictOutput(tokens[:n], "length", passes(n, how.iterations), value, likely[:n]) for tokens, likely, n, value in targets]


def predict_lengths(model: NonAutoregressiveDecoder, memory: Tensor, lengths: Tensor, how: MaskPredict) -> tuple[Tensor, Tensor]:
    """The likeliest lengths of each target, scaled, and their log-probabilities: each (B, K)."""
    logits = model.length_logits(memory, lengths).log_softmax(-1)  # (B, C)
    likely, index = logits.topk(min(how.candidates, logits.size(1)))
    sizes = ((1 + index) * how.length_factor + 0.5).floor().clamp(min=1)
    longest = float(sizes.max())
    if longest > model.longest:
        raise ConfigError(f"length_factor {how.length_factor} makes {longest:.0f} tokens, of which this model can make {model.longest}")
    return sizes.long(), likely


def masked(size: int, iterations: int, step: int) -> int:
    """How many of `size` tokens are predicted in a pass, counted from 0."""
    return size * (iterations - step) // iterations


def passes(size: int, iterations: int) -> int:
    """In how many passes any of `size` tokens is predicted."""
    return sum(masked(size, iterations, step) > 0 for step in range(iterations))


def refine(
    model: NonAutoregressiveDecoder, memory: Tensor, lengths: Tensor, sizes: Tensor, start: int, end: int, iterations: int
) -> tuple[Tensor, Tensor]:
    """memory and lengths of the source, sizes (B,) of the targets -> tokens (B, T) and their log-probabilities, 0 behind the end."""
    longest = int(sizes.max())
    position = torch.arange(longest + 1, device=sizes.device)
    inside = position < sizes[:, None]  # (B, T + 1): the position behind the last token holds END, which tells where the end is
    ids = torch.full_like(inside, end, dtype=torch.int64)
    sure = torch.zeros_like(inside, dtype=torch.float32)
    for step in range(iterations):
        if not masked(longest, iterations, step):
            break
        number = sizes * (iterations - step) // iterations
        mask = inside & (ranks(sure.masked_fill(~inside, math.inf)) < number[:, None])
        hidden = model.decode_parallel(ids.masked_fill(mask, start), sizes + 1, memory, lengths)
        likely, token = logprobs(model, hidden, (PAD, start, end)).max(-1)
        ids, sure = torch.where(mask, token, ids), torch.where(mask, likely, sure)
    return ids[:, :longest], sure[:, :longest]


def cut_at_end(model: NonAutoregressiveDecoder, memory: Tensor, lengths: Tensor, start: int, end: int) -> list[MaskPredictOutput]:
    """All positions in one pass, up to the first END."""
    unknown = torch.full((len(memory), model.config.fixed_length), start, device=memory.device)
    likely, token = logprobs(model, model.decode_parallel(unknown, None, memory, lengths), (PAD, start)).max(-1)
    targets = []
    for ids, values in zip(token.tolist(), likely.tolist(), strict=True):
        size = ids.index(end) + 1 if end in ids else len(ids)
        score = math.fsum(values[:size]) / size
        targets.append(MaskPredictOutput(ids[:size], "stop" if end in ids else "length", 1, score, values[:size]))
    return targets


def ranks(values: Tensor) -> Tensor:
    """Where each value of a row would stand if they were sorted, the smallest first; of equal ones, the first."""
    order = values.argsort(dim=1, stable=True)
    rank = torch.arange(values.size(1), device=values.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, rank)


def logprobs(model: NonAutoregressiveDecoder, hidden: Tensor, special_tokens: tuple[int, ...]) -> Tensor:
    """States (B, T, D) -> log-probabilities (B, T, V) among the tokens that may stand there: all but special tokens."""
    logits: Tensor = model.head(hidden).float()
    logits[..., list(special_tokens)] = -math.inf
    return logits.log_softmax(-1)
