"""What a request may cost: texts that cannot fit, names of megabytes, searches that are many requests in one."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import ToyTokenizer, toy, toy_service
from tests.serving.test_load import place
from weft.core.registry import nearest
from weft.data.tokenizers.subwords import ByteBPE, WordPiece
from weft.serving import gate
from weft.serving.gate import Gate
from weft.serving.memory import MemoryBudget, parsed_size
from weft.serving.tokens import SLACK, TokenTexts, TooManyTokens

LONG = 1_000_000


class Counting(ToyTokenizer):
    """Remembers the longest text that it has encoded."""

    longest = 0

    def encode(self, text: str) -> np.ndarray:
        self.longest = max(self.longest, len(text))
        return super().encode(text)


@pytest.fixture
def counted() -> Iterator[tuple[Live, Counting]]:
    tokenizer = Counting()
    with running(toy_service(toy(tokenizer=tokenizer, context=64))) as live:
        yield live, tokenizer


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": "a" * LONG}, "prompt"),
        ("/v1/completions", {"prompt": ["a", "b" * LONG]}, "prompt"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a " * (LONG // 2)}]}, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 300}] * 3000}, "messages"),
        ("/v1/embeddings", {"input": "a" * LONG}, "input"),
        ("/tokenize", {"prompt": "a" * LONG}, "prompt"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a" * LONG}]}, "messages"),
    ],
)
def test_a_text_that_cannot_fit_is_not_read_to_its_end(counted: tuple[Live, Counting], path: str, body: dict[str, Any], param: str) -> None:
    live, tokenizer = counted
    reply = live.post(path, **body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", param)
    assert tokenizer.longest < LONG / 2 if path == "/tokenize" and "prompt" in body else tokenizer.longest <= 2 * (2 * 64 + SLACK)
    assert live.idle()


@pytest.mark.parametrize(
    "text",
    ["", "a", "word " * 2000, "x" * 20_000, " " * 20_000, "\n".join(["line of words"] * 1500), "häß🙂" * 3000, "</s>" * 2000],
    ids=lambda text: repr(text[:8]),
)
@pytest.mark.parametrize("kind", [ByteBPE, WordPiece])
def test_what_fits_has_the_tokens_of_the_whole_text(kind: Any, text: str) -> None:
    tokenizer = kind.train("a line of words and a word more\n" * 20, 400)
    tokens = TokenTexts(tokenizer)
    whole = tokenizer.encode(text).tolist()
    assert tokens.encode(text, special=False, most=len(whole)) == whole
    special = tokens.encode_special(text)
    assert tokens.encode_special(text, most=max(1, len(special))) == special


def test_memory_of_a_text_that_cannot_fit_is_that_of_the_context() -> None:
    tokens = TokenTexts(ByteBPE.train("a line of words\n" * 20, 300))
    text = "some words of it " * 250_000
    tracemalloc.start()
    with pytest.raises(TooManyTokens):
        tokens.encode(text, most=64)
    with pytest.raises(TooManyTokens):
        tokens.encode_special("</s>" + text, most=64)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * len(text)  # one copy of it, where special tokens are looked for


def test_special_tokens_of_a_chat_count_too() -> None:
    tokens = TokenTexts(ByteBPE.train("a line of words\n" * 20, 300, ["end"]))
    with pytest.raises(TooManyTokens):
        tokens.encode_special("</s>" * LONG, most=64)


def test_a_name_of_megabytes_is_answered_at_once(live: Live) -> None:
    begin = time.monotonic()
    choices = [f"recipe/{number}" for number in range(50)]
    assert "did you mean" not in nearest("r" * 4_000_000, choices)
    reply = live.post("/v1/completions", model="toy" * LONG, prompt="a")
    assert time.monotonic() - begin < 5.0  # comparing took 20 s
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "model_not_found"
    assert len(reply.content) < 1000
    assert "did you mean 'toy'" in live.post("/v1/completions", model="tyo", prompt="a").json()["error"]["message"]


def test_the_name_of_a_field_is_not_repeated_whole(live: Live) -> None:
    reply = live.post("/v1/completions", prompt="a", logit_bias={"9" * LONG: "x"})
    assert reply.status_code == 400
    assert len(reply.content) < 2000


def test_a_search_counts_as_all_its_hypotheses(live: Live) -> None:
    worker = live.service.models["toy"].worker
    reply = live.post("/v1/completions", prompt=["a"] * 2048, beams=32, max_tokens=1)
    assert reply.status_code == 400
    assert f"65536 answers were asked for at once, and the server takes {worker.capacity}" in reply.json()["error"]["message"]
    before = worker.refused
    worker._open += worker.capacity - 3  # as if so many were in work
    try:
        reply = live.post("/v1/completions", prompt="a", beams=4, max_tokens=1)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "queue_full")
    finally:
        worker._open -= worker.capacity - 3
    assert worker.refused == before + 4
    assert live.idle()


def test_large_bodies_wait_for_one_another() -> None:
    """More than fits at once: each has its turn, and small requests do not wait."""

    async def work() -> tuple[list[int], int, int]:
        budget, order, most = MemoryBudget(100), list[int](), 0

        async def one(number: int, size: int) -> None:
            nonlocal most
            await budget.take(size)
            order.append(number)
            most = max(most, budget.used)
            await asyncio.sleep(0.001)
            budget.give_back(size)

        async with asyncio.timeout(5):
            await asyncio.gather(*(one(number, size) for number, size in enumerate([60, 60, 500, 10, 30, 60, 100])))
        return order, most, budget.used

    order, most, used = asyncio.run(work())
    assert order == [0, 1, 2, 3, 4, 5, 6]
    assert (most, used) == (500, 0)


def test_one_that_gives_up_waiting_holds_nothing() -> None:
    async def work() -> int:
        budget = MemoryBudget(100)
        await budget.take(80)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await budget.take(50)
        await budget.take(20)
        return budget.used

    assert asyncio.run(work()) == 100


def test_parsed_values_are_counted_before_they_are_parsed() -> None:
    for body in (b'{"a": [' + b"[]," * 10_000 + b"0]}", b'["' + b'ab","' * 10_000 + b'"]', b"[" + b"1234567," * 10_000 + b"0]"):
        tracemalloc.start()
        parsed = json.loads(body)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert parsed is not None
        assert size <= parsed_size(body) + 5000


def test_all_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODIES_BYTES", 3000)
    with running(toy_service(body_bytes=1500)) as live, ExitStack() as opened:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1400\r\n\r\n"
        slow = [opened.enter_context(socket.create_connection(place(live))) for _ in range(3)]
        for client in slow[:2]:
            client.sendall(head + b" " * 1300)
        while live.http.get("/health").status_code == 200 and gate_of(live).bytes < 2600:
            pass
        slow[2].sendall(head + b" " * 1300)
        said = b""
        while b"}" not in said and (more := slow[2].recv(10_000)):  # head and body may come apart
            said += more
        assert said.startswith(b"HTTP/1.1 503")
        assert b'"code":"busy"' in said
        assert live.post("/v1/completions", prompt="a").status_code == 200
        slow[0].close()
        while gate_of(live).bytes > 1300:
            live.http.get("/health")


def gate_of(live: Live) -> Gate:
    """In the stack of the application's middleware."""
    layer: Any = live.server.config.app.middleware_stack  # type: ignore[union-attr]
    while not isinstance(layer, Gate):
        layer = layer.app
    return layer
