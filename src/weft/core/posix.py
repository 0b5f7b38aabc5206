"""What weft needs of the operating system and only Linux and macOS have."""

from __future__ import annotations

import os
from pathlib import Path

from weft.core.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def require_posix() -> None:
    """An error, in one sentence, where the system has no POSIX locks."""
    if fcntl is None:
        raise ConfigError("weft runs on Linux and macOS, not on Windows itself; run it in the Windows Subsystem for Linux (wsl --install)")


def lock_folder(folder: Path) -> int:
    """Reserve a folder until the returned descriptor is closed or the process is gone; BlockingIOError where another process has it."""
    require_posix()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        pass  # a file system without locks
    return descriptor
