"""Input files: located, decompressed and decoded, every problem counted and listed with its location."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from weft.core.errors import DataError
from weft.data.io.sniff import refuse_binary
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
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error


def reason(error: BaseException) -> str:
    """The message of a library's exception, shortened to fit into one sentence."""
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return show(" ".join(message.split())[:200])


BYTE_ORDER_MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes, path: Path, problems: Problems, exact: bool = False) -> str:
    """Decode UTF-8, or UTF-16 or UTF-32 where there is a byte-order mark.

    Undecodable bytes are counted and become U+FFFD; with `exact` they become surrogates, which encode back to them.
    """
    encoding = next((name for bom, name in BYTE_ORDER_MARKS if data.startswith(bom)), "utf-8")
    if encoding == "utf-8":
        refuse_binary(data, path)
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if exact and encoding == "utf-8":
            return data.decode(encoding, errors="surrogateescape")
        text = data.decode(encoding, errors="replace")
        bad = text.count("\ufffd") - data.decode(encoding, errors="ignore").count("\ufffd")
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        name = encoding.upper().replace("UTF", "UTF-").replace("--", "-")
        problems.add(f"bytes that are not {name}, replaced by U+FFFD", f"{show(path)}:{line} (byte {error.start})", max(1, bad))
        return text


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
