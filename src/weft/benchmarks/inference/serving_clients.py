"""Clients that put load on a server, in a process of their own that imports nothing heavy and reads no more of a stream than it must.

Run by `weft bench serving` as: python -m weft.benchmarks.inference.serving_clients HOST PORT SCENARIO '{"clients": 64, …}'
Every scenario prints one JSON object. A client speaks HTTP over a socket itself: on a machine of few cores a library's cost for each
piece would be counted as the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

Address = tuple[str, int]
Json = dict[str, Any]


def question(path: str, body: Json | None = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    fields = ("Host: localhost", "Content-Type: application/json", f"Content-Length: {len(data)}", "Connection: close")
    return "\r\n".join((f"{method} {path} HTTP/1.1", *fields, "", "")).encode() + data


async def ask(address: Address, path: str, body: Json | None = None, leave_after: int | None = None) -> Json:
    """One request on a connection of its own. A client may leave: after so many events, or at once (0)."""
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection(*address, limit=1 << 20)
    first, events, kept = 0.0, 0, bytearray()
    try:
        writer.write(question(path, body))
        await writer.drain()
        while leave_after != 0 and (data := await reader.read(1 << 16)):
            first = first or time.perf_counter() - begin
            events += data.count(b"data: ")
            kept += data
            if leave_after is not None and events >= leave_after:
                break
            if len(kept) > 1 << 16 and body and body.get("stream"):  # only its head and its end are looked at
                del kept[1 << 12 : -(1 << 12)]
    finally:
        writer.transport.abort()  # what came to its end is closed already
    head, _, rest = bytes(kept).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    status = int(lines[0].split()[1]) if lines[0] else 0
    return {"status": status, "headers": headers, "first": first, "seconds": time.perf_counter() - begin, "events": events, "body": rest}


def tokens_of(reply: Json) -> int:
    """How many tokens an answer had, by the usage that it ends with; 0 where it did not come to its end."""
    _, found, rest = reply["body"].rpartition(b'"completion_tokens":')
    return int(rest.split(b",")[0]) if found and reply["status"] == 200 else 0


async def repeated(address: Address, clients: int, requests: int, body: Json) -> Json:
    """So many clients, each of which asks again as soon as it is answered."""

    async def one(number: int) -> list[Json]:
        seeds = range(number * requests, (number + 1) * requests)  # prompts that begin differently, so that nothing was read before
        return [await ask(address, "/v1/completions", {**body, "seed": seed, "prompt": f"{seed:05d} {body['prompt']}"}) for seed in seeds]

    begin = time.perf_counter()
    found = [reply for replies in await asyncio.gather(*map(one, range(clients))) for reply in replies]
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "tokens": sum(map(tokens_of, found)),
        "statuses": sorted({reply["status"] for reply in found}),
        "latencies": [reply["seconds"] for reply in found],
    }


async def half_leave(address: Address, clients: int, body: Json, endless: Json) -> Json:
    """Every second client asks for far more and leaves: half of these after three events, half of them before the first."""

    async def one(number: int) -> Json:
        leaves = number % 2
        return await ask(address, "/v1/completions", endless if leaves else body, (3 if number % 4 == 1 else 0) if leaves else None)

    begin = time.perf_counter()
    found = await asyncio.gather(*map(one, range(clients)))
    seconds = time.perf_counter() - begin
    idle = time.perf_counter()
    while await busy(address) and time.perf_counter() - idle < 30:
        await asyncio.sleep(0.02)
    complete = sum(tokens_of(reply) == body["max_tokens"] for reply in found[0::2])
    return {"seconds": seconds, "complete": complete, "of": clients - clients // 2, "idle_after": time.perf_counter() - idle}


async def busy(address: Address) -> int:
    """Requests in slots or waiting for one."""
    text = (await ask(address, "/metrics"))["body"].decode()
    lines = [line for line in text.splitlines() if line.startswith(("weft_requests_active{", "weft_requests_waiting{"))]
    return sum(int(line.split()[-1]) for line in lines)


async def waiting(address: Address) -> Json:
    return {"requests": await busy(address)}


async def refused(address: Address, held: int, tries: int, endless: Json) -> Json:
    """As many endless requests as the server takes, then some more, one after the other: how soon each of these is refused."""
    holding = [asyncio.ensure_future(ask(address, "/v1/completions", endless)) for _ in range(held)]
    while await busy(address) < held:
        await asyncio.sleep(0.02)
    found = [await ask(address, "/v1/completions", {**endless, "max_tokens": 1}) for _ in range(tries)]
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    return {
        "statuses": sorted({reply["status"] for reply in found}),
        "retry_after": sorted({reply["headers"].get("retry-after", "") for reply in found}),
        "latencies": [reply["seconds"] for reply in found],
    }


async def slow(address: Address, readers: int, askers: int, body: Json) -> Json:
    """Clients that read a few bytes at a time, and others whose headers never end; until the input of this process closes."""

    async def read(_: int) -> None:
        while True:
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.setblocking(False)
            loop = asyncio.get_running_loop()
            with contextlib.suppress(OSError), connection:
                await loop.sock_connect(connection, address)
                await loop.sock_sendall(connection, question("/v1/completions", body))
                while await loop.sock_recv(connection, 64):
                    await asyncio.sleep(0.25)

    async def begin(_: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                writer = (await asyncio.open_connection(*address))[1]
                writer.write(b"POST /v1/completions HTTP/1.1\r\nX-Slow: ")
                while not writer.transport.is_closing():
                    writer.write(b"a")
                    await asyncio.sleep(0.5)
            await asyncio.sleep(0.1)

    tasks = [asyncio.ensure_future(work) for work in [*map(read, range(readers)), *map(begin, range(askers))]]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {}


SCENARIOS: dict[str, Callable[..., Awaitable[Json]]] = {
    "repeated": repeated,
    "half_leave": half_leave,
    "waiting": waiting,
    "refused": refused,
    "slow": slow,
}


def main() -> None:
    host, port, name, settings = sys.argv[1:]
    print(json.dumps(asyncio.run(SCENARIOS[name]((host, int(port)), **json.loads(settings)))))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
