"""Files that are whole or absent: every write is synced, and a folder appears by one rename.

Names on the way, all removed or put back by `sweep`: .tmp-NAME-PID is being written, .old-NAME-PID gives way to it,
.trash-NAME-PID is being deleted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from weft.core.errors import CheckpointError, ConfigError
from weft.core.posix import lock_folder


def write(path: Path, data: bytes) -> None:
    """Write and sync one file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


def sync_folder(path: Path) -> None:
    """Make renames inside a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(path: Path, kind: str, process: int = 0) -> Path:
    return path.with_name(f".{kind}-{path.name}-{process or os.getpid()}")


def replace(path: Path, data: bytes) -> None:
    """Put new content under a name at once; on failure the old content stays and nothing is left behind."""
    temporary = temporary_name(path, "tmp")
    try:
        write(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        delete(temporary)


def write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Make a folder with these files appear whole; on failure what was there before stays and nothing is left behind."""
    temporary = temporary_name(path, "tmp")
    delete(temporary)
    try:
        add(temporary, files)
        put(temporary, path)
    except BaseException:
        delete(temporary)
        raise


def add(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder that has not got its name yet."""
    folder.parent.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        write(folder / name, data)


def put(temporary: Path, path: Path) -> None:
    """Give a folder its name, in place of what bears it; on failure that stays."""
    old = temporary_name(path, "old")
    try:
        sync_folder(temporary)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
    except BaseException:
        put_back(old, path)
        raise
    delete(old)
    sync_folder(path.parent)


def put_back(old: Path, path: Path) -> None:
    """Return what a new folder was to replace, unless the new one made it."""
    if not path.exists():
        with contextlib.suppress(OSError):
            os.replace(old, path)
    delete(old)


def remove_folder(path: Path) -> None:
    """Delete a folder so that an interruption never leaves half of it under its own name."""
    trash = temporary_name(path, "trash")
    delete(trash)
    os.replace(path, trash)
    delete(trash)


def delete(path: Path) -> None:
    """Delete a file or folder, if it is there; what resists twice stays for the next sweep."""
    for _ in range(2):
        if not os.path.lexists(path):
            return
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what an interrupted write or removal left; what was about to be replaced returns to its name."""
    for path in folder.glob(".old-*-*"):
        put_back(path, path.with_name(path.name.removeprefix(".old-").rpartition("-")[0]))
    for pattern in (".tmp-*", ".trash-*"):
        for path in folder.glob(pattern):
            delete(path)


class Appender:
    """A file that grows by whole records; one that cannot be written now is kept and written before the next."""

    def __init__(self, path: Path, opening: bytes = b""):
        self.path, self.waiting = path, opening
        self.descriptor, self.size = -1, 0
        self.failing = False

    def append(self, data: bytes) -> None:
        """On failure the file is as before, and the data wait."""
        self.waiting += data
        again, self.failing = self.failing, True
        if self.descriptor < 0:
            self.path.parent.mkdir(exist_ok=True)
            self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.size = os.fstat(self.descriptor).st_size
        if again:
            os.ftruncate(self.descriptor, self.size)
        try:
            write_all(self.descriptor, self.waiting)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, self.size)
            raise
        self.size += len(self.waiting)
        self.waiting, self.failing = b"", False

    def gone(self) -> bool:
        """Whether what is being written has no longer its name, as somebody has deleted or replaced it."""
        if self.descriptor < 0:
            return False
        with contextlib.suppress(FileNotFoundError):
            return not os.path.samestat(os.stat(self.path), os.fstat(self.descriptor))
        return True

    def begin_again(self) -> None:
        """Leave what is gone, so that the next record begins a new file."""
        os.close(self.descriptor)
        self.descriptor, self.size, self.failing = -1, 0, False

    def sync(self) -> None:
        if self.descriptor >= 0:
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Try once more to write what waits, and close."""
        try:
            if self.failing:
                self.append(b"")
        finally:
            if self.descriptor >= 0:
                os.close(self.descriptor)
            self.descriptor = -1


def lock(folder: Path) -> int:
    """Reserve a folder for this process, until the returned descriptor is closed or the process is gone."""
    try:
        return lock_folder(folder)
    except BlockingIOError as error:
        raise CheckpointError(f"{folder}: another process is training here; let it end, or use another folder with --out") from error


def check_folder(folder: Path) -> None:
    """An error where a folder could not be made or written, before any work is done; nothing is made yet."""
    with writing(folder):
        there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def make_folder(folder: Path) -> None:
    """A folder that can be written."""
    check_folder(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def check_file(path: Path) -> None:
    """An error where a file could not be written, before the work is done whose result it is to hold."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder, and a file is to be written; name one, such as {path / 'NAME'}")
    check_folder(path.parent)


def deliver(path: Path, data: bytes) -> None:
    """Write the file that a command was asked for, in a folder that is made where it is missing."""
    check_file(path)
    make_folder(path.parent)
    with writing(path.parent):
        replace(path, data)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in one sentence that a folder cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(f"{folder}: cannot be written ({reason}); make it writable, or use another folder with --out") from error
