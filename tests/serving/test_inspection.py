"""The route that tells attention weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service
from tests.serving.small import served_gpt, served_translator


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    with running(toy_service(served_gpt(), served_translator(), toy())) as found:
        yield found


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/inspect/attention", **body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_a_text(small: Live) -> None:
    found = ask(small, model="gpt", text="two héads")
    [view] = found["views"]
    assert (found["model"], found["answer"], view["name"], view["layers"]) == ("gpt", None, "text", 2)
    assert view["rows"] == view["columns"] == [*"two h", r"bytes:\xc3", r"bytes:\xa9", *"ads"]
    weights = np.array(view["weights"])
    assert weights.shape == (2, 2, 10, 10)
    assert np.allclose(weights.sum(-1), 1.0, atol=0.01)
    assert np.array_equal(weights, weights.round(3))
    second = ask(small, model="gpt", text="two héads", layer=1)["views"][0]
    assert (second["layers"], second["weights"]) == (2, view["weights"][1:])


def test_a_translation(small: Live) -> None:
    found = ask(small, model="translator", text="zwei")
    cross, encoder, decoder = found["views"]
    assert isinstance(found["answer"], str)
    assert (cross["layers"], encoder["layers"], decoder["layers"]) == (1, 2, 1)
    assert cross["columns"] == encoder["rows"] == [*"zwei", "⟨end⟩"]
    assert decoder["rows"] == ["⟨start⟩", *cross["rows"][:-1]]
    assert np.array(cross["weights"]).shape == (1, 2, len(cross["rows"]), 5)
    deeper = ask(small, model="translator", text="zwei", layer=1)["views"]
    assert [len(view["weights"]) for view in deeper] == [0, 1, 0]


def test_it_waits_its_turn_and_disturbs_nobody(small: Live) -> None:
    """Between two steps of an answer, in the model's own thread."""
    body = {"model": "gpt", "prompt": "a", "max_tokens": 60, "temperature": 0}
    alone = small.post("/v1/completions", **body).json()["choices"]
    with small.http.stream("POST", "/v1/completions", json={**body, "stream": True}) as stream:
        lines = stream.iter_lines()
        next(lines)
        [view] = ask(small, model="gpt", text="abc")["views"]
        rest = list(lines)
    assert len(view["rows"]) == 3
    assert rest[-2] == "data: [DONE]"
    assert small.post("/v1/completions", **body).json()["choices"] == alone
    assert small.idle()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "text: Field required"),
        ({"text": ""}, 400, "at least 1 character"),
        ({"text": 5}, 400, "valid string"),
        ({"text": "a" * 257}, 400, "at most 256 tokens, but this text has 257"),
        ({"text": "a" * 24, "model": "translator"}, 400, "at most 24 tokens, but this text has 25"),
        ({"text": "a" * 20_001}, 400, "at most 20000 characters"),
        ({"text": "a", "layer": 2}, 400, "layer must be from 0 to 1, not 2"),
        ({"text": "a", "layer": -1}, 400, "greater than or equal to 0"),
        ({"text": "a", "model": "none"}, 404, "no model is called 'none'"),
        ({"text": "a", "model": "toy"}, 400, "ToyModel has no attention"),
    ],
)
def test_what_is_refused(small: Live, body: dict[str, Any], status: int, said: str) -> None:
    reply = small.post("/inspect/attention", **{"model": "gpt", **body})
    assert reply.status_code == status
    assert said in reply.json()["error"]["message"]


def test_an_answer_has_a_size(small: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.serving.inspection.MOST_NUMBERS", 300)
    assert ask(small, model="gpt", text="a" * 10, layer=0)
    assert "ask for one layer" in small.post("/inspect/attention", model="gpt", text="a" * 10).json()["error"]["message"]


def test_odd_texts_are_read(small: Live) -> None:
    for text in (r"\ud800", r"a\u0000b", r"\ud83d"):
        content = f'{{"model": "gpt", "text": "{text}"}}'.encode()
        reply = small.http.post("/inspect/attention", content=content, headers={"content-type": "application/json"})
        assert reply.status_code in (200, 400)


def test_it_needs_the_key() -> None:
    with running(toy_service(keys=("secret",))) as locked:
        assert locked.post("/inspect/attention", text="a").status_code == 401
