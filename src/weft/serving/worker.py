"""A thread that owns an engine. Requests come in from the event loop and deltas go back to it; nobody waits for a slow reader.

The engine knows nothing of threads, so only this thread touches it: requests, cancellations and other work for its model are
notes that it reads between two steps. What arrives for a request is kept until its reader comes; it is bounded by the request itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from weft.core.errors import WeftError
from weft.inference.request import Delta, Request

T = TypeVar("T")
Arrival = tuple["Submission", int, "Delta | Exception"]
log = logging.getLogger("weft")


class Full(Exception):
    """As many requests wait as may."""


class Closed(Exception):
    """No more requests are taken."""


class EngineFailed(Exception):
    """The engine broke; it has been made anew, but what it had begun is lost."""


class Engine(Protocol):
    """What a worker needs of weft.inference.engine."""

    context: int

    @property
    def waiting(self) -> int: ...
    @property
    def active(self) -> int: ...
    def add(self, request: Request) -> int: ...
    def cancel(self, number: int) -> None: ...
    def step(self) -> dict[int, Delta]: ...


class Submission:
    """Requests that belong together, and the deltas that arrived for them."""

    def __init__(self, worker: Worker, requests: Sequence[Request]):
        self.requests = tuple(requests)
        self.unfinished = set(range(len(self.requests)))
        self.loop = asyncio.get_running_loop()
        self._worker = worker
        self._arrived: asyncio.Queue[tuple[int, Delta | Exception]] = asyncio.Queue()

    def arrive(self, index: int, delta: Delta | Exception) -> None:
        self._arrived.put_nowait((index, delta))

    async def deltas(self) -> AsyncIterator[tuple[int, Delta]]:
        """Each delta with the index of its request, until all have ended."""
        while self.unfinished:
            index, delta = await self._arrived.get()
            if isinstance(delta, Exception):
                raise delta
            if delta.finish_reason:
                self.unfinished.discard(index)
            yield index, delta

    def close(self) -> None:
        """Whatever has not ended is not wanted any more."""
        if self.unfinished:
            self.unfinished.clear()
            self._worker.forget(self)


class Worker:
    """The thread, and what the event loop may ask of it."""

    def __init__(self, make_engine: Callable[[], Engine] | None, *, name: str = "model", slots: int = 32, max_queue: int = 256):
        """Without an engine it only runs other work. `max_queue`: requests that may wait beside those in the slots."""
        self.name, self.capacity = name, slots + max_queue
        self.engine: Engine | None = None
        self.cancelled = self.refused = 0
        self._make_engine = make_engine
        self._changed = threading.Condition()
        self._open = 0
        self._closed = ""
        self._stopping = False
        self._added: list[Submission] = []
        self._forgotten: list[Submission] = []
        self._calls: deque[tuple[Generator[None, None, Any], Future[Any], int]] = deque()
        self._running: dict[int, tuple[Submission, int]] = {}
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name=f"weft-{name}", daemon=True)

    def start(self) -> None:
        """Returns when the engine stands."""
        self._thread.start()
        self._ready.result()

    @property
    def open(self) -> int:
        """Requests and other work that have not ended."""
        return self._open

    @property
    def closed(self) -> str:
        """Why nothing is taken any more; empty while something is."""
        return self._closed

    def submit(self, requests: Sequence[Request]) -> Submission:
        """Called in the event loop; never waits. Full where too many wait already, Closed towards the end."""
        submission = Submission(self, requests)
        with self._changed:
            self._admit(len(requests))
            self._added.append(submission)
            self._changed.notify()
        return submission

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else that needs the model, between two steps of the engine."""
        return await self.run(once(function))

    async def run(self, steps: Generator[None, None, T], size: int = 1) -> T:
        """As `call`, for work that pauses now and then, so that others have their turn; it is left off where nobody waits any more.

        size: the number of requests that it counts as.
        """
        future: Future[T] = Future()
        with self._changed:
            self._admit(size)
            self._calls.append((steps, future, size))
            self._changed.notify()
        return await asyncio.wrap_future(future)

    def forget(self, submission: Submission) -> None:
        with self._changed:
            self._forgotten.append(submission)
            self._changed.notify()

    def close(self, reason: str = "the server is shutting down") -> None:
        """Take nothing new; what was taken goes on."""
        with self._changed:
            self._closed = reason

    def stop(self) -> None:
        """End the thread; what it had not finished is told so."""
        self.close()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _admit(self, number: int) -> None:
        if self._closed:
            raise Closed(self._closed)
        if self._open + number > self.capacity:
            self.refused += number
            raise Full(f"{self._open} requests are in work or waiting, and the server takes {self.capacity}; try again shortly")
        self._open += number

    def _work(self) -> None:
        try:
            self._renew()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        while self._wait():
            try:
                self._take_notes()
                self._call_one()
                if self._running and self.engine:
                    self._hand_out(self.engine.step())
            except Exception as error:
                self._recover(error)
        self._fail(Closed(self._closed))

    def _renew(self) -> None:
        self.engine = None  # its memory is free before the next one takes as much
        self.engine = self._make_engine() if self._make_engine else None

    def _wait(self) -> bool:
        """Until there is something to do; False at the end."""
        with self._changed:
            while not (self._stopping or self._added or self._forgotten or self._calls or self._running):
                self._changed.wait()
            return not self._stopping

    def _take_notes(self) -> None:
        with self._changed:
            added, self._added = self._added, []
            forgotten, self._forgotten = self._forgotten, []
        for submission in added:
            for index, request in enumerate(submission.requests):
                try:
                    self._running[self._add(request)] = (submission, index)
                except Exception as error:  # a request that cannot be served; its neighbours can
                    send([(submission, index, error)])
                    self._ended(1)
        for submission in forgotten:
            for number in [number for number, (owner, _) in self._running.items() if owner is submission]:
                del self._running[number]
                self.cancelled += 1
                self._ended(1)
                self.engine.cancel(number)  # type: ignore[union-attr]

    def _add(self, request: Request) -> int:
        if self.engine is None:
            raise Closed(self._closed)
        try:
            return self.engine.add(request)
        except WeftError:
            raise
        except Exception as error:
            log.error("%s: the engine did not take a request", self.name, exc_info=error)
            raise EngineFailed(f"the engine failed to take this request ({type(error).__name__})") from error

    def _call_one(self) -> None:
        """One step of one of them at a time, so that answers go on between them."""
        if not self._calls:
            return
        steps, future, size = self._calls.popleft()
        try:
            if not future.cancelled():
                next(steps)
                self._calls.append((steps, future, size))
                return
        except StopIteration as ended:
            if future.set_running_or_notify_cancel():
                future.set_result(ended.value)
        except Exception as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        steps.close()
        self._ended(size)

    def _hand_out(self, deltas: dict[int, Delta]) -> None:
        arrivals: list[Arrival] = []
        for number, delta in deltas.items():
            if number in self._running:
                submission, index = self._running[number]
                arrivals.append((submission, index, delta))
                if delta.finish_reason:
                    del self._running[number]
                    self._ended(1)
        send(arrivals)

    def _recover(self, error: Exception) -> None:
        log.error("%s: the engine failed and is made anew", self.name, exc_info=error)
        self._fail(EngineFailed(f"the engine failed ({type(error).__name__}); this request is lost, others can be made"))
        try:
            self._renew()
        except Exception as again:
            log.error("%s: no engine could be made", self.name, exc_info=again)
            self.close("the engine failed and could not be made anew")

    def _fail(self, error: Exception) -> None:
        """Tell everyone who waits, those not yet begun included where nothing will begin any more."""
        owners = [(submission, index) for submission, index in self._running.values()]
        self._running.clear()
        self._ended(len(owners))
        if self._stopping:
            with self._changed:
                added, self._added = self._added, []
            for submission in added:
                owners += [(submission, index) for index in range(len(submission.requests))]
                self._ended(len(submission.requests))
            while self._calls:
                steps, future, size = self._calls.popleft()
                steps.close()
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
                self._ended(size)
        send([(submission, index, error) for submission, index in owners])

    def _ended(self, number: int) -> None:
        with self._changed:
            self._open -= number


def once(function: Callable[[], T]) -> Generator[None, None, T]:
    """A function as work without a pause."""
    return function()
    yield


def send(arrivals: Sequence[Arrival]) -> None:
    """Into the event loops that wait; each is woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[Arrival]] = {}
    for arrival in arrivals:
        loops.setdefault(arrival[0].loop, []).append(arrival)
    for loop, group in loops.items():
        with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody waiting in it
            loop.call_soon_threadsafe(spread, group)


def spread(arrivals: Sequence[Arrival]) -> None:
    for submission, index, delta in arrivals:
        submission.arrive(index, delta)
