"""A server in a thread, on a port of its own, and clients for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import openai
import pytest

from tests.serving.fake import toy_service
from weft.serving import process
from weft.serving.service import Service


@dataclass
class Live:
    """A running server."""

    url: str
    service: Service
    http: httpx.Client
    server: process.GracefulServer

    def client(self, **settings: object) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": "none", "max_retries": 0, **settings})  # type: ignore[arg-type]

    def post(self, path: str, **body: object) -> httpx.Response:
        return self.http.post(path, json=body)

    def idle(self, seconds: float = 2.0) -> bool:
        """Whether no slot is held, at the latest after so many seconds."""
        end = time.monotonic() + seconds
        workers = [model.worker for model in self.service.models.values()]
        while any(worker.open or (worker.engine and worker.engine.active) for worker in workers):
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True


@contextmanager
def running(service: Service) -> Iterator[Live]:
    listening = process.bind("127.0.0.1", 0)
    server = process.make_server(service, grace=5.0)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        with httpx.Client(base_url=process.address(listening), timeout=30) as http:
            yield Live(process.address(listening), service, http, server)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listening.close()
    assert not thread.is_alive()


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """A server that every test may use; none may stop it."""
    with running(toy_service()) as found:
        yield found
