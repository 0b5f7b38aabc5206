"""Input files: located and decompressed, every problem counted and listed with its location."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from weft.core.errors import DataError
from weft.data.problems import Problems


def locate(path: str, flag: str = "--data.path") -> Path:
    """A file or folder by its path, or by its path below the folder $WEFT_DATA."""
    if not path:
        raise DataError(f"no data path; name a file or folder with {flag}")
    resolved = os.path.expanduser(path)
    root = os.environ.get("WEFT_DATA")
    if not os.path.exists(resolved) and root:
        resolved = os.path.join(root, path)
    if not os.path.exists(resolved):
        if "://" in path:
            raise DataError(f"{show(path)}: is an address, and weft fetches nothing; download it, and name the file with {flag}")
        if any(sign in path for sign in "*?[") and (folder := os.path.dirname(resolved)):
            raise DataError(f"{show(path)}: no such file or folder; to read all files of a folder, name the folder: {flag} {show(folder)}")
        hint = f" (nor below WEFT_DATA={root})" if root else " (and WEFT_DATA, a folder of data sets, is not set)"
        raise DataError(f"{show(path)}: no such file or folder{hint}; name one with {flag}")
    return Path(resolved)


def show(path: str | Path) -> str:
    """A path as printable text: undecodable bytes and control characters are escaped."""
    text = str(path)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed where its name ends in .gz."""
    if path.exists() and not path.is_file():
        kind = "is a folder where a file is expected" if path.is_dir() else "is not a regular file"
        raise DataError(f"{show(path)}: {kind}; name a file with --data.path")
    try:
        data = path.read_bytes()
        return inflate(data, path) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error


INFLATED_BYTES, INFLATED_TIMES = 1 << 28, 64
"""Most bytes that a compressed file may become, and times its size, of which the larger counts: text becomes 3 to 10 times as large."""


def check_inflated(size: int, compressed: int, path: str | Path) -> None:
    """Refuse a compressed file that becomes far larger than text does: a few megabytes can hold gigabytes of nothing."""
    limit = max(INFLATED_BYTES, INFLATED_TIMES * compressed)
    if size > limit:
        raise DataError(
            f"{show(path)}: its {compressed:,} bytes become more than {limit:,} when decompressed, the most that is accepted; "
            "decompress it first if it is what you want"
        )


def inflate(data: bytes, path: str | Path) -> bytes:
    """The content of a gzip file, refused where it becomes too large."""
    content = bytearray()
    with gzip.open(io.BytesIO(data), "rb") as file:
        while piece := file.read(1 << 20):
            content += piece
            check_inflated(len(content), len(data), path)
    return bytes(content)


def reason(error: BaseException) -> str:
    """The message of a library's exception, shortened to fit into one sentence."""
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return show(" ".join(message.split())[:200])


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no encoding accepts (JSON's "\\ud800" gives them): each becomes U+FFFD."""
    return text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")


def unix_lines(text: str) -> str:
    """The text with every kind of line end as "\\n"."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def walk(folder: Path, suffixes: Iterable[str], problems: Problems, exclude: str | Path = "") -> list[Path]:
    """Every regular file with one of the suffixes below a folder, but not below `exclude`, sorted by path.

    Links are followed, each real folder is visited once, hidden names are skipped; unusable files are counted.
    """
    files, visited = [], set()
    excluded = os.path.realpath(exclude) if exclude else ""
    for base, folders, names in os.walk(folder, followlinks=True, onerror=lambda error: _unreadable(error, problems)):
        real = os.path.realpath(base)
        if real == excluded:
            folders.clear()
            continue
        if real in visited:
            problems.add("folders that a link leads to a second time, not read again", show(base))
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        files += [Path(base, name) for name in names if not name.startswith(".")]
    return [path for path in sorted(files) if _is_readable(path, tuple(suffixes), problems)]


def _unreadable(error: OSError, problems: Problems) -> None:
    problems.add("folders that cannot be read", f"{show(error.filename)} ({reason(error)})")


def _is_readable(path: Path, suffixes: tuple[str, ...], problems: Problems) -> bool:
    if path.suffix.lower() not in suffixes:
        problems.add("files with another suffix, not read", show(path))
    elif not os.path.isfile(path):
        problems.add("links that lead nowhere and special files, not read", show(path))
    else:
        return True
    return False
