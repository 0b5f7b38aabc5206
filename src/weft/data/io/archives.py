"""Files inside .zip and .tar archives, read as data: nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from weft.core.errors import DataError
from weft.data.io.files import reason, show
from weft.data.problems import Problems

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
LARGEST = 4 << 30
"""Bytes of one file: an archive can claim far more than it holds."""


def is_archive(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def members(path: Path, suffixes: tuple[str, ...], problems: Problems) -> list[tuple[Path, bytes]]:
    """The files of an archive with one of the suffixes, in the order of their names, each under ARCHIVE/NAME."""
    try:
        found = sorted(_zipped(path) if path.suffix.lower() == ".zip" else _tarred(path))
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error
    kept = []
    for name, data in found:
        if name.rpartition(".")[2].lower() not in {suffix.lstrip(".") for suffix in suffixes}:
            problems.add("files of another kind, not read", show(path / name))
            continue
        try:
            kept.append((path / name, gzip.decompress(data) if name.endswith(".gz") else data))
        except (OSError, EOFError, zlib.error) as error:
            problems.add("files that cannot be read", f"{show(path / name)} ({reason(error)})")
    if not kept:
        raise DataError(f"{show(path)}: the archive holds no text file that can be read ({', '.join(suffixes)})")
    return kept


def _zipped(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and _plain(path, member.filename, member.file_size):
                yield member.filename, archive.read(member)


def _tarred(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and _plain(path, member.name, member.size):
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()


def _plain(path: Path, name: str, size: int) -> bool:
    """Whether a member is wanted at all; one of a size beyond reason is refused."""
    if size > LARGEST:
        raise DataError(f"{show(path)}: {show(name)} claims {size:,} bytes")
    return not any(part.startswith((".", "__")) for part in PurePosixPath(name).parts)
