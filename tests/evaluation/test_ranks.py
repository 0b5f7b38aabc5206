"""Spearman's correlation against scipy's, and as part of what `weft evaluate` says of a model that tells numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.contracts.test_recipes import trained
from tests.contracts.tiny import tiny
from weft.evaluation.evaluate import evaluate
from weft.evaluation.ranks import ranks, spearman


def test_equal_numbers_share_their_places() -> None:
    assert ranks(torch.tensor([3.0, 1.0, 3.0, 7.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
    assert spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 8.0, 900.0])) == pytest.approx(1.0)
    assert spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, 5.0, 5.0])) == 0.0
    assert spearman(torch.zeros(0), torch.zeros(0)) == 0.0


@pytest.mark.parametrize("values", [3, 10, 10**6])
def test_it_is_that_of_scipy(values: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    torch.manual_seed(values)
    x, y = torch.randint(values, (200,)).double(), torch.randint(values, (200,)).double()
    y[:50] = x[:50]
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x.numpy(), y.numpy()).statistic, abs=1e-9)


def test_a_model_that_tells_numbers_is_measured_by_both_correlations(tmp_path: Path) -> None:
    trained(tiny("bert/stsb", tmp_path, {"train.steps": 2, "train.device": "cpu"}), tmp_path / "run")
    found = evaluate(tmp_path / "run")
    assert {"pearson", "spearman", "rmse", "mae", "r2"} <= found.metrics.keys()
    assert found.findings is not None
    lines = [line.split("\t") for line in found.findings.content.splitlines()]
    assert len(lines) == found.examples
    true, told = (torch.tensor([float(line[side]) for line in lines]) for side in (0, 1))
    assert set(true.tolist()) == {0.5, 1.5}
    assert found["spearman"] == pytest.approx(spearman(told, true), abs=0.01)
