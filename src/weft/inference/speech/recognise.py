"""What was said, by a recogniser of any kind: CTC, transducer, or attention; and when, where a head for CTC can tell.

Shapes: B sounds, S frames, M features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import CapabilityError, ConfigError
from weft.inference.beam_models import translate
from weft.inference.speech.beam import Fusion, ctc_beam, transducer_beam
from weft.inference.speech.greedy import ctc_greedy, transducer_greedy
from weft.models.base import EmitsLabels, EncoderDecoder, Transduces, offers
from weft.nn.alignment.viterbi import forced_alignment, spans

END_WEIGHT = 0.6
"""Length penalty of the beam search of attention."""


@dataclass(frozen=True)
class Decoding:
    """How to search for what was said."""

    beams: int = 1
    """Hypotheses that are followed at once; 1 takes the likeliest token each time."""
    fusion: Fusion | None = None
    """A language model whose opinion counts, of CTC and transducers."""
    times: bool = False
    """Whether to tell when each token was said."""

    def check(self) -> None:
        if self.beams < 1:
            raise ConfigError(f"recognition needs at least one hypothesis (--beams), not {self.beams}")


@dataclass
class Recognised:
    """The tokens of a sound, without START and END, and the frames of each: its first, and the one behind its last."""

    ids: list[int]
    spans: list[tuple[int, int]] = field(default_factory=list)


@torch.inference_mode()
def recognise(model: Any, source: Tensor, lengths: Tensor, start: int, end: int, how: Decoding = Decoding()) -> list[Recognised]:  # noqa: B008
    """source (B, S, M), lengths (B,) -> what was said in each."""
    how.check()
    there = (lengths > 0).nonzero().squeeze(1)
    found = [Recognised([]) for _ in range(len(lengths))]
    if not len(there):
        return found
    source, lengths = source[there, : int(lengths.max())], lengths[there]
    said = _tokens(model, source, lengths, start, end, how)
    for row, ids in zip(there.tolist(), said, strict=True):
        found[row].ids = ids
    if how.times:
        for row, when in zip(there.tolist(), times(model, source, lengths, said), strict=True):
            found[row].spans = when
    return found


def _tokens(model: Any, source: Tensor, lengths: Tensor, start: int, end: int, how: Decoding) -> list[list[int]]:
    if offers(model, EncoderDecoder):
        if how.fusion:
            raise ConfigError(
                f"a language model is fused with CTC or a transducer, not with {type(model).__name__}, which attends; leave it out"
            )
        best = translate(model, source, lengths, start, end, beams=how.beams, length_penalty=END_WEIGHT if how.beams > 1 else 0.0)
        return [spoken(each[0].ids, end) for each in best]
    plain = how.beams == 1 and how.fusion is None
    if offers(model, Transduces):
        if plain:
            return transducer_greedy(model, source, lengths, start)
        return transducer_beam(model, source, lengths, start, how.beams, how.fusion)
    if offers(model, EmitsLabels):
        return ctc_greedy(model, source, lengths) if plain else ctc_beam(model, source, lengths, how.beams, how.fusion)
    raise CapabilityError(f"{type(model).__name__} recognises no speech: it offers neither EmitsLabels, Transduces nor EncoderDecoder")


def spoken(ids: Sequence[int], end: int) -> list[int]:
    """Tokens up to END."""
    return list(ids[: ids.index(end)]) if end in ids else list(ids)


@torch.inference_mode()
def times(model: Any, source: Tensor, lengths: Tensor, said: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """The frames of each token of each sound, by forced alignment; empty lists where no path exists."""
    if not offers(model, EmitsLabels):
        raise CapabilityError(f"{type(model).__name__} has no head for CTC, so when each word was said is not known")
    log_probs = model.ctc_head(model.encode(source, lengths)).log_softmax(-1)
    sizes = torch.tensor([len(ids) for ids in said], device=source.device)
    longest = max(1, int(sizes.max()))
    labels = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in said], device=source.device)
    states = model.encoded_lengths(lengths)
    paths = forced_alignment(log_probs, states, labels, sizes).tolist()
    factor = -(-source.size(1) // log_probs.size(1))  # frames of a state
    most = lengths.tolist()
    return [
        [(first * factor, min(last * factor, frames)) for first, last in spans(path, len(ids))]
        for path, ids, frames in zip(paths, said, most, strict=True)
    ]
