"""What every request passes before it reaches a route: its number, host, key, the size and the pace of its body, and how many there are."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import uuid
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.serving import static
from weft.serving.errors import ApiError, api_error
from weft.serving.hosts import check_host
from weft.serving.memory import MemoryBudget, parsed_size
from weft.serving.service import LONG, Service

log = logging.getLogger("weft")

OPEN = ("/", "/health", *static.PATHS)
"""Paths that need no key."""
STATE = ("/health", "/metrics")
"""Paths that are answered while the server is closing, and while it is busy."""
BODY_SECONDS = 30.0
"""A body must have come by then, however slowly."""
BODIES_BYTES = 128 << 20
"""Memory for all bodies as they came."""
PARSED_BYTES = 256 << 20
"""Memory for all large bodies as parsed, those that wait for their turn not among them."""
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Gate:
    """Plain ASGI: starlette's base class for middleware would keep streams from noticing that their reader left."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.service = app, service
        self.requests = 0
        """In work."""
        self.bytes = 0
        """Of all bodies that have come and are not yet answered."""
        self.parsed = MemoryBudget(PARSED_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        number = given if REQUEST_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}".encode()
        begun, held = False, 0

        def hold(size: int) -> None:
            nonlocal held
            held, self.bytes = held + size, self.bytes + size
            if self.bytes > max(BODIES_BYTES, 2 * self.service.limits.body_bytes):
                raise busy(f"the bodies of all requests have {self.bytes:,} bytes together")

        async def noted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", number)]
                path = getattr(scope.get("route"), "path", "")
                self.service.metrics.requests[path, message["status"]] += 1
            await send(message)

        try:
            self._check(scope["path"], headers)
            body = await self._read(headers, receive, hold)
            if body is not None:
                await self._pass(scope, body, receive, noted)
        except Exception as error:
            if begun:
                raise
            await api_error(error).response()(scope, receive, noted)
        finally:
            self.bytes -= held

    async def _pass(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        if self.requests >= self.service.connections.requests and scope["path"] not in STATE:
            log.warning("%d requests are in work, as many as connections leave room for: others are told to come back", self.requests)
            raise busy(f"the server has {self.requests} requests in work", "too_many_connections")
        size = parsed_size(body) if len(body) > LONG else 0
        self.requests += 1
        try:
            if size:
                await self._take(size)
            try:
                await self.app(scope, replay(body, receive), send)
            finally:
                self.parsed.give_back(size)
        finally:
            self.requests -= 1

    async def _take(self, size: int) -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                await self.parsed.take(size)
        except TimeoutError:
            raise busy(f"large requests wait longer than {BODY_SECONDS:g} seconds for others") from None

    def _check(self, path: str, headers: dict[bytes, bytes]) -> None:
        if not self.service.keys or self.service.hosts:  # who sends a key is no page of another site
            check_host(headers, self.service.hosts)
        if path not in OPEN and self.service.keys and not has_key(headers.get(b"authorization", b""), self.service.keys):
            message = "no such API key; send one of the server's as: Authorization: Bearer KEY"
            raise ApiError(401, message, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        if self.service.closing and path not in STATE:
            raise ApiError(503, "the server is shutting down", code="closing", headers={"retry-after": "5"})

    async def _read(self, headers: dict[bytes, bytes], receive: Receive, hold: Callable[[int], None]) -> bytes | None:
        """The whole body, so that no route waits for a slow one; None where the client left."""
        most = self.service.limits.body_bytes
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise too_large(most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    hold(len(parts[-1]))
                    if size > most:
                        raise too_large(most)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {BODY_SECONDS:g} seconds", headers={"connection": "close"}) from None


def busy(said: str, code: str = "busy") -> ApiError:
    return ApiError(
        503, f"{said}, as much as the server takes; try again shortly", code=code, headers={"retry-after": "1", "connection": "close"}
    )


def too_large(most: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most:,} bytes, the server's --max-body-bytes", code="body_too_large")


def has_key(header: bytes, keys: Sequence[str]) -> bool:
    """Every key is compared, and in a time that does not tell how much of it was right."""
    scheme, _, given = header.partition(b" ")
    found = [hmac.compare_digest(given.strip(), key.encode()) for key in keys]
    return scheme.lower() == b"bearer" and any(found)


def replay(body: bytes, receive: Receive) -> Receive:
    """A body that has come already; after it, what the connection says, which is that the client left."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
