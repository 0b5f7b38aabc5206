"""Tensors that are made once for their arguments and kept, such as masks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

HERE = threading.local()


def cached(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function, which makes each tensor once; under the compiler, which looks past a cache and warns of it, each time."""
    kept = cache(make)

    def get(*given: Any) -> Tensor:
        if torch.compiler.is_compiling() or getattr(HERE, "uncached", False):
            return make(*given)
        return kept(*given)

    return get


@contextmanager
def uncached() -> Iterator[None]:
    """Inside, this thread makes tensors each time and keeps none, as where they have no numbers."""
    before, HERE.uncached = getattr(HERE, "uncached", False), True
    try:
        yield
    finally:
        HERE.uncached = before
