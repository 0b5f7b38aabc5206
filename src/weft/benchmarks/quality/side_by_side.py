"""Commands of weft in processes of their own, several at once on one machine, each with its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

GRACE = 60.0
"""Seconds in which a process that was asked to stop has to save what it trained."""


def side_by_side(commands: Mapping[str, Sequence[str]], jobs: int, minutes: float, folder: Path) -> None:
    """Run commands by name, `jobs` at a time; after so many minutes (0: never) ask those that run to stop. Output: FOLDER/NAME.log.

    Ends the program, and says which, where one failed or there was no time left for one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * minutes if minutes else float("inf")
    cores = max(1, (os.cpu_count() or 1) // jobs)
    waiting, running, failed = list(commands), dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]](), list[str]()
    while waiting or running:
        stopping = time.monotonic() > until
        while waiting and len(running) < jobs and not stopping:
            name = waiting.pop(0)
            log: IO[bytes] = (folder / f"{name}.log").open("ab")
            own = {**os.environ, "OMP_NUM_THREADS": str(cores)}
            running[name] = subprocess.Popen([sys.executable, "-m", "weft", *commands[name]], stdout=log, stderr=log, env=own), log
            print(f"{name}: begun", flush=True)
        if stopping:
            for process, _ in running.values():
                process.send_signal(signal.SIGINT)
            for process, _ in running.values():
                stopped(process)
        for name, (process, log) in list(running.items()):
            if process.poll() is not None:
                log.close()
                del running[name]
                failed += [name] * bool(process.returncode)
                print(f"{name}: {'finished' if not process.returncode else f'ended with {process.returncode}'}", flush=True)
        if stopping and (waiting or failed):
            raise SystemExit(f"not finished: {', '.join([*failed, *waiting])}; the same command goes on")
        time.sleep(0.2)
    if failed:
        raise SystemExit(f"failed: {', '.join(f'{name} ({folder / name}.log)' for name in failed)}")


def stopped(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was asked to stop; end it where it does not."""
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
