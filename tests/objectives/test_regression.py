from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.objectives.regression import RegressionConfig
from weft.training.means import Means


class Given(nn.Module):
    """Tells what it is given."""

    def classify(self, x: Tensor) -> Tensor:
        return x[:, None]


def summary(told: Tensor, label: Tensor, size: int = 7, scale: float = 2.5) -> dict[str, float]:
    objective = RegressionConfig(inputs=("x",), scale=scale).build()
    found = Means(objective)
    for first in range(0, len(label), size):
        batch = {"x": told[first : first + size], "label": label[first : first + size]}
        found.add("", objective(Given(), batch, ""), objective.counts(batch))
    return found.read()


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("slope", [1.0, -0.01])
def test_error_and_correlation_over_any_batches(size: int, slope: float) -> None:
    torch.manual_seed(0)
    label = torch.randn(100)
    told = slope * label + 0.3 * torch.rand(100) + 5
    found = summary(told, label, size)
    assert found["loss"] == pytest.approx(float((told - label).square().mean()), rel=1e-6)
    assert found["rmse"] == pytest.approx(2.5 * found["loss"] ** 0.5)
    assert found["pearson"] == pytest.approx(np.corrcoef(told.double(), label.double())[0, 1], abs=1e-9)


def test_errors_stand_beside_those_of_trivial_answers() -> None:
    torch.manual_seed(0)
    raw = torch.randn(100).exp()
    label, scale = (raw - raw.mean()) / raw.std(unbiased=False), float(raw.std(unbiased=False))
    told = label + 0.1 * torch.randn(100)
    objective = RegressionConfig(inputs=("x",), scale=scale, median=float(label.median())).build()
    batch = {"x": told, "label": label}
    found = Means(objective)
    found.add("", objective(Given(), batch, ""), objective.counts(batch))
    told_raw = told * scale + raw.mean()
    read = found.read()
    assert read["mae"] == pytest.approx(float((told_raw - raw).abs().mean()), rel=1e-5)
    assert read["mae_of_median"] == pytest.approx(float((raw - raw.median()).abs().mean()), rel=1e-5)
    assert read["rmse_of_mean"] == pytest.approx(scale, rel=1e-5)
    assert read["r2"] == pytest.approx(1 - float((told_raw - raw).square().mean()) / scale**2, rel=1e-5)


def test_what_does_not_vary_goes_with_nothing() -> None:
    assert summary(torch.full((9,), 0.3), torch.arange(9.0))["pearson"] == 0.0
    assert summary(torch.arange(9.0), torch.full((9,), 0.3))["pearson"] == 0.0
    assert summary(torch.tensor([1.0]), torch.tensor([2.0]))["pearson"] == 0.0


def test_labels_and_scales_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="labels are classes"):
        RegressionConfig().build().counts({"label": torch.tensor([1])})
    with pytest.raises(ConfigError, match=r"--objective\.scale"):
        RegressionConfig(scale=-1.0).build()
