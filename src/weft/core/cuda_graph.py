"""CUDA graph capture."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, errors: str = "global") -> Iterator[None]:
    """Capture the work of the `with` block as this graph; `errors` is CUDA's capture error mode, "global" or "thread_local".

    Garbage collection is disabled meanwhile: if it freed the graph of an earlier model, CUDA would abort this capture.
    """
    gc_was_enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, capture_error_mode=errors):
            yield
    finally:
        if gc_was_enabled:
            gc.enable()
