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
    assert found["error"] == pytest.approx(2.5 * found["loss"] ** 0.5)
    assert found["pearson"] == pytest.approx(np.corrcoef(told.double(), label.double())[0, 1], abs=1e-9)


def test_what_does_not_vary_goes_with_nothing() -> None:
    assert summary(torch.full((9,), 0.3), torch.arange(9.0))["pearson"] == 0.0
    assert summary(torch.arange(9.0), torch.full((9,), 0.3))["pearson"] == 0.0
    assert summary(torch.tensor([1.0]), torch.tensor([2.0]))["pearson"] == 0.0


def test_labels_and_scales_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="labels are classes"):
        RegressionConfig().build().counts({"label": torch.tensor([1])})
    with pytest.raises(ConfigError, match=r"--objective\.scale"):
        RegressionConfig(scale=-1.0).build()
