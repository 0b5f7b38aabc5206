"""Parts of a batch side by side on a CPU, each on one core from end to end.

PyTorch shares every single operation out among the cores and waits for the slowest each time. Where parts need nothing of each other
until the end, a core that takes one part through many operations waits once, and finds in its own cache what it has just written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import torch

MOST = 4
"""Threads up to which each is a lane: Python itself runs in one at a time."""


def number() -> int:
    """How many parts may run side by side."""
    threads = torch.get_num_threads()
    return threads if threads <= MOST else 1


def side_by_side(function: Callable[[Any], Any], parts: Sequence[Any], join: Callable[[list[Any]], Any] = list) -> Any:
    """What a function without gradients finds for each of at most `number()` parts, joined.

    All of it on one thread a lane: PyTorch's own threads, once woken, wait for more in a loop, for some milliseconds, on a core that
    the next lanes need. So parts should be long, and few other operations should lie between two calls.
    """
    threads = torch.get_num_threads()
    if len(parts) == 1:
        return join([function(parts[0])])
    torch.set_num_threads(1)  # of this thread
    try:
        others = [_pool(os.getpid(), threads).submit(_alone, function, part) for part in parts[1:]]
        return join([function(parts[0]), *(other.result() for other in others)])
    finally:
        torch.set_num_threads(threads)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads beside this one; a process that was forked has none of its parent's."""
    return ThreadPoolExecutor(threads - 1, "lane", partial(torch.set_num_threads, 1))


def _alone(function: Callable[[Any], Any], part: Any) -> Any:
    with torch.no_grad():
        return function(part)
