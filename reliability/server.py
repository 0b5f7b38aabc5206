"""A server under attack by requests that a machine makes up: everyone honest is answered, rightly and within a second.

Bodies that are nearly right, bytes that are nearly HTTP, connections cut anywhere, more idle sockets than files may be open, foreign hosts
and origins, and texts, lists, names and searches of megabytes are sent to a toy model behind the real server, on this machine only.
Failures are a 5xx without a reason in the log, a traceback in an answer, an answer after ten seconds, memory that grows by more than
500 MB, and a log of more than 1 MB. Seconds are those in which the server and who measures had a processor, if they wanted one.
"""

from __future__ import annotations

import http.client
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlparse

import server_cases as cases
from campaign import Campaign, arguments, workplace
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from server_watch import Honest, Server, Stopwatch, attacked, complaint, honest_client

SECONDS, MEMORY, LOG = 1.0, 500.0, 1_000_000
FILES = 400
"""Files that the server may open, and so fewer connections."""
BODY_BYTES = 4 << 20
AT_ONCE = 8
Outcome = tuple[int, str]
"""The status of an answer, 0 where there is none, and what is wrong with it."""


def generated(strategy: Any, number: int, first: int) -> list[Any]:
    """So many cases; the same ones for the same seed."""
    found: list[Any] = []

    @seed(first)
    @settings(max_examples=number, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(case: Any) -> None:
        found.append(case)

    collect()
    return found


def request(server: Server, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes, float]:
    """Status, content and seconds of an answer; a server that hangs up early has refused the rest of a body."""
    place = urlparse(server.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
    watch = Stopwatch(server.child.pid)
    try:
        connection.request("POST" if data is not None else "GET", path, data, headers)
        reply = connection.getresponse()
        return reply.status, reply.read(), watch.read()
    except (ConnectionError, http.client.RemoteDisconnected):
        return 0, b"", watch.read()
    finally:
        connection.close()


def sent(server: Server, data: bytes, leave_after: int | None = None) -> tuple[bytes, float]:
    """What comes back for bytes; where one leaves, after so many of its own, nothing is waited for."""
    place = urlparse(server.url)
    watch = Stopwatch(server.child.pid)
    with socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=30) as client:
        received = b""
        try:
            client.sendall(data[:leave_after])
            if leave_after is None:
                client.shutdown(socket.SHUT_WR)
                while part := client.recv(1 << 16):
                    received += part
        except ConnectionError:
            pass
    return received, watch.read()


def body_case(server: Server, case: tuple[str, bytes]) -> Outcome:
    path, data = case
    status, content, seconds = request(server, path, data, {"Content-Type": "application/json"})
    return status, complaint(status, content, seconds, server.said())


def raw_case(server: Server, data: bytes) -> Outcome:
    received, seconds = sent(server, data)
    status = int(received[9:12]) if received[9:12].isdigit() else 0
    return status, complaint(status, received.partition(b"\r\n\r\n")[2], seconds, server.said())


def cut_case(server: Server, case: tuple[tuple[str, bytes], float]) -> Outcome:
    (path, data), share = case
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    whole = head.encode() + data
    sent(server, whole, leave_after=int(share * len(whole)))
    return 0, ""


def host_case(server: Server, case: tuple[str, str, bool]) -> Outcome:
    host, origin, own = case
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    status, content, seconds = request(server, "/v1/models", None, headers)
    if status not in ((200,) if own else (400, 403)):
        return status, f"answered with {status} instead of {200 if own else 403}"
    return status, complaint(status, content, seconds, server.said())


def idle_case(server: Server, number: int) -> Outcome:
    """So many sockets that say nothing, or not enough; while they are open, a request is answered within a second."""
    place = urlparse(server.url)
    with ExitStack() as opened:
        for index in range(number):
            client = opened.enter_context(socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=30))
            if index % 3:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n" + b"\r\n{" * (index % 3 - 1))
        status, content, seconds = request(server, "/health", None, {})
        return status, complaint(status, content, seconds, server.said()) or ("" if status == 200 else f"/health said {status}")


def attack(
    campaign: Campaign, server: Server, kind: str, found: list[Any], try_one: Callable[[Server, Any], Outcome], at_once: int = 4
) -> None:
    """All cases of a kind, a few at once, while somebody honest asks."""
    begin = time.time()
    with honest_client(server) as honest, ThreadPoolExecutor(at_once) as threads:
        outcomes = list(threads.map(lambda case: try_one(server, case), found))
        for case, (_, wrong) in zip(found, outcomes, strict=True):
            campaign.check(not wrong, f"{kind}: {wrong}: {str(case)[:300]}" if wrong else kind)
        time.sleep(1.0)
    campaign.check(not honest.wrong, f"{kind}: an honest client was answered wrongly: {honest.wrong[:3]}")
    campaign.check(len(honest.seconds) > 0, f"{kind}: an honest client was answered {len(honest.seconds)} times only")
    campaign.check(honest.slowest <= SECONDS, f"{kind}: an honest client waited {honest.slowest:.2f} s")
    campaign.check(server.child.poll() is None, f"{kind}: the server ended")
    answers = dict(sorted(Counter(status for status, _ in outcomes).items()))
    campaign.row(
        kind=kind,
        cases=len(found),
        answers=answers,
        **facts(honest),
        memory_mib=round(server.memory()),
        seconds=round(time.time() - begin, 1),
    )


def facts(honest: Honest) -> dict[str, Any]:
    return {
        "honest": len(honest.seconds),
        "asked_again": honest.again,
        "slowest_seconds": round(honest.slowest, 2),
        "by_the_clock": round(max(honest.clock, default=0.0), 2),
    }


def main() -> int:
    parser = arguments("server", __doc__)
    parser.add_argument("--cases", type=int, default=3000, help="in all")
    options = parser.parse_args()
    campaign = Campaign("server", options.device, options.record)
    with workplace() as folder, attacked(folder, FILES) as server:
        with honest_client(server) as alone:
            time.sleep(5)
        campaign.row(kind="undisturbed", cases=0, **facts(alone))
        before = server.memory()
        cut = st.tuples(cases.bodies(), st.floats(0.0, 1.0))
        part = options.cases // 12
        attack(campaign, server, "bodies", generated(cases.bodies(), 4 * part, options.seed), body_case)
        attack(campaign, server, "raw", generated(cases.raw_requests(), 3 * part, options.seed), raw_case)
        attack(campaign, server, "cut", generated(cut, 2 * part, options.seed), cut_case)
        attack(campaign, server, "hosts", generated(cases.hosts(), 2 * part, options.seed), host_case)
        attack(campaign, server, "huge", generated(cases.huge(BODY_BYTES), part, options.seed), body_case, AT_ONCE)
        attack(campaign, server, "idle", [FILES // 2, FILES, 2 * FILES], idle_case, 1)
        grown, said = server.memory("VmHWM") - before, server.said()
        campaign.check(grown <= MEMORY, f"memory grew by {grown:.0f} MiB")
        campaign.check(len(said) <= LOG, f"the log has {len(said):,} bytes")
        last = f"{server.processor_seconds():.0f} s of the processor"
        campaign.row(kind="server", grown_mib=round(grown), log_bytes=len(said), log_lines=said.count("\n"), took=last)
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
