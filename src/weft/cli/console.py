"""How the command line speaks: tables and warnings."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys

LONGEST_RECORD = 8000
"""Characters of a message, or of a traceback."""


class Stderr(logging.Handler):
    """Warnings of the library as lines on stderr, wherever that points when they come (a live display moves it)."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # nobody reads them
            print(f"weft: {shortened(record.getMessage())}{getattr(record, 'repeats', '')}", file=sys.stderr)
            if record.exc_info:
                print(shortened(logging.Formatter().formatException(record.exc_info)), file=sys.stderr)


class Repeats(logging.Filter):
    """Lets through a few records a minute from each line of the code, so that no client of a server can fill a disk with log.

    What it adds stands in `record.repeats`: other handlers see the same record."""

    def __init__(self, most: int = 5, seconds: float = 60.0):
        super().__init__()
        self.most, self.seconds = most, seconds
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place = (record.pathname, record.lineno)
        begin, count = self._seen.get(place, (record.created, 0))
        if record.created - begin >= self.seconds:
            if count > self.most:
                record.repeats = f" ({count - self.most} more like it were not shown)"
            begin, count = record.created, 0
        elif count == self.most - 1:
            record.repeats = f" (more like it are not shown for {self.seconds:g} seconds)"
        self._seen[place] = (begin, count + 1)
        return count < self.most


def shortened(text: str) -> str:
    """A text of which the middle is left out where it is long, as a client may have written it."""
    left_out = len(text) - LONGEST_RECORD
    half = LONGEST_RECORD // 2
    return text if left_out <= 0 else f"{text[:half]} … ({left_out:,} characters) … {text[-half:]}"


def show_warnings() -> None:
    show(Stderr(), "weft")


def show_log() -> None:
    """What a server and the libraries below it have to say, each of them only so often."""
    handler = Stderr()
    handler.addFilter(Repeats())
    show(handler, "weft", "uvicorn.error", "asyncio")


def show(handler: Stderr, *names: str) -> None:
    """Only one handler to a logger, the last."""
    for log in map(logging.getLogger, names):
        for other in [other for other in log.handlers if isinstance(other, Stderr)]:
            log.removeHandler(other)
        log.addHandler(handler)


def quoted(word: str) -> str:
    """A word of a command as one would type it."""
    plain = word.replace(" ", "")
    return f'"{word}"' if word != plain and plain == shlex.quote(plain) else shlex.quote(word)


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
