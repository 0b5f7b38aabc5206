"""A step as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.core.cuda_graph import capturing
from weft.data.base import Batch


class Captured:
    """Replays a function of micro-batches as one CUDA graph, once its shapes have been seen a few times.

    The first calls run for real on a side stream, as a capture must find every allocation made and every kernel compiled.
    """

    WARM_UP = 3

    def __init__(self, function: Callable[[list[Batch]], None]):
        self.function = function
        self.inputs: dict[Any, list[Batch]] = {}
        self.calls: dict[Any, int] = {}
        self.graphs: dict[Any, torch.cuda.CUDAGraph] = {}
        self.side: torch.cuda.Stream | None = None

    def __call__(self, micro: list[Batch]) -> None:
        shape = tuple((name, tuple(t.shape)) for batch in micro for name, t in batch.items())
        if shape not in self.inputs:
            self.inputs[shape] = [
                {name: torch.empty_like(t, memory_format=torch.contiguous_format) for name, t in b.items()} for b in micro
            ]
        inputs = self.inputs[shape]
        for held, given in zip(inputs, micro, strict=True):
            for name, tensor in held.items():
                tensor.copy_(given[name])
        self.calls[shape] = self.calls.get(shape, 0) + 1
        if self.calls[shape] <= self.WARM_UP:
            self._warm_up(inputs)
            return
        if shape not in self.graphs:
            self.graphs[shape] = self._capture(inputs)
        self.graphs[shape].replay()

    def _warm_up(self, inputs: list[Batch]) -> None:
        side = self.side = self.side or torch.cuda.Stream()  # type: ignore[no-untyped-call]  # another would find none of its memory
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.function(inputs)
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self, inputs: list[Batch]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with capturing(graph):
            self.function(inputs)
        return graph
