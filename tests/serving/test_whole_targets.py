"""A model that makes all tokens at once behind the server: one pass or several, scaled lengths, alone and beside others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from tests.serving.small import served_filler, served_gpt
from weft.inference.mask_predict import MaskPredict, mask_predict
from weft.inference.translate import END, START


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    with running(toy_service(served_filler(), served_filler("cut", fixed_length=12), served_gpt())) as found:
        yield found


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/v1/completions", **{"model": "filler", **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def filled(live: Live, text: str, how: MaskPredict | None = None, name: str = "filler") -> tuple[str, list[float]]:
    served = live.service.models[name]
    ids = [*served.tokens.encode(text), END]
    [made] = mask_predict(served.model, torch.tensor([ids]), torch.tensor([len(ids)]), START, END, how)
    return served.tokens.decode(made.ids), made.logprobs


def test_one_pass_or_several_and_scaled_lengths(small: Live) -> None:
    for body, how in (
        ({}, None),
        ({"iterations": 1}, MaskPredict(iterations=1)),
        ({"iterations": 4}, MaskPredict(iterations=4)),
        ({"length_factor": 2.0, "iterations": 1}, MaskPredict(iterations=1, length_factor=2.0)),
        ({"length_factor": 0.5, "iterations": 2}, MaskPredict(iterations=2, length_factor=0.5)),
    ):
        found = ask(small, prompt="zwei", logprobs=0, **body)
        text, chances = filled(small, "zwei", how)
        choice = found["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == (text, "stop")
        assert choice["logprobs"]["token_logprobs"] == pytest.approx(chances, abs=1e-5)
        assert found["usage"]["completion_tokens"] == len(chances)
    once, twice = (len(filled(small, "zwei", MaskPredict(iterations=1, length_factor=factor, candidates=1))[1]) for factor in (1.0, 2.0))
    assert twice == 2 * once


def test_a_model_that_is_cut_at_its_end(small: Live) -> None:
    found = ask(small, model="cut", prompt="zwei", temperature=0)["choices"][0]
    assert found["text"] == filled(small, "zwei", name="cut")[0]
    assert found["finish_reason"] in ("stop", "length")
    about = {model["id"]: model.get("mask_predict") for model in small.http.get("/v1/models").json()["data"]}
    assert about["filler"] == {"iterations": 10, "candidates": 5, "length_factor": 1.0, "fixed": False, "longest": 48}
    assert about["cut"]["fixed"] is True
    assert about["gpt"] is None


def test_answers_do_not_depend_on_others(small: Live) -> None:
    texts = ["zwei", "a", "elf und zwoelf", "b", "drei", "siebenundzwanzig", "", "x y"]
    alone = [ask(small, prompt=text)["choices"][0]["text"] for text in texts]
    together = ask(small, prompt=texts)["choices"]
    assert [choice["text"] for choice in together] == alone
    with ThreadPoolExecutor(8) as pool:
        crowd = list(pool.map(lambda text: ask(small, prompt=text, iterations=len(text) % 3 + 1)["choices"][0]["text"], texts * 3))
    assert crowd == [filled(small, text, MaskPredict(iterations=len(text) % 3 + 1))[0] for text in texts] * 3
    assert small.idle()


def test_it_streams_as_one_piece_and_stops_where_it_is_told(small: Live) -> None:
    whole = ask(small, prompt="zwei")["choices"][0]["text"]
    with small.http.stream("POST", "/v1/completions", json={"model": "filler", "prompt": "zwei", "stream": True}) as stream:
        lines = [line for line in stream.iter_lines() if line]
    assert "".join(json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines[:-1]) == whole
    assert lines[-1] == "data: [DONE]"
    short = ask(small, prompt="zwei", max_tokens=2)
    assert (short["usage"]["completion_tokens"], short["choices"][0]["finish_reason"]) == (2, "length")
    assert whole.startswith(short["choices"][0]["text"])
    stop = next((letter for letter in whole if letter.isprintable() and letter != "\ufffd"), "")
    if stop:
        assert ask(small, prompt="zwei", stop=stop)["choices"][0]["text"] == whole[: whole.index(stop)]


def test_its_attention_is_shown(small: Live) -> None:
    for name in ("filler", "cut"):
        found = small.post("/inspect/attention", model=name, text="zwei").json()
        assert [view["name"] for view in found["views"]] == ["cross", "encoder", "decoder"]
        assert len(found["views"][0]["columns"]) == 5
        assert all(sum(row) == pytest.approx(1, abs=0.02) for head in found["views"][0]["weights"][0] for row in head)


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"n": 2}, "n", "one answer to a text"),
        ({"best_of": 2}, "best_of", "one answer to a text"),
        ({"echo": True}, "echo", "does not continue it"),
        ({"iterations": 0}, "iterations", "greater than or equal to 1"),
        ({"iterations": 101}, "iterations", "less than or equal to 100"),
        ({"length_factor": 0}, "length_factor", "greater than 0"),
        ({"length_factor": 2.1}, "length_factor", "less than or equal to 2"),
        ({"temperature": 0.8}, None, "none is drawn"),
        ({"presence_penalty": 1.0}, None, "presence_penalty is not offered"),
        ({"max_tokens": 49}, "max_tokens", "at most 48 tokens"),
        ({"prompt": "a" * 24}, "prompt", "at most 23 tokens"),
        ({"prompt": [300]}, "prompt", "300 is no token"),
        ({"model": "cut", "iterations": 3}, None, "one pass"),
        ({"model": "cut", "length_factor": 2.0}, None, "one pass"),
        ({"model": "gpt", "iterations": 3}, "iterations", "goes token by token"),
        ({"model": "gpt", "length_factor": 1.0}, "length_factor", "goes token by token"),
    ],
)
def test_what_is_refused(small: Live, body: dict[str, Any], param: str | None, said: str) -> None:
    reply = small.post("/v1/completions", **{"model": "filler", "prompt": "a", **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text
    assert said in reply.json()["error"]["message"]
