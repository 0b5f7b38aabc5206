"""The connections of a server: how many there may be, which gives way to a new one, and patience with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""A connection without a whole request for longer than this, or that long, again, is dropped."""
OWN_FILES = 64
"""Files that the process may open beside its connections: pipes of its children, a model that is read again."""
FEWEST = 8
"""Connections that there is room for even where hardly any file may be opened."""
log = logging.getLogger("weft")


class Connections:
    """All that are open. Where they are `most`, a new one takes the place of the one that has waited longest for its request."""

    def __init__(self, most: int):
        self.most = most
        self.open: set[Connection] = set()
        self.waiting: OrderedDict[Connection, None] = OrderedDict()
        """Those without a whole request in work, in the order in which they began to wait."""

    @property
    def requests(self) -> int:
        """Requests that may be in work: a few connections are left over to tell others that there are too many."""
        return max(1, self.most - max(2, self.most // 16))

    def add(self, new: Connection) -> None:
        self.open.add(new)
        self.waiting[new] = None
        if len(self.open) > self.most:
            log.warning("%d connections are open, as many as may be: the one that has waited longest for its request is dropped", self.most)
            oldest = next(iter(self.waiting))
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, gone: Connection) -> None:
        self.open.discard(gone)
        self.waiting.pop(gone, None)

    def sort(self, one: Connection) -> None:
        """A connection whose state has changed."""
        cycle = one.cycle
        if one not in self.open:
            return
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self.waiting.pop(one, None)
        elif one not in self.waiting:
            self.waiting[one] = None


class Connection(H11Protocol):
    """Drops itself where its request does not come, and where it is closed but not read to the end."""

    _watch: asyncio.TimerHandle | None = None
    _seen: Any = None
    _idle = False

    def __init__(self, all_connections: Connections, **settings: Any):
        super().__init__(**settings)
        self.all = all_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch = self.loop.call_later(HEADER_SECONDS, self._look)
        self.all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.remove(self)
        if self._watch:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.all.sort(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.all.sort(self)

    def _look(self) -> None:
        """Twice idle over the same request is too long: once may be just before the next one comes."""
        answered = self.cycle is None or self.cycle.response_complete
        idle = self.transport.is_closing() or (answered and self.timeout_keep_alive_task is None)
        if idle and (self.cycle is None or (self._idle and self._seen is self.cycle)):
            self.transport.abort()
            return
        self._idle, self._seen = idle, self.cycle
        self._watch = self.loop.call_later(HEADER_SECONDS, self._look)


def allow_files(connections: int) -> None:
    """Raise this process's limit of open files for so many connections, as far as the system lets it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + files_open() + OWN_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def room(connections: int) -> int:
    """So many connections, or as many as there are files left for."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return min(connections, max(FEWEST, soft - files_open() - OWN_FILES))
    return connections


def files_open() -> int:
    return len(os.listdir("/dev/fd"))
