"""A server in a thread, on a port of its own, and clients for it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.serving.browser import AXE, chromium
from tests.serving.fake import toy, toy_service
from tests.serving.small import served_filler, served_gpt, served_images, served_translator
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


STEP = 0.06
"""Seconds between two letters of the toy's alphabet: slow enough to be watched."""
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    """A server with one model of each kind that the page shows."""
    with running(toy_service(toy("alphabet", delay=STEP), served_gpt(), served_translator(), served_filler(), served_images())) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser: Any, small: Live) -> Iterator[Open]:
    """Opens the page, in a browser without a past; at the end nothing may have been complained about in the console."""
    complaints: list[str] = []
    contexts = []

    def opened(url: str = small.url, **settings: Any) -> Any:
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    opened.complaints = complaints  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def axe() -> str:
    path = Path(os.environ.get(AXE, ""))
    if not path.is_file():
        pytest.skip(f"axe-core is not tried: {AXE} names no axe.min.js (npm install axe-core)")
    return path.read_text()
