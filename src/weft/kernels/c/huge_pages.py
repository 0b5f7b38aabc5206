"""Large pages for what a CPU reads again and again: between pages of 4 KB it stops reading ahead, between those of 2 MB it hardly does."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

SIZE = 2 << 20
COLLAPSE = 25
"""Of Linux 6.1 and later: put what is there on large pages, now. Earlier ones answer that they do not know it."""


def use_large_pages() -> None:
    """Put the memory of this process on pages of 2 MB, as far as the system has them. What it holds stays as it is."""
    if not sys.platform.startswith("linux"):
        return
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:  # a system that does not tell
        return
    advise = ctypes.CDLL(None).madvise
    for begin, end in list(stretches(maps)):
        advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), COLLAPSE)  # whatever it answers, nothing is lost


def stretches(maps: str) -> Iterator[tuple[int, int]]:
    """What Linux tells of a process's memory -> where whole large pages of it begin and end, of that which is no file's and no stack's."""
    for line in maps.splitlines():
        where, rights, _, _, file, *name = line.split()
        if rights == "rw-p" and file == "0" and name in ([], ["[heap]"]):
            begin, end = (int(number, 16) for number in where.split("-"))
            begin, end = -(-begin // SIZE) * SIZE, end // SIZE * SIZE
            if begin < end:
                yield begin, end
