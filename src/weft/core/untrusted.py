"""Files that may come from anybody: regular ones only, of bounded size, each value of the kind it is taken for.

Every reader of a file comes through here. What is wrong is an OSError or a ValueError, which `parsing` makes one sentence of the
caller's own error, as whatever else fails between reading a file and having its content: nothing a file holds ends in a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

from weft.core.errors import CheckpointError, ConfigError, DataError, WeftError

LARGEST_JSON = 64 << 20
"""Bytes of a file of settings; the largest of vocabularies take half as many."""
MOST_VALUES = 4_000_000
"""Values in one; each takes some 100 bytes of memory, however short it is in the file."""
DEEPEST = 100
"""Lists and objects within one another."""
LONGEST_NUMBER = 40
"""Digits of a whole number."""


def open_regular(path: str | Path) -> BufferedReader:
    """A regular file, opened to be read; a FIFO or a device, which might have no end, is an OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | Path, most: int = LARGEST_JSON) -> bytes:
    """The content of a regular file of at most so many bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"its {size:,} bytes are more than the {most:,} accepted", str(path))
        return file.read(size)


def parse_json(data: bytes | str, finite: bool = True) -> Any:
    """The value of a JSON text: a ValueError where it is none, too deep, too large, or (`finite`) holds NaN or an infinite number."""
    content = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
    floats, constants = (_finite, _refuse) if finite else (None, None)
    try:
        value = json.loads(data, parse_int=_whole, parse_float=floats, parse_constant=constants)
    except RecursionError:
        raise ValueError("lists within lists without end") from None
    if _deeper(value, DEEPEST):
        raise ValueError(f"more than {DEEPEST} lists and objects within one another")
    return value


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _finite(digits: str) -> float:
    if math.isfinite(number := float(digits)):
        return number
    raise ValueError(f"the number {digits[:20]} is beyond any that can be stored")


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [part for whole in level for part in _parts(whole) if isinstance(part, (dict, list))]
        if not level:
            return False
    return True


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_json(path: str | Path, finite: bool = True, most: int = LARGEST_JSON) -> Any:
    return parse_json(read_bytes(path, most), finite)


def natural(value: Any) -> bool:
    """For a schema: a count or a position, which is no number below 0 and none that a machine could not hold."""
    return type(value) is int and 0 <= value < 1 << 53


def measured(value: Any) -> bool:
    """For a schema: a number, finite or not, or none where there is none yet."""
    return value is None or type(value) in (int, float)


def mismatch(value: Any, schema: Any, name: str = "") -> str:
    """The dotted name of the first part of a JSON value that is not as its schema says ("it" of the whole); "" where all are.

    A schema is a type or several (int | None; numbers are finite, and true is none), values in a tuple, a function that says yes or no,
    an object whose entries must all be there, or a list with the schema of its items. {str: …} is the schema of every entry.
    """
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return name or "it"
        inner = dict.fromkeys(value, schema[str]) if str in schema else schema
        parts = ((value.get(key), kind, f"{name}.{key}" if name else str(key)) for key, kind in inner.items())
    elif isinstance(schema, list):
        if not isinstance(value, list):
            return name or "it"
        parts = ((part, schema[0], f"{name}[{index}]") for index, part in enumerate(value))
    else:
        return "" if _is(value, schema) else name or "it"
    return next(filter(None, (mismatch(*part) for part in parts)), "")


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(value == one and type(value) is type(one) for one in kind)
    if callable(kind) and not isinstance(kind, type):
        return bool(kind(value))
    if isinstance(value, float) and kind is not object and not math.isfinite(value):
        return False
    return isinstance(value, kind) and (not isinstance(value, bool) or kind in (bool, object))


def checked(value: Any, schema: Any) -> Any:
    """The value, or a ValueError that names what is not as the schema says."""
    if wrong := mismatch(value, schema):
        raise ValueError(f"{wrong} is missing or of another kind")
    return value


def kept(value: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an object that are as their schema says; what else it holds is passed over, and of anything but an object all."""
    found = value if isinstance(value, dict) else {}
    return {name: found[name] for name, kind in schema.items() if name in found and not mismatch(found[name], kind)}


@contextlib.contextmanager
def parsing(what: str | Path, error: type[WeftError] = DataError, fault: str = ": is damaged") -> Iterator[None]:
    """Make one sentence, an `error`, of whatever goes wrong while content that may be damaged or hostile is taken apart."""
    try:
        yield
    except (ConfigError, DataError) as found:
        if not issubclass(error, CheckpointError):  # which alone lets a search go on
            raise
        raise error(f"{what}: {found}") from found
    except (WeftError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except OSError as found:
        raise error(f"{what}: cannot be read ({found.strerror or found})") from found
    except ValueError as found:
        raise error(f"{what}{fault} ({short(found)})") from found
    except BaseException as found:  # libraries have kinds of their own; a panic of Rust is no Exception
        if not isinstance(found, Exception) and type(found).__module__ != "pyo3_runtime":
            raise
        raise error(f"{what}{fault} ({type(found).__name__}: {short(found)})") from found


def short(error: BaseException) -> str:
    """What an exception says, on one line and not long."""
    return " ".join(str(error).split())[:200]
