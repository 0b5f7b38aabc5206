"""Neighbours of a process that gives up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.training.parallel.watchdog import RUN, neighbours

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
GIVE_UP = "from weft.training.parallel import watchdog; watchdog.PATIENCE = 0; watchdog.end_neighbours()"


def start(run: str, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, RUN: run})


def test_a_hung_neighbour_is_killed_and_nobody_else() -> None:
    hung, other = (start(run, sys.executable, "-c", "import time; print(flush=True); time.sleep(60)") for run in ("mine", "another"))
    try:
        os.kill(hung.pid, signal.SIGSTOP)
        assert start("mine", sys.executable, "-c", GIVE_UP).wait(30) == 0
        assert hung.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (hung, other):
            process.kill()
            process.wait()


def test_without_torchrun_there_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN, raising=False)
    assert neighbours() == []
