"""Work of a GPU recorded as a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, errors: str = "global") -> Iterator[None]:
    """Record what runs inside as this graph; `errors`: whose forbidden calls end it, "global" or "thread_local".

    Python's collector of garbage rests meanwhile: were it to free the graph of an earlier model, CUDA would give this one up.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, capture_error_mode=errors):
            yield
    finally:
        if collects:
            gc.enable()
