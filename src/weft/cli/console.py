"""How the command line speaks: tables and warnings."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys


class Stderr(logging.Handler):
    """Warnings of the library as lines on stderr, wherever that points when they come (a live display moves it)."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # nobody reads them
            print(f"weft: {record.getMessage()}", file=sys.stderr)


def show_warnings() -> None:
    log = logging.getLogger("weft")
    if not any(isinstance(handler, Stderr) for handler in log.handlers):
        log.addHandler(Stderr())


def quoted(word: str) -> str:
    """A word of a command as one would type it."""
    plain = word.replace(" ", "")
    return f'"{word}"' if word != plain and plain == shlex.quote(plain) else shlex.quote(word)


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
