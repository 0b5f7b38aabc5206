"""Processes that hang. torchrun asks such a one to end and waits half a minute before it kills it; its neighbours need not wait so long."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PATIENCE = 5
"""Seconds in which a process that does not hang has ended, too: all wait for the same one, and torchrun ends them with the first."""
RUN = "TORCHELASTIC_RUN_ID"
"""What torchrun tells the processes that it starts."""


def end_neighbours() -> None:
    """Have what is left of this run on this machine killed in a moment, by a process that outlives this one."""
    if found := neighbours():
        words = f"sleep {PATIENCE}; kill -KILL {' '.join(map(str, found))}"
        quiet = subprocess.DEVNULL
        subprocess.Popen(["sh", "-c", words], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def neighbours() -> list[int]:
    """The other processes that the same torchrun started; none elsewhere than on Linux."""
    found, own = [], os.environ.get(RUN)
    for folder in Path("/proc").glob("[0-9]*") if own else ():
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            environ = (folder / "environ").read_bytes().split(b"\0") if parent == os.getppid() else []
        except OSError:  # it has ended, or is another user's
            continue
        if f"{RUN}={own}".encode() in environ and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found
