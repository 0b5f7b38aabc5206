"""A recurrent model behind the same server, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.recurrent import built
from tests.serving.conftest import Live, running
from tests.serving.small import served
from weft.data.tokenizers.base import ByteTokenizer
from weft.inference.generate import generate
from weft.serving.service import Service

TEXT = "the cat sat on the mat and the dog"


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with running(Service({"gru": served("gru", built(vocabulary=256), ByteTokenizer())})) as live:
        yield live


def test_it_completes_streams_and_searches(server: Live) -> None:
    expected = generate(built(vocabulary=256), ByteTokenizer(), TEXT, max_new_tokens=30, temperature=0.0)[0].text
    asked = {"prompt": TEXT, "max_tokens": 30, "temperature": 0, "logprobs": 1}
    whole = server.post("/v1/completions", **asked).json()["choices"][0]
    assert whole["text"] == expected and whole["finish_reason"] == "length" and len(whole["logprobs"]["tokens"]) == 30
    with server.http.stream("POST", "/v1/completions", json={**asked, "stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    assert "".join(json.loads(line)["choices"][0]["text"] for line in lines[:-1]) == expected
    best = server.post("/v1/completions", prompt=TEXT, max_tokens=8, beams=3, n=2).json()["choices"]
    assert len(best) == 2 and best[0]["score"] >= best[1]["score"]


def test_several_answers_share_their_prompt_and_there_is_no_limit(server: Live) -> None:
    model = server.service.models["gru"]
    assert model.describe()["max_model_len"] is None and model.offers[0] == "completions"
    answers = server.post("/v1/completions", prompt=TEXT * 3, max_tokens=5, n=4, seed=1).json()["choices"]
    again = server.post("/v1/completions", prompt=TEXT * 3, max_tokens=5, n=4, seed=1).json()["choices"]
    assert [one["text"] for one in answers] == [one["text"] for one in again] and len({one["text"] for one in answers}) > 1
    assert model.worker.engine.prefix_cache.hit_tokens > len(TEXT)  # type: ignore[union-attr]
    server.post("/v1/completions", prompt=TEXT, max_tokens=1)
    model.model.tokens_read = 0
    server.post("/v1/completions", prompt=TEXT, max_tokens=1000, temperature=0)
    assert model.model.tokens_read <= len(TEXT) + 1000
