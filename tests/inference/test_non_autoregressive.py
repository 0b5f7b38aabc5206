"""The engine of models that make all tokens at once: the same answers as without it, in any company."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.serving.small import small_filler
from weft.core.errors import ConfigError
from weft.data.tokenizers.base import ByteTokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.inference.engine import generate_all
from weft.inference.mask_predict import MaskPredict, mask_predict
from weft.inference.non_autoregressive import NonAutoregressiveEngine
from weft.inference.request import Request, Sampling
from weft.inference.translate import END, START

GREEDY = Sampling(temperature=0, max_new_tokens=60, logprobs=0)
SOURCES = [tuple(range(3, 3 + size)) for size in (1, 9, 4, 20, 2, 7, 13)]


def engine(slots: int = 4, mask_predict: MaskPredict | None = None, **settings: Any) -> NonAutoregressiveEngine:
    return NonAutoregressiveEngine(small_filler(**settings), Seq2SeqTokenizer(ByteTokenizer()), slots=slots, mask_predict=mask_predict)


@pytest.mark.parametrize("settings", [{}, {"fixed_length": 10}])
@pytest.mark.parametrize("slots", [1, 3, 32])
def test_answers_are_those_of_the_model_in_any_company(slots: int, settings: dict[str, Any]) -> None:
    made = engine(slots, **settings)
    answers = generate_all(made, [Request(ids, GREEDY) for ids in SOURCES])  # type: ignore[arg-type]
    for ids, answer in zip(SOURCES, answers, strict=True):
        source = torch.tensor([[*ids, END]])
        [expected] = mask_predict(made.model, source, torch.tensor([source.size(1)]), START, END)
        assert [token.id for token in answer.tokens] == expected.ids
        assert [token.logprob for token in answer.tokens] == pytest.approx(expected.logprobs, abs=1e-5)
        assert answer.finish_reason == ("stop" if not settings else expected.stop)


def test_requests_may_differ_in_how_they_are_filled() -> None:
    made = engine(mask_predict=MaskPredict(iterations=3))
    hows = [None, MaskPredict(iterations=1), MaskPredict(length_factor=2.0), MaskPredict(iterations=1)]
    answers = generate_all(made, [Request(SOURCES[2], GREEDY, mask_predict=how) for how in hows])  # type: ignore[arg-type]
    source = torch.tensor([[*SOURCES[2], END]])
    for how, answer in zip((MaskPredict(3), MaskPredict(1), MaskPredict(3, length_factor=2.0), MaskPredict(1)), answers, strict=True):
        [expected] = mask_predict(made.model, source, torch.tensor([source.size(1)]), START, END, how)
        assert [token.id for token in answer.tokens] == expected.ids


def test_a_request_that_is_cancelled_is_not_answered() -> None:
    made = engine()
    first, second = (made.add(Request(ids, GREEDY)) for ids in SOURCES[:2])
    made.cancel(first)
    assert made.waiting == 1
    assert set(made.step()) == {second}
    assert made.step() == {}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request((5,), Sampling(temperature=1.0)), "none is drawn"),
        (Request((5,), GREEDY, number=1), "ask for one answer"),
        (Request((5,), Sampling(temperature=0, logit_bias={5: 1.0})), "logit_bias is not offered"),
        (Request((5,), GREEDY, prompt_logprobs=True), "not for an echo"),
        (Request((999,), GREEDY), "from 0 to 258"),
        (Request(tuple([5] * 24), GREEDY), "does not fit a context of 24"),
        (Request((5,), GREEDY, mask_predict=MaskPredict(length_factor=3.0)), "at most 2, not 3.0"),
        (Request((5,), GREEDY, mask_predict=MaskPredict(iterations=-1)), "iterations must be at least 1"),
    ],
)
def test_what_is_refused(request_: Request, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        engine().add(request_)
