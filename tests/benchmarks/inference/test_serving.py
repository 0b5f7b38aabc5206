"""The clients of `weft bench serving` against a server with a toy in place of the engine, and the model that is served there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service
from weft.benchmarks.inference import serving, serving_clients
from weft.runs.load import load


def asked(live: Live, scenario: str, **settings: Any) -> dict[str, Any]:
    place = urlparse(live.url)
    found: dict[str, Any] = asyncio.run(serving_clients.SCENARIOS[scenario]((place.hostname, place.port), **settings))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_are_counted_whole_and_streamed(stream: bool) -> None:
    with running(toy_service()) as live:
        found = asked(live, "repeated", clients=3, requests=2, body=serving.body(40, stream=stream))
    assert (found["tokens"], found["statuses"], len(found["latencies"])) == (240, [200], 6)


def test_half_of_the_clients_leave_and_the_rest_is_complete() -> None:
    with running(toy_service(toy(slots=8, delay=0.002))) as live:
        found = asked(live, "half_leave", clients=24, body=serving.body(8), endless=serving.body(4000))
        assert (found["complete"], found["of"]) == (12, 12)
        assert found["idle_after"] < 20
        assert asked(live, "waiting") == {"requests": 0}
        assert live.service.models["toy"].worker.cancelled > 0


def test_those_who_find_the_queue_full_are_counted() -> None:
    with running(toy_service(toy(slots=2, max_queue=2, delay=0.01))) as live:
        found = asked(live, "refused", held=4, tries=3, endless=serving.body(4000))
        assert (found["statuses"], found["retry_after"], len(found["latencies"])) == ([429], ["1"], 3)
        assert live.idle(5.0)


def test_the_model_that_is_served_can_be_loaded(tmp_path: Path) -> None:
    serving.write_model(tmp_path / "gpt", {"context": 128, "layers": 1, "heads": 1, "width": 8})
    assert len(load(tmp_path / "gpt", "cpu").generate("a", max_new_tokens=3).text.encode()) >= 3
    assert serving.offline(tmp_path / "gpt", 2, 3)() > 0
    assert serving.percentile([3.0, 1.0, 2.0], 0.95) == 3.0
