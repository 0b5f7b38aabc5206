"""A model with an encoder and a decoder behind the server: the prompt is a source, and the answer a text of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from tests.serving.small import served_gpt, served_translator
from weft.inference.beam_models import translate
from weft.inference.translate import END, START


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    with running(toy_service(served_translator(), served_gpt())) as found:
        yield found


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/v1/completions", model="translator", **body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def likeliest(live: Live, ids: list[int], longest: int) -> str:
    served = live.service.models["translator"]
    best = translate(served.model, torch.tensor([ids]), torch.tensor([len(ids)]), START, END, beams=1, longest=longest)[0][0]
    return served.tokens.decode(best.ids)


def test_the_answer_is_the_likeliest_target_where_nobody_says_otherwise(small: Live) -> None:
    ids = [*small.service.models["translator"].tokens.encode("zwei"), END]
    found = ask(small, prompt="zwei")
    assert found["choices"][0]["text"] == likeliest(small, ids, 23)
    assert found["usage"]["prompt_tokens"] == 5
    assert found["usage"]["completion_tokens"] <= 23
    several = ask(small, prompt=["zwei", "a"], max_tokens=6)["choices"]
    tokens = ask(small, prompt=[ids, [*ids[:-1]]], max_tokens=6)["choices"]  # an end that is missing is put there
    assert several[0]["text"] == tokens[0]["text"] == tokens[1]["text"] == likeliest(small, ids, 6)


def test_it_streams_token_by_token(small: Live) -> None:
    body = {"prompt": "zwei", "max_tokens": 9, "temperature": 1, "seed": 5, "ignore_eos": True, "logprobs": 2}
    whole = ask(small, **body)["choices"][0]
    with small.http.stream("POST", "/v1/completions", json={**body, "model": "translator", "stream": True}) as stream:
        lines = [line for line in stream.iter_lines() if line]
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-1]]
    assert len(choices) == 9
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [n for choice in choices for n in choice["logprobs"]["token_logprobs"]] == whole["logprobs"]["token_logprobs"]
    assert small.idle()


def test_several_answers_and_the_best_of_them(small: Live) -> None:
    drawn = ask(small, prompt="zwei", max_tokens=5, temperature=1, seed=3, n=3)["choices"]
    assert len({choice["text"] for choice in drawn}) > 1
    [best] = ask(small, prompt="zwei", max_tokens=5, temperature=1, seed=3, best_of=3, n=1)["choices"]
    assert best["text"] in [choice["text"] for choice in drawn]


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"prompt": "a" * 24}, "prompt", "at most 23 tokens, and an end token, but a text of 25 was asked for"),
        ({"prompt": "a", "max_tokens": 24}, "max_tokens", "an answer of 24"),
        ({"prompt": "a", "echo": True}, "echo", "answers a text and does not continue it"),
        ({"prompt": [300]}, "prompt", "300 is no token"),
    ],
)
def test_what_is_refused(small: Live, body: dict[str, Any], param: str, said: str) -> None:
    reply = small.post("/v1/completions", model="translator", **body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert said in reply.json()["error"]["message"]


def test_it_neither_chats_nor_embeds(small: Live) -> None:
    chat = small.post("/v1/chat/completions", model="translator", messages=[{"role": "user", "content": "hi"}])
    assert (chat.status_code, chat.json()["error"]["code"]) == (400, "unsupported_model")
    assert chat.json()["error"]["message"].endswith("cannot hold a conversation; it turns one text into another, at /v1/completions")
    assert small.post("/v1/embeddings", model="translator", input="a").json()["error"]["code"] == "unsupported_model"
    offers = {model["id"]: model["offers"] for model in small.http.get("/v1/models").json()["data"]}
    assert offers == {"translator": ["completions"], "gpt": ["completions", "chat", "embeddings"]}
