"""What is watched while a server is attacked: its memory, its log, and somebody honest who goes on asking."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
PAUSE = 0.02
REASONS = {"busy", "too_many_connections", "closing", "timeout"}
"""Codes of answers of 503 that say themselves why."""


class Stopwatch:
    """Seconds since it was made, less those in which the server or whoever measures had something to do and waited for a processor,
    as other work on the machine is not the server's doing."""

    def __init__(self, server: int):
        self.threads = (f"/proc/{server}/schedstat", "/proc/thread-self/schedstat")
        self.begin, self.waited = time.perf_counter(), self._waiting()

    def _waiting(self) -> float:
        try:
            return sum(int(Path(thread).read_text().split()[1]) for thread in self.threads) / 1e9
        except (OSError, IndexError):  # no such numbers here
            return 0.0

    def read(self) -> float:
        return max(0.0, time.perf_counter() - self.begin - (self._waiting() - self.waited))


@dataclass
class Server:
    """A server in a process of its own."""

    url: str
    child: subprocess.Popen[str]
    log: Path

    def memory(self, what: str = "VmRSS") -> float:
        """MiB."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def attacked(folder: Path, files: int) -> Iterator[Server]:
    log = folder / "log.txt"
    command = [sys.executable, "-m", "reliability.toy_server", str(files)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with log.open("w") as stream:
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stream, text=True)
        try:
            assert child.stdout is not None
            yield Server(child.stdout.readline().strip(), child, log)
        finally:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20)
            child.kill()


@dataclass
class Honest:
    """What came of asking for the alphabet again and again, over one connection or new ones; every answer is known beforehand."""

    seconds: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    """Seconds by the clock, with those in which other work had the processor."""
    wrong: list[str] = field(default_factory=list)
    again: int = 0
    """Answers that it was told to ask for again, and connections closed on it between two requests."""

    @property
    def slowest(self) -> float:
        return max(self.seconds, default=0.0)

    def ask(self, url: str, server: int, ending: threading.Event) -> None:
        number = 0
        with httpx.Client(base_url=url, timeout=30) as kept:
            while not ending.wait(PAUSE):
                number += 1
                begin, watch = time.perf_counter(), Stopwatch(server)
                try:
                    if number % 2:
                        self._look(kept, number)
                    else:
                        with httpx.Client(base_url=url, timeout=30) as new:
                            self._look(new, number)
                except httpx.RemoteProtocolError:
                    self.again += 1
                except httpx.HTTPError as error:
                    self.wrong.append(f"{type(error).__name__}: {error}")
                self.seconds.append(watch.read())
                self.clock.append(time.perf_counter() - begin)

    def _look(self, http: httpx.Client, number: int) -> None:
        first = number % 20
        body = {"model": "toy", "prompt": chr(ord("a") + first), "max_tokens": 3, "temperature": 0}
        reply = http.post("/v1/completions", json=body)
        expected = "".join(chr(ord("b") + first + step) for step in range(3))
        if reply.status_code in (429, 503):
            self.again += 1
        elif reply.status_code != 200 or reply.json()["choices"][0]["text"] != expected:
            self.wrong.append(f"{reply.status_code}: {reply.text[:200]}")


@contextmanager
def honest_client(server: Server) -> Iterator[Honest]:
    """One that asks in a process of its own, where the attack's own work does not slow it; what it found is known at the end."""
    found = Honest()
    command = [sys.executable, str(Path(__file__).resolve()), server.url, str(server.child.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield found
        finally:
            said, _ = child.communicate()  # the end of its input ends it
            vars(found).update(json.loads(said))


def main() -> None:
    found, ending = Honest(), threading.Event()
    thread = threading.Thread(target=found.ask, args=(sys.argv[1], int(sys.argv[2]), ending))
    thread.start()
    print("asking", flush=True)
    sys.stdin.read()
    ending.set()
    thread.join()
    print(json.dumps(vars(found)))


def complaint(status: int, content: bytes, seconds: float, said: str) -> str:
    """What is wrong with an answer to a hostile request; empty where nothing is."""
    if seconds > 10:
        return f"took {seconds:.1f} s"
    if b"Traceback (most recent call last)" in content:
        return "holds a traceback"
    if status < 500:
        return ""
    try:
        code = json.loads(content)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return f"{status} without a form: {content[:200]!r}"
    if status == 503 and code in REASONS:
        return ""
    if code == "engine_failed" and "engine" in said:
        return ""
    return f"{status} {code}: {content[:300]!r}"


if __name__ == "__main__":
    main()
