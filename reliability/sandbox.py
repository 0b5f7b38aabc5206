"""One case in a process of its own, which is watched: its end, its time, its memory, what it said and what it tried to run."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS, WAITING = 10.0, 60.0
"""The longest a case may compute, and the longest it may take: on a machine that does other work the two differ."""
SPARE = 500 << 20
"""Bytes beyond twice the honest files that a case may take."""
BEYOND = 3 << 30
"""Address space beyond that, which is reserved by threads and libraries without being used: past it an allocation fails."""
ENDED = (0, 1, 2)
"""Exit codes of a command that ended in order."""
RUNNING = re.compile(r"os\.(system|exec|posix_spawn)|subprocess\.Popen|socket\.connect")
SENTENCE = re.compile(r"^(weft: |error: )|: has the sha256 |: is missing or cannot be read$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of a case; `trouble` is empty where it worked or was refused in one sentence."""

    code: int
    seconds: float
    memory: int
    """Bytes beyond those before it began."""
    said: str
    trouble: str


def watched(act: Callable[[], int], honest: int, said: Path) -> Outcome:
    """Run in a forked child; `honest` is the size of the files before anything was done to them."""
    before, began, limit = resident(), time.monotonic(), 2 * honest + SPARE
    child = os.fork()
    if not child:
        os.setsid()
        os._exit(inside(act, said, limit))
    ended, status, used, seconds = waited(child, began + WAITING)
    memory = max(0, used - before)
    text = said.read_text(errors="replace")
    code = os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL
    return Outcome(code, seconds, memory, text, judged(code, ended, memory, limit, text))


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def waited(child: int, until: float) -> tuple[bool, int, int, float]:
    """Whether a child ended by itself, its status, the most bytes it held, and the seconds it computed; killed when its time is over."""
    pause, ended = 0.001, True
    while True:
        found, status, used = os.wait4(child, 0 if not ended else os.WNOHANG)
        if found:
            return ended, status, used.ru_maxrss << 10, used.ru_utime + used.ru_stime
        if ended and (time.monotonic() > until or computed(child) > SECONDS):
            os.killpg(child, signal.SIGKILL)
            ended = False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def computed(child: int) -> float:
    """Seconds of processor time that a child has taken."""
    try:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def inside(act: Callable[[], int], said: Path, limit: int) -> int:
    """The child's part: an exit code; 3 for what no command should end with, whose traceback it leaves behind."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it may have children
    with said.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", errors="replace"), os.fdopen(2, "w", errors="replace", buffering=1)
    gc.freeze()
    most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + limit + BEYOND
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(listen)
    code = 3
    try:
        code = act()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 3
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def listen(event: str, arguments: tuple[object, ...]) -> None:
    if RUNNING.match(event):
        os.write(2, f"EXECUTION: {event} {str(arguments)[:300]}\n".encode(errors="replace"))


def judged(code: int, ended: bool, memory: int, limit: int, said: str) -> str:
    """What is wrong with an end, in a word or two; nothing where it is in order."""
    if "EXECUTION: " in said:
        return "execution"
    if not ended:
        return "hang"
    if memory > limit or "not enough memory" in said:
        return "memory"
    if code not in ENDED:
        return f"signal {-code}" if code < 0 else "traceback"
    if "Traceback (most recent call last)" in said or "panicked at" in said:
        return "traceback"
    return "" if not code or SENTENCE.search(said) else "no sentence"
