"""The plain loop and the trainer compute the same losses."""

from __future__ import annotations

import pytest

from weft.benchmarks.training.images_gpu import CONTESTS, same_loss


def test_the_plain_loop_has_the_trainers_loss() -> None:
    mine, other, apart = same_loss(CONTESTS["toy"](), 4)
    assert mine == pytest.approx(other, rel=1e-5)
    assert max(apart) < 1e-5
