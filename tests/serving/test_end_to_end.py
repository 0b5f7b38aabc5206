"""The real engine behind the server: a small trained GPT and a small BERT."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

import weft
from tests.serving.conftest import Live, running
from weft.data.tokenizers.subwords import WordPiece
from weft.models.language.bert import TINY
from weft.runs.load import Loaded
from weft.serving.service import Service, serve_model

TEXT = "the quick brown fox jumps over the lazy dog and runs away.\n" * 40
SIZES = {"data.context": 32, "model.layers": 2, "model.heads": 2, "model.width": 32, "train.batch": 8, "train.steps": 60}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fox")
    (folder / "fox.txt").write_text(TEXT)
    changes = {**SIZES, "data.path": str(folder / "fox.txt"), "train.eval_examples": 8, "optim.lr": 1e-2, "train.device": "cpu"}
    weft.train(weft.recipe("gpt/text", changes), out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def loaded(run: Path) -> Loaded:
    return weft.load(run, "cpu")


@pytest.fixture(scope="module")
def fox(loaded: Loaded) -> Iterator[Live]:
    with running(Service({"fox": serve_model("fox", loaded, slots=4)})) as live:
        yield live


def ask(live: Live, **body: Any) -> list[dict[str, Any]]:
    reply = live.post("/v1/completions", **{"temperature": 0, **body})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["choices"]
    return found


def test_it_says_what_the_model_says(fox: Live, loaded: Loaded) -> None:
    for prompt in ("the quick", "runs", "t"):
        expected = loaded.generate(prompt, max_new_tokens=12, temperature=0.0).text
        assert ask(fox, prompt=prompt, max_tokens=12)[0]["text"] == expected


def test_an_answer_does_not_depend_on_others(fox: Live) -> None:
    prompts = ["the quick", "fox", "lazy dog and", "o", "jumps over the lazy dog", "runs"]
    alone = [ask(fox, prompt=prompt, max_tokens=8)[0]["text"] for prompt in prompts]
    assert [choice["text"] for choice in ask(fox, prompt=prompts, max_tokens=8)] == alone
    drawn = ask(fox, prompt="the", max_tokens=8, temperature=1, seed=7, n=3)
    assert [choice["text"] for choice in ask(fox, prompt="the", max_tokens=8, temperature=1, seed=7, n=3)] == [c["text"] for c in drawn]


def test_log_probabilities_are_the_models(fox: Live, loaded: Loaded) -> None:
    """As lm_eval asks for them: echo, one alternative, one token more."""
    prompts = [loaded.tokenizer.encode(text).tolist() for text in ("the quick brown", "zebra"[1:], "dog and runs away.")]
    for ids, choice in zip(prompts, ask(fox, prompt=prompts, max_tokens=1, echo=True, logprobs=1, seed=1234), strict=True):
        told = choice["logprobs"]
        with torch.inference_mode():
            expected = loaded.model(torch.tensor([ids]))[0].log_softmax(-1)
        assert told["token_logprobs"][0] is None
        assert len(told["token_logprobs"]) == len(ids) + 1
        for place, number in enumerate(ids[1:]):
            value, top = told["token_logprobs"][place + 1], told["top_logprobs"][place + 1]
            assert value == pytest.approx(float(expected[place, number]), abs=1e-5)
            assert max(top.values()) == pytest.approx(float(expected[place].max()), abs=1e-5)
            assert (value == max(top.values())) == (int(expected[place].argmax()) == number)


def test_streams_chat_and_the_end_of_the_context(fox: Live) -> None:
    with fox.client() as client:
        stream = client.completions.create(model="fox", prompt="the quick", max_tokens=12, temperature=0, stream=True)
        whole = ask(fox, prompt="the quick", max_tokens=12)[0]["text"]
        assert "".join(part.choices[0].text for part in stream) == whole
    assert ask(fox, prompt="t" * 31)[0]["finish_reason"] == "length"
    assert fox.post("/v1/completions", prompt="t" * 32).json()["error"]["code"] == "context_length_exceeded"
    refused = fox.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    assert refused.status_code == 400  # this model never met an upper-case letter, so it cannot write "User:"
    assert "came with no chat template and cannot write 'User:'" in refused.json()["error"]["message"]
    assert ask(fox, prompt="the «quick»", max_tokens=12)[0]["text"] == ask(fox, prompt="the quick", max_tokens=12)[0]["text"]
    (counted,) = (line for line in fox.http.get("/metrics").text.splitlines() if line.startswith("weft_unknown_characters_total{"))
    assert int(counted.split()[-1]) == 2
    assert fox.idle()


def test_embeddings_are_mean_states(fox: Live, loaded: Loaded) -> None:
    texts = ["the fox", "a dog", "runs away over the lazy dog"]
    found = np.array([one["embedding"] for one in fox.post("/v1/embeddings", input=texts).json()["data"]])
    with torch.inference_mode():
        for text, vector in zip(texts, found, strict=True):
            mean = loaded.model.hidden(torch.from_numpy(loaded.tokenizer.encode(text))[None])[0].mean(0)  # type: ignore[operator]
            assert np.allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def test_a_model_that_reads_both_ways_gives_sentence_embeddings_only(loaded: Loaded) -> None:
    tokenizer = WordPiece.train(TEXT, 200)
    torch.manual_seed(0)
    model = weft.core.config.override(TINY, {"vocabulary": tokenizer.size, "context": 32}).build().eval()
    both = Loaded(loaded.path, loaded.recipe, model, tokenizer, {})
    with running(Service({"bert": serve_model("bert", both)})) as live:
        found = live.post("/v1/embeddings", input=["the fox", "the lazy dog runs"]).json()["data"]
        special_tokens = tokenizer.special_tokens
        rows = [
            [special_tokens["cls"], *tokenizer.encode(text).tolist(), special_tokens["sep"]] for text in ("the fox", "the lazy dog runs")
        ]
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.tensor([row + [special_tokens["padding"]] * (int(lengths.max()) - len(row)) for row in rows])
        with torch.inference_mode():
            states = model.hidden(padded, None, lengths)
        seen = (torch.arange(padded.size(1)) < lengths[:, None])[..., None]
        means = torch.nn.functional.normalize((states * seen).sum(1) / lengths[:, None], dim=-1)
        assert np.allclose([one["embedding"] for one in found], means.numpy(), atol=1e-5)
        refused = live.post("/v1/completions", prompt="the")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported_model")


def test_the_command_serves_until_it_is_told_to_end(run: Path) -> None:
    command = [sys.executable, "-m", "weft", "serve", str(run), "--port", "0", "--name", "fox", "--api-key", "k1", "--api-key=k2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        try:
            assert line.startswith("serving fox at http://127.0.0.1:"), line
            with httpx.Client(base_url=line.split()[-1], timeout=20) as http:
                assert http.get("/v1/models").status_code == 401
                for key in ("k1", "k2"):
                    reply = http.post(
                        "/v1/completions", json={"prompt": "the", "max_tokens": 3}, headers={"Authorization": f"Bearer {key}"}
                    )
                    assert len(reply.json()["choices"][0]["text"]) == 3
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0
        finally:
            child.kill()
        assert child.stderr is not None
        assert child.stderr.read() == ""
