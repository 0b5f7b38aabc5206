"""A model of dialogues chats: its messages become the turns that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from weft.inference.translate import answer
from weft.runs.load import load
from weft.serving.service import serve_model


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder: Path = tmp_path_factory.mktemp("dialogue") / "run"
    small = {
        "train.eval_every": 0,
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 32,
        "data.dialogues": 200,
        "train.steps": 100,
        "optim.lr": 1e-2,
    }
    weft.train(weft.recipe("dialogue/transformer", small), out=folder, progress=False)
    with running(toy_service(serve_model("talk", load(f"{folder}@last", "cpu")))) as found:
        yield found


def test_it_says_what_its_best_answer_to_the_turns_is(live: Live) -> None:
    served = live.service.models["talk"]
    assert "chat" in served.offers
    turns = ["Hi", "Hello", "How are you ?"]
    messages = [{"role": "system", "content": "be kind"}]
    messages += [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]
    reply = live.post("/v1/chat/completions", model="talk", messages=messages, max_tokens=12)
    assert reply.status_code == 200, reply.text
    said = reply.json()["choices"][0]["message"]["content"]
    [whole] = answer(served.model, served.tokenizer, [" __eou__ ".join(turns)], beams=1)
    assert whole.startswith(said.rstrip()) and said
