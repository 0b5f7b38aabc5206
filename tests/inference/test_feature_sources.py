"""A source that is no text: frames of features through an encoder that makes one state of two frames."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.inference.test_encoder_decoder import SETTINGS, TOKENIZER, plain
from weft.core.errors import ConfigError
from weft.inference.beam_models import translate
from weft.inference.encoder_decoder import EncoderDecoderEngine
from weft.inference.engine import generate_all
from weft.inference.request import Request, Sampling
from weft.inference.translate import END, START
from weft.models.language.transformer import Transformer, TransformerConfig
from weft.nn.attention import padding_mask

FEATURES = 5


class Listener(Transformer):
    """Frames of sound (B, S, F) -> text."""

    def __init__(self) -> None:
        super().__init__(TransformerConfig(vocabulary=TOKENIZER.size, context=40, layers=2, heads=2, width=32))
        self.frames = nn.Linear(2 * FEATURES, 32)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        inside = torch.arange(source.size(1)) < (torch.full((len(source),), source.size(1)) if lengths is None else lengths)[:, None]
        source = nn.functional.pad(source * inside[..., None], (0, 0, 0, source.size(1) % 2))
        x, mask = self.frames(source.unflatten(1, (-1, 2)).flatten(2)), None
        if lengths is not None:
            mask = padding_mask(self.encoded_lengths(lengths), x.size(1))
        for block in self.encoder:
            x = block(x, mask)
        return x

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        return (lengths + 1) // 2


def model() -> Any:
    torch.manual_seed(0)
    made = Listener()
    for parameter in made.parameters():
        parameter.data.mul_(1.5)
    return made.eval()


def sources() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [3 * torch.randn(size, FEATURES, generator=draw) for size in (7, 2, 1, 12, 60, 4)]


REQUESTS = [Request((), sampling, source=source) for source, sampling in itertools.product(sources(), SETTINGS)]


def test_answers_do_not_depend_on_their_company() -> None:
    made = model()
    expected = [plain(generate_all(EncoderDecoderEngine(made, TOKENIZER, slots=1), [request]))[0] for request in REQUESTS]
    assert len({ids for _, ids, _ in expected}) > len(REQUESTS) // 2
    for settings in ({"slots": 3}, {"slots": 32}, {"slots": 7, "cached": False}):
        assert plain(generate_all(EncoderDecoderEngine(made, TOKENIZER, **settings), REQUESTS)) == expected, settings  # type: ignore[arg-type]


def test_the_likeliest_tokens_are_those_of_one_beam() -> None:
    made = model()
    for source in sources():
        [[best]] = translate(made, source[None], torch.tensor([len(source)]), START, END, beams=1, longest=12)
        [found] = generate_all(
            EncoderDecoderEngine(made, TOKENIZER), [Request((), Sampling(temperature=0.0, max_new_tokens=12), source=source)]
        )
        assert [token.id for token in found.tokens] == best.ids


def test_tokens_and_features_wait_for_each_other() -> None:
    """Requests of both kinds are encoded apart, whatever their order."""
    from weft.inference.encoder_decoder import SourceRequest, batches

    rows = [SourceRequest(n, Request((5, 6), source=source), TOKENIZER) for n, source in enumerate([None, *sources()[:2], None])]
    assert [[each.number for each in group] for group in batches(rows)] == [[0], [1, 2], [3]]


def test_a_source_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must have at least one, along its first dimension, not \(0, 5\)"):
        EncoderDecoderEngine(model(), TOKENIZER).add(Request((), source=torch.zeros(0, FEATURES)))
