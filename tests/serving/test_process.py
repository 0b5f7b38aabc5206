"""The server as a process: how it ends, and where it listens."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from weft.core.errors import ConfigError
from weft.serving import process

ENDLESS = {"prompt": " ", "temperature": 0, "ignore_eos": True, "stream": True}
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def served(grace: float) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    command = [sys.executable, "-m", "tests.serving.toy_process", str(grace)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        with httpx.Client(base_url=child.stdout.readline().strip(), timeout=20) as http:
            yield child, http
    finally:
        child.kill()
        child.communicate()


def endless(http: httpx.Client, tokens: int) -> Any:
    return http.stream("POST", "/v1/completions", json={**ENDLESS, "max_tokens": tokens})


def test_sigterm_takes_nothing_new_and_finishes_what_runs() -> None:
    with served(grace=20) as (child, http), endless(http, 60) as stream:
        lines = stream.iter_lines()
        next(lines)
        child.send_signal(signal.SIGTERM)
        refused = wait_for(lambda: http.post("/v1/completions", json={"prompt": "a"}), 503)
        assert refused.json()["error"]["code"] == "closing"
        assert "retry-after" in refused.headers
        assert http.get("/health").status_code == 503
        rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in rest[:-1]]
        assert choices[-1]["finish_reason"] == "length"
        assert "".join(choice["text"] for choice in choices) == "bcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef"
        assert child.wait(10) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""


def wait_for(ask: Any, status: int) -> httpx.Response:
    """The signal takes a moment to arrive."""
    for _ in range(100):
        reply: httpx.Response = ask()
        if reply.status_code == status:
            return reply
        time.sleep(0.01)
    raise AssertionError(f"no {status}")


def test_what_does_not_end_in_time_is_told_so() -> None:
    with served(grace=0.3) as (child, http), endless(http, 4000) as stream:
        lines = stream.iter_lines()
        next(lines)
        child.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "closing"
        assert child.wait(10) == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with served(grace=60) as (child, http), endless(http, 4000) as stream:
        next(stream.iter_lines())
        child.send_signal(signal.SIGINT)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert child.wait(10) == 130
        assert time.monotonic() - begin < 5


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port}: cannot listen there"):
            process.bind("127.0.0.1", port)
    with pytest.raises(ConfigError, match="cannot listen there"):
        process.bind("no.such.host.invalid", 80)
    with pytest.raises(ConfigError, match="cannot listen there"):
        process.bind("127.0.0.1", -1)
