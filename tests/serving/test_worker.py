"""The thread that owns an engine: order, bounds, cancellation, failure, end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from tests.serving.fake import FakeEngine
from weft.core.errors import ConfigError
from weft.inference.request import Request, Sampling
from weft.serving.worker import Closed, EngineFailed, Full, Submission, Worker


def request(text: str = "a", **settings: Any) -> Request:
    return Request(tuple(text.encode()), Sampling(**{"max_new_tokens": 3, "temperature": 0.0, **settings}))


async def texts(submission: Submission) -> list[str]:
    found = [""] * len(submission.requests)
    async for place, delta in submission.deltas():
        found[place] += delta.text
    return found


def with_worker(work: Callable[[Worker], Coroutine[Any, Any, None]], *, max_queue: int = 8, **engine: Any) -> None:
    worker = Worker(lambda: FakeEngine(slots=2, **engine), slots=2, max_queue=max_queue)
    worker.start()
    try:
        asyncio.run(work(worker))
    finally:
        worker.stop()


async def settled(worker: Worker, seconds: float = 2.0) -> None:
    end = time.monotonic() + seconds
    while worker.open and time.monotonic() < end:
        await asyncio.sleep(0.005)
    assert worker.open == 0


def test_answers_come_to_those_who_asked() -> None:
    async def work(worker: Worker) -> None:
        both = worker.submit([request("a"), request("w", max_new_tokens=9)]), worker.submit([request("k")])
        assert await asyncio.gather(*map(texts, both)) == [["bcd", "xyz"], ["lmn"]]
        await settled(worker)

    with_worker(work)


def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    async def work(worker: Worker) -> None:
        held = [worker.submit([request(max_new_tokens=50, ignore_end=True)]) for _ in range(4)]
        begin = time.perf_counter()
        with pytest.raises(Full, match="4 requests are in work or waiting, and the server takes 4"):
            worker.submit([request()])
        assert time.perf_counter() - begin < 1.0
        assert worker.refused == 1
        for submission in held:
            submission.close()
        await settled(worker)
        assert await texts(worker.submit([request()])) == ["bcd"]

    with_worker(work, max_queue=2, delay=0.02)


def test_what_is_not_wanted_any_more_frees_its_slot() -> None:
    async def work(worker: Worker) -> None:
        endless = worker.submit([request(max_new_tokens=10**6, ignore_end=True) for _ in range(4)])
        async for _ in endless.deltas():
            break
        endless.close()
        endless.close()
        await settled(worker)
        assert worker.engine is not None
        assert (worker.engine.active, worker.engine.waiting, worker.cancelled) == (0, 0, 4)

    with_worker(work)


def test_a_request_that_cannot_be_served_leaves_the_others_alone() -> None:
    async def work(worker: Worker) -> None:
        long, short = worker.submit([request("a" * 20)]), worker.submit([request("a")])
        with pytest.raises(ConfigError, match="does not fit"):
            await texts(long)
        assert await texts(short) == ["bcd"]
        await settled(worker)

    with_worker(work, context=10)


def test_a_request_over_which_the_engine_stumbles_leaves_the_others_alone() -> None:
    async def work(worker: Worker) -> None:
        before = worker.engine
        wrong, right = worker.submit([request("#"), request("a")]), worker.submit([request("a")])
        with pytest.raises(EngineFailed, match="TypeError"):
            await texts(wrong)
        wrong.close()
        assert await texts(right) == ["bcd"]
        assert worker.engine is before
        await settled(worker)

    with_worker(work)


def test_a_broken_engine_is_replaced() -> None:
    async def work(worker: Worker) -> None:
        before = worker.engine
        lost = worker.submit([request("!boom"), request("a", max_new_tokens=500, ignore_end=True)])
        with pytest.raises(EngineFailed, match="RuntimeError"):
            await texts(lost)
        assert await texts(worker.submit([request()])) == ["bcd"]
        assert worker.engine is not before
        await settled(worker)

    with_worker(work)


def test_an_engine_that_cannot_be_replaced_closes_the_worker() -> None:
    made: list[FakeEngine] = []

    def make() -> FakeEngine:
        if made:
            raise RuntimeError("no memory")
        made.append(FakeEngine())
        return made[0]

    async def work() -> None:
        lost = worker.submit([request("!boom")])
        with pytest.raises(EngineFailed):
            await texts(lost)
        for _ in range(100):
            await asyncio.sleep(0.01)
            try:
                await texts(worker.submit([request()]))
            except Closed as error:
                assert "could not be made anew" in str(error)
                return
        raise AssertionError("it went on")

    worker = Worker(make)
    worker.start()
    asyncio.run(work())
    worker.stop()


def test_an_engine_that_cannot_be_made_says_so_at_the_start() -> None:
    def make() -> FakeEngine:
        raise ConfigError("no such engine")

    with pytest.raises(ConfigError, match="no such engine"):
        Worker(make).start()


def test_other_work_runs_between_steps_in_the_same_thread() -> None:
    async def work(worker: Worker) -> None:
        endless = worker.submit([request(max_new_tokens=10**6, ignore_end=True)])
        assert await worker.call(lambda: threading.current_thread().name) == "weft-model"
        with pytest.raises(ZeroDivisionError):
            await worker.call(lambda: 1 // 0)
        endless.close()
        await settled(worker)

    with_worker(work)


def test_long_work_pauses_for_others_and_is_left_off_where_nobody_waits() -> None:
    async def work(worker: Worker) -> None:
        order: list[str] = []
        closed = threading.Event()

        def steps(name: str, number: int) -> Generator[None, None, str]:
            try:
                for _ in range(number):
                    order.append(name)
                    yield
                return name
            finally:
                closed.set()

        assert await asyncio.gather(worker.run(steps("a", 3)), worker.run(steps("b", 3))) == ["a", "b"]
        assert sorted(order) == list("aaabbb")
        closed.clear()
        endless = asyncio.ensure_future(worker.run(steps("endless", 10**9)))
        assert await texts(worker.submit([request(max_new_tokens=3)]))  # answers go on beside it
        while "endless" not in order:  # what has not begun has nothing to leave off
            await asyncio.sleep(0.01)
        endless.cancel()
        await settled(worker)
        assert await asyncio.to_thread(closed.wait, 5)

    with_worker(work)


def test_after_the_end_nothing_is_taken_and_nobody_waits() -> None:
    async def work(worker: Worker) -> None:
        endless = worker.submit([request(max_new_tokens=10**6, ignore_end=True)])
        worker.close("closing time")
        with pytest.raises(Closed, match="closing time"):
            worker.submit([request()])
        with pytest.raises(Closed):
            await worker.call(lambda: None)
        threading.Thread(target=worker.stop).start()
        with pytest.raises(Closed):
            await texts(endless)

    with_worker(work)
