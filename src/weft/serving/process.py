"""The server as a process: its socket, its patience with slow clients, and how it ends.

After SIGTERM or SIGINT it takes nothing new (503) and finishes what runs, for so many seconds; a second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import uvicorn

from weft.core.errors import ConfigError
from weft.serving.connections import Connection, Connections, allow_files, room
from weft.serving.server import make_app
from weft.serving.service import Service

KEEP_SECONDS = 30
"""How long a connection without a request stays open; clients that use it again are spared a new one."""
LAST_SECONDS = 3
"""For what is written but not yet read when everything has ended."""
BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""
ACCEPTED_AT_ONCE = 1
"""Connections accepted in one turn of the event loop, so that one beyond the limit is closed before the next is opened. asyncio makes
no difference between this number and the backlog, and where files have run out tries that often, with a traceback each time."""


class GracefulServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, grace: float):
        super().__init__(config)
        self.service, self.grace, self.received = service, grace, 0
        self._ending: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that was served well is not raised again, so that the exit code says so."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread may listen to signals
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.received:
            self.should_exit = self.force_exit = True
        self.received = self.received or sig
        self.service.close()

    async def on_tick(self, counter: int) -> bool:
        if self.received and not self._ending:
            self._ending = asyncio.create_task(self._end())
        return await super().on_tick(counter)

    async def _end(self) -> None:
        await self.service.drained(self.grace)
        await asyncio.to_thread(self.service.stop)
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A socket to listen on, taken before any model is loaded."""
    with contextlib.ExitStack() as opened:
        try:
            if not 0 <= port < 1 << 16:  # the system would take the last 16 bits of any other
                raise OverflowError("a port is a number from 0 to 65535")
            family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            found = opened.enter_context(socket.socket(family, kind, protocol))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(place)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"--host {host} --port {port}: cannot listen there ({error}); --port 0 takes any free one") from error
        opened.pop_all()
    return found


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(service: Service, grace: float) -> GracefulServer:
    """The server, with as many connections as there is room for now."""
    service.connections = Connections(room(service.limits.connections))
    config = uvicorn.Config(
        make_app(service),
        http=partial(Connection, service.connections),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    return GracefulServer(config, service, grace)


def serve(service: Service, listening: socket.socket, *, grace: float = 30.0, ready: Callable[[], None] = lambda: None) -> int:
    """Serve until a signal comes -> which one."""
    allow_files(service.limits.connections)
    gc.freeze()  # models and libraries stay: to look through them for garbage again and again makes a large body take a second to parse
    server = make_server(service, grace)

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            ready()
        await serving

    asyncio.run(run())
    return server.received
