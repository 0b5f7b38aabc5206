"""Graphs are captured whole, whatever was left behind by earlier ones."""

from __future__ import annotations

import gc

import pytest
import torch

from weft.core.cuda_graph import capturing


class Owner:
    """Something that owns a graph and, by way of itself, lives until it is collected as garbage."""

    def __init__(self) -> None:
        self.x = torch.zeros(1 << 20, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with capturing(self.graph):
            self.y = self.x + 1
        self.itself = self


@pytest.mark.gpu
def test_garbage_of_earlier_graphs_waits_until_a_capture_is_done() -> None:
    Owner().graph.replay()
    graph, before = torch.cuda.CUDAGraph(), gc.get_threshold()
    powers = [torch.ones(1000, device="cuda")]
    powers[0].mul(2)  # whatever that loads is loaded before
    gc.set_threshold(1, 1, 1)
    try:
        with capturing(graph):
            for _ in range(100):
                powers.append(powers[-1] * 1.01)  # new objects, each of which would set the collector off
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
    graph.replay()
    torch.testing.assert_close(powers[-1], torch.full((1000,), 1.01**100, device="cuda"))


@pytest.mark.gpu
def test_the_collector_works_again_after_a_capture_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), capturing(torch.cuda.CUDAGraph()):
        torch.ones(3, device="cuda").add_(1 // 0)
    assert gc.isenabled()
