"""A Transformer that copies: what it reads of unknown words, the same answer by every way of decoding, and its attention losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.tokenizers.base import WordTokenizer
from weft.data.tokenizers.extended_vocabulary import ExtendedVocabulary
from weft.inference.encoder_decoder import EncoderDecoderEngine
from weft.inference.engine import generate_all
from weft.inference.request import Request, Sampling
from weft.inference.translate import answer, best_answers
from weft.models.language.pointer_generator import PointerGeneratorConfig

TOKENIZER = ExtendedVocabulary(WordTokenizer(["<unk>", *"abcdefgh"]), 4)
KNOWN = TOKENIZER.known
TEXTS = ["a b Kuroro", "Gon c Killua d Gon", "e", "Hisoka Illumi Feitan Shalnark Nobunaga"]


def model(copying: float = 0.0, **settings: Any) -> Any:
    """copying: how much surer than at first it is that it copies."""
    torch.manual_seed(0)
    made = PointerGeneratorConfig(vocabulary=TOKENIZER.size, oov_words=4, context=24, layers=2, heads=2, width=16, **settings).build()
    for parameter in made.parameters():
        parameter.data.mul_(2.0)
    made.gate.bias.data.fill_(-copying)
    return made.eval()


@torch.no_grad()
def test_unknown_words_are_read_alike_and_said_apart() -> None:
    """Ids behind the vocabulary exchanged in the source are exchanged in the answer, whichever they are."""
    made, source, target = model(), torch.tensor([[4, KNOWN, 5, KNOWN + 1, 2]]), torch.tensor([[1, 4, KNOWN]])
    found = made(source, None, target).exp()
    other = made(torch.tensor([[4, KNOWN + 3, 5, KNOWN, 2]]), None, torch.tensor([[1, 4, KNOWN + 2]])).exp()
    exchanged = found[..., [*range(KNOWN), KNOWN + 1, KNOWN + 3, KNOWN + 2, KNOWN]]
    torch.testing.assert_close(other, exchanged)
    torch.testing.assert_close(found.sum(-1), torch.ones(1, 3), atol=1e-5, rtol=0)
    assert (found[..., KNOWN : KNOWN + 2] > 1e-3).all()
    assert (found[..., KNOWN + 2 :] < 1e-20).all()  # not in the source


@torch.no_grad()
def test_decoding_with_a_cache_gives_the_same() -> None:
    made, source, lengths = model(), torch.tensor([[4, KNOWN, 5, 2], [6, 2, 0, 0]]), torch.tensor([4, 2])
    target = torch.tensor([[1, 4, KNOWN, 5], [1, 7, 8, 9]])
    memory, state = made.encode(source, lengths), made.new_state()
    state.add_sources(memory, lengths)
    steps = []
    for time in range(target.size(1)):
        steps.append(made.decode(target[:, time : time + 1], state.encoder.states, state.encoder.lengths, state))
        state.count([1, 1])
    torch.testing.assert_close(torch.cat(steps, 1), made.decode(target, memory, lengths), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("copying", [0.0, 30.0])
def test_beam_search_and_engine_say_the_words_of_the_source(copying: float) -> None:
    made = model(copying)
    best = answer(made, TOKENIZER, TEXTS, beams=1, length_penalty=0.0)
    sampling = Sampling(temperature=0.0, max_new_tokens=60)
    ids = [tuple(TOKENIZER.encode(text).tolist()) for text in TEXTS]
    requests = [Request(row, sampling, source_text=text) for row, text in zip(ids, TEXTS, strict=True)]
    for cached in (True, False):
        engine = EncoderDecoderEngine(made, TOKENIZER, slots=3, cached=cached)
        assert [found.text for found in generate_all(engine, requests)] == best
    if copying:
        for text, said in zip(TEXTS, best, strict=True):
            assert set(said.split()) <= {*text.split()[:4], "<unk>"}
        assert len(best_answers(made, TOKENIZER, TEXTS, beams=3)[1]) == 3
    assert any(word in said for word, said in zip(("Kuroro", "Gon", "", "Hisoka"), best, strict=True) if word) or not copying


def test_settings_that_make_no_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="layerwise"):
        model(encoder_output="layerwise")
    with pytest.raises(ConfigError, match=r"--model.vocabulary 3 must be larger than --model.oov_words 3"):
        PointerGeneratorConfig(vocabulary=3, oov_words=3, context=8).build()
