"""An answer on its way to a client: watched for the client leaving and for the time it takes, whole or as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, TypeVar

from fastapi import Request as HttpRequest
from fastapi import Response
from starlette.types import Receive, Scope, Send

from weft.inference.request import Delta
from weft.serving.errors import api_error, packed, timed_out
from weft.serving.replies import Reply
from weft.serving.worker import Submission

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
LEFT = 499
"""Status for the log where nobody is left to be told."""


async def events(reply: Reply, first: tuple[int, Delta], rest: AsyncIterator[tuple[int, Delta]]) -> AsyncGenerator[bytes]:
    """Lines of a stream, up to [DONE]; an error that comes after the first of them is a line too."""
    try:
        for chunk in reply.opening():
            yield line(chunk)
        async for index, delta in chain(first, rest):
            reply.answers[index].add(delta)
            for chunk in reply.chunks(index, delta):
                yield line(chunk)
        for chunk in reply.closing():
            yield line(chunk)
    except Exception as error:
        yield line(api_error(error).body())
    yield DONE


async def chain(first: tuple[int, Delta], rest: AsyncIterator[tuple[int, Delta]]) -> AsyncIterator[tuple[int, Delta]]:
    yield first
    async for found in rest:
        yield found


def line(content: dict[str, Any]) -> bytes:
    return b"data: " + packed(content) + b"\n\n"


async def attended(http: HttpRequest, work: Awaitable[T], seconds: float, deadline: float) -> T | None:
    """What the work gives; None where the client left first, and an error where it took too long (so many seconds)."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone(http.receive))
    try:
        patience = deadline - asyncio.get_running_loop().time()
        await asyncio.wait({task, leaving}, timeout=max(0.0, patience), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if leaving.done():
            return None
        raise timed_out(seconds)
    finally:
        await ended(task, leaving)


def left() -> Response:
    return Response(status_code=LEFT)


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class EventStream(Response):
    """Server-sent events. It ends when they do, when the reader leaves, or when its time is over, however slowly it is read."""

    media_type = "text/event-stream"

    def __init__(self, lines: AsyncGenerator[bytes], submission: Submission, seconds: float, deadline: float):
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.lines, self.submission, self.seconds, self.deadline = lines, submission, seconds, deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing, leaving = asyncio.ensure_future(self._write(send)), asyncio.ensure_future(gone(receive))
        try:
            patience = self.deadline - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait({writing, leaving}, timeout=max(0.0, patience), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.submission.close()
            await ended(writing, leaving)
            await self.lines.aclose()
        if not done:
            late = line(timed_out(self.seconds).body()) + DONE
            with contextlib.suppress(TimeoutError):  # a reader that does not read is not waited for
                async with asyncio.timeout(1.0):
                    await send({"type": "http.response.body", "body": late, "more_body": False})

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for data in self.lines:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            await asyncio.sleep(0)  # where much has arrived, others have their turn between, and the news that the reader left
        await send({"type": "http.response.body", "body": b"", "more_body": False})
