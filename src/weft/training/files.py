"""Files that are whole or absent: every write is synced, and a folder appears by one rename."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write and sync one file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(data)
        while len(view):
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Put new content under a name at once; on failure the old content stays and nothing is left behind."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        write(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Make a folder with these files appear whole; on failure nothing is left behind."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, data in files.items():
            write(temporary / name, data)
        sync_folder(temporary)
        if path.exists():
            remove_folder(path)
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Delete a folder so that an interruption never leaves half of it under its own name."""
    trash = path.with_name(f".trash-{path.name}-{os.getpid()}")
    shutil.rmtree(trash, ignore_errors=True)
    os.replace(path, trash)
    shutil.rmtree(trash, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what an interrupted write or removal left."""
    for pattern in (".tmp-*", ".trash-*"):
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
