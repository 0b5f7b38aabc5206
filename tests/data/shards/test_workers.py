"""Tasks come back in order from any number of processes, and what goes wrong there is told here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from weft.core.errors import DataError, WeftError
from weft.data.shards.workers import map_in_order


def make(factor: int) -> Callable[[int], int]:
    def work(task: int) -> int:
        if task == 13:
            raise DataError("thirteen")
        if task == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02 * (task % 3))
        return factor * task

    return work


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    assert list(map_in_order(range(1, 13), make, (10,), workers)) == [10 * task for task in range(1, 13)]


def test_what_goes_wrong_in_a_worker_goes_wrong_here() -> None:
    with pytest.raises(DataError, match="thirteen"):
        list(map_in_order(range(12, 20), make, (1,), 1))
    with pytest.raises(WeftError, match="was killed"):
        list(map_in_order([17], make, (1,), 1))
