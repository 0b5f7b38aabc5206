"""Files of .zip and .tar archives, read in memory: nothing is unpacked to disk."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from weft.core.errors import DataError
from weft.core.untrusted import parsing
from weft.data.io.files import check_inflated, inflate, reason, show
from weft.data.problems import Problems

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")


def is_archive(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def read_members(path: Path, suffixes: tuple[str, ...], problems: Problems) -> list[tuple[Path, bytes]]:
    """The members of an archive with one of the suffixes, sorted by name, as (ARCHIVE/NAME, content)."""
    with parsing(show(path), DataError, ": cannot be read"):
        entries = sorted(_zip_entries(path) if path.suffix.lower() == ".zip" else _tar_entries(path))
    files = []
    for name, data in entries:
        if name.rpartition(".")[2].lower() not in {suffix.lstrip(".") for suffix in suffixes}:
            problems.add("files with another suffix, not read", show(path / name))
            continue
        try:
            files.append((path / name, inflate(data, path / name) if name.endswith(".gz") else data))
        except (OSError, EOFError, zlib.error) as error:
            problems.add("files that cannot be read", f"{show(path / name)} ({reason(error)})")
    if not files:
        raise DataError(f"{show(path)}: the archive holds no file that can be read ({', '.join(suffixes)})")
    return files


def _zip_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    size, total = path.stat().st_size, 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and _is_wanted(member.filename):
                total += member.file_size  # no more than this is read, whatever the member holds
                check_inflated(total, size, path)
                yield member.filename, archive.read(member)


def _tar_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    size, total = path.stat().st_size, 0
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and _is_wanted(member.name):
                total += member.size
                check_inflated(total, size, path)
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()


def _is_wanted(name: str) -> bool:
    """Whether a member is not hidden."""
    return not any(part.startswith((".", "__")) for part in PurePosixPath(name).parts)
