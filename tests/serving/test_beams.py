"""The likeliest answers over HTTP: n best of a search, their scores, and what a search cannot be combined with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from tests.serving.small import served_filler, served_gpt, served_translator
from weft.inference.beam import Beam, penalty
from weft.inference.beam_models import continuations, translate
from weft.inference.translate import END, START


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    with running(toy_service(served_gpt(), served_translator(), served_filler())) as found:
        yield found


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/v1/completions", **body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_continuations_and_their_scores(small: Live) -> None:
    found = ask(small, model="gpt", prompt=["ab", "what"], beams=4, n=3, max_tokens=5, length_penalty=0.5)
    served = small.service.models["gpt"]
    assert [choice["index"] for choice in found["choices"]] == list(range(6))
    for number, prompt in enumerate(("ab", "what")):
        ids = list(prompt.encode())
        [best] = continuations(served.model, [ids], beam=Beam(4, 0.5), longest=5)
        for one, choice in zip(best[:3], found["choices"][3 * number : 3 * number + 3], strict=True):
            assert choice["text"] == served.tokens.decode(one.ids)
            assert choice["log_probability"] == pytest.approx(one.logprob, abs=1e-5)
            assert choice["score"] == pytest.approx(one.logprob / penalty(5, 0.5), abs=1e-5)
            read = ask(small, model="gpt", prompt=[ids + one.ids], echo=True, max_tokens=0, logprobs=0)["choices"][0]
            again = sum(read["logprobs"]["token_logprobs"][len(ids) :])
            assert choice["log_probability"] == pytest.approx(again, abs=1e-5)
    assert found["usage"] == {"prompt_tokens": 6, "completion_tokens": 30, "total_tokens": 36}
    assert found["choices"][0]["finish_reason"] == "length"


def test_one_beam_is_the_likeliest_token_each_time(small: Live) -> None:
    searched = ask(small, model="gpt", prompt="ab", beams=1, max_tokens=7, temperature=0)["choices"][0]
    assert searched["text"] == ask(small, model="gpt", prompt="ab", max_tokens=7, temperature=0)["choices"][0]["text"]


def test_translations_and_coverage(small: Live) -> None:
    served = small.service.models["translator"]
    ids = [*served.tokens.encode("zwei"), END]
    for coverage_penalty in (0.0, 0.7):
        body = {"model": "translator", "prompt": "zwei", "beams": 3, "n": 2, "max_tokens": 6}
        found = ask(small, **body, **({"coverage_penalty": coverage_penalty} if coverage_penalty else {}))["choices"]
        [best] = translate(
            served.model, torch.tensor([ids]), torch.tensor([len(ids)]), START, END, beams=3, longest=6, coverage_penalty=coverage_penalty
        )
        assert [choice["text"] for choice in found] == [served.tokens.decode(one.ids) for one in best[:2]]
        assert [choice["score"] for choice in found] == pytest.approx([one.score for one in best[:2]], abs=1e-5)


def test_a_search_waits_its_turn_and_does_not_depend_on_others(small: Live) -> None:
    alone = ask(small, model="gpt", prompt="ab", beams=8, max_tokens=30)["choices"][0]
    said: list[Any] = []

    def write() -> None:
        said.append(ask(small, model="gpt", prompt="x", max_tokens=60, seed=1)["choices"][0]["text"])

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert ask(small, model="gpt", prompt="ab", beams=8, max_tokens=30)["choices"][0] == alone
    for thread in threads:
        thread.join(20)
    assert len(set(said)) == 1
    assert small.idle()


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"stream": True}, "beams", "cannot be combined with stream"),
        ({"temperature": 0.5}, "beams", "cannot be combined with temperature"),
        ({"top_p": 0.5}, "beams", "cannot be combined with top_p"),
        ({"stop": ["a"]}, "beams", "cannot be combined with stop"),
        ({"logprobs": 1}, "beams", "cannot be combined with logprobs"),
        ({"echo": True}, "beams", "cannot be combined with echo"),
        ({"best_of": 2}, "beams", "cannot be combined with best_of"),
        ({"logit_bias": {"5": 1}}, "beams", "cannot be combined with logit_bias"),
        ({"n": 5}, "beams", "beams must be at least n, but 4 is below 5"),
        ({"beams": 0}, "beams", "greater than or equal to 1"),
        ({"beams": 33}, "beams", "less than or equal to 32"),
        ({"beams": 2.5}, "beams", "integer"),
        ({"length_penalty": -1}, "length_penalty", "greater than or equal to 0"),
        ({"coverage_penalty": 1}, "coverage_penalty", "has no source to cover"),
        ({"beams": None, "length_penalty": 1}, "length_penalty", "needs beams"),
        ({"model": "filler"}, "beams", "makes all tokens at once"),
        ({"prompt": "a" * 300}, "prompt", "maximum context length"),
    ],
)
def test_what_is_refused(small: Live, body: dict[str, Any], param: str, said: str) -> None:
    reply = small.post("/v1/completions", **{"model": "gpt", "prompt": "a", "max_tokens": 4, "beams": 4, **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text
    assert said in reply.json()["error"]["message"]
