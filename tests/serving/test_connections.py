"""Limits of connections and of requests in work: whoever is honest is answered, and the log stays short."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlparse

import httpx
import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service
from tests.serving.test_load import asked, place
from weft.serving import connections

ROOT = Path(__file__).resolve().parents[2]


def told(client: socket.socket) -> bytes:
    client.settimeout(5.0)
    return client.recv(10_000)


def test_the_connection_that_has_waited_longest_gives_way() -> None:
    with running(toy_service(connections=20)) as live, ExitStack() as opened:
        idle = [opened.enter_context(socket.create_connection(place(live))) for _ in range(30)]
        idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert told(idle[-1]).startswith(b"HTTP/1.1 200")
        assert [told(client) for client in idle[:10]] == [b""] * 10
        assert live.post("/v1/completions", prompt="a", max_tokens=2, temperature=0).json()["choices"][0]["text"] == "bc"


def test_one_that_is_still_asking_gives_way_too_and_one_that_is_answered_does_not() -> None:
    with running(toy_service(toy(delay=0.01), connections=20)) as live, ExitStack() as opened:
        streams = [opened.enter_context(socket.create_connection(place(live))) for _ in range(3)]
        for client in streams:
            client.sendall(asked(max_tokens=200, ignore_eos=True))
        while live.service.models["toy"].worker.open < 3:
            time.sleep(0.005)
        slow = [opened.enter_context(socket.create_connection(place(live))) for _ in range(17)]
        for client in slow:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        for _ in range(20):
            with httpx.Client(base_url=live.url) as new:
                assert new.get("/health").status_code == 200
        for client in streams:
            whole = b""
            while part := told(client):
                whole += part
                if b"[DONE]" in whole:
                    break
            assert b"[DONE]" in whole


def test_requests_beyond_the_limit_are_told_to_come_back() -> None:
    with running(toy_service(toy(delay=0.02), connections=10)) as live, ExitStack() as opened:
        for _ in range(live.service.connections.requests):
            opened.enter_context(socket.create_connection(place(live))).sendall(asked(max_tokens=4000, ignore_eos=True))
        while live.service.models["toy"].worker.open < live.service.connections.requests:
            time.sleep(0.005)
        reply = live.post("/v1/completions", prompt="a")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "too_many_connections")
        assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
        assert live.http.get("/health").status_code == 200


def test_there_are_fewer_connections_where_few_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(connections, "files_open", lambda: 20)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (200, 400))
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: changed.append(limits))
    assert connections.room(2048) == 200 - 20 - connections.OWN_FILES
    assert connections.room(50) == 50
    connections.allow_files(2048)
    connections.allow_files(150)
    connections.allow_files(100)
    assert changed == [(400, 400), (150 + 20 + connections.OWN_FILES, 400)]


def test_idle_sockets_beyond_the_limit_of_open_files(tmp_path: Path) -> None:
    """More than the process may open: it goes on answering, and says so once."""
    command = [sys.executable, "-m", "tests.serving.toy_process", "1", "160"]
    with (tmp_path / "log").open("wb") as log, ExitStack() as opened:
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert child.stdout is not None
            url = child.stdout.readline().strip()
            where = urlparse(url)
            for _ in range(400):
                opened.enter_context(socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=5))
            with httpx.Client(base_url=url, timeout=10) as http:
                answer = http.post("/v1/completions", json={"prompt": "a", "max_tokens": 3, "temperature": 0})
                assert answer.json()["choices"][0]["text"] == "bcd"
        finally:
            child.kill()
            child.communicate()
    said = (tmp_path / "log").read_text()
    assert "connections are open, as many as may be" in said
    assert "Traceback" not in said
    assert len(said) < 5000


def test_how_a_server_counts(live: Live) -> None:
    assert live.http.get("/health").status_code == 200
    assert len(live.service.connections.open) >= 1
