"""Parts side by side: each on one thread, and PyTorch has its threads back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from weft.layers import lanes


@pytest.fixture(params=[2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_every_part_has_one_thread_and_no_gradients(threads: int) -> None:
    def look(part: int) -> tuple[int, int, bool]:
        return part, torch.get_num_threads(), torch.is_grad_enabled()

    with torch.no_grad():
        assert lanes.number() == threads
        assert lanes.side_by_side(look, range(threads)) == [(i, 1, False) for i in range(threads)]
        assert lanes.side_by_side(look, range(1), len) == 1
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("bad", [0, 1])
def test_a_part_that_fails_fails_here(bad: int, threads: int) -> None:
    def fail(part: int) -> Any:
        return 1 // (part != bad)

    with pytest.raises(ZeroDivisionError):
        lanes.side_by_side(fail, range(2))
    assert torch.get_num_threads() == threads


def test_many_threads_are_no_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert lanes.number() == 1
