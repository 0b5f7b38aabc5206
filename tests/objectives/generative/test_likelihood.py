from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import need
from weft.objectives.generative.likelihood import LikelihoodConfig, bits_per_dim, dequantise


class Uniform(nn.Module):
    """The density 1 on [0, 1]^X."""

    def log_prob(self, x: Tensor) -> Tensor:
        assert ((x >= 0) & (x <= 1)).all()
        return torch.zeros(len(x))


def batch(size: int = 5, levels: int = 256) -> dict[str, Tensor]:
    key = random.keys(0, torch.arange(size))
    return {"image": random.integers(key, levels, 3, 4) / (levels - 1), "key": key}


def test_knowing_nothing_of_bytes_costs_eight_bits_a_dimension() -> None:
    objective = LikelihoodConfig(levels=256, features=12).build()
    terms, counts = objective(Uniform(), batch(), ""), objective.counts(batch())
    found = objective.summary({"loss": terms.sums["loss"] / counts["loss"]})
    assert found["loss"] == pytest.approx(12 * math.log(256))
    assert found["bits_per_dim"] == pytest.approx(8.0)


def test_bits_are_nats_over_log_two() -> None:
    assert bits_per_dim(784 * math.log(2), 784) == pytest.approx(1.0)


def test_continuous_data_is_left_alone() -> None:
    objective = LikelihoodConfig(features=12).build()
    assert float(objective(Uniform(), batch(), "").sums["loss"]) == 0.0


def test_noise_stays_within_its_level_and_fills_it() -> None:
    image = batch(2000, levels=17)["image"]
    key = random.keys(1, torch.arange(2000))
    spread = dequantise(image, key, 17)
    assert torch.equal((spread * 17).floor().clamp(max=16), (image * 16).round())
    rest = spread * 17 - (image * 16).round()
    assert abs(float(rest.mean()) - 0.5) < 0.01
    assert abs(float(rest.var()) - 1 / 12) < 0.002
    assert torch.equal(spread[3:5], dequantise(image[3:5], key[3:5], 17))


def test_the_bound_is_tight_for_a_density_constant_within_levels() -> None:
    """p(y) = 2 y-independent within each half: the mass of a level is exactly what the bound says."""

    class BF16Weights(nn.Module):
        def log_prob(self, x: Tensor) -> Tensor:
            return torch.where(x < 0.5, math.log(0.5), math.log(1.5)).flatten(1).sum(1)

    objective = LikelihoodConfig(levels=2, features=1).build()
    for value, mass in ((0.0, 0.25), (1.0, 0.75)):
        one = {"image": torch.full((1, 1), value), "key": torch.tensor([7])}
        assert float(objective(BF16Weights(), one, "").sums["loss"]) == pytest.approx(-math.log(mass))


def test_it_needs_a_density() -> None:
    objective = LikelihoodConfig(features=1).build()
    assert objective.needs is not None
    with pytest.raises(CapabilityError, match="Densities"):
        need(nn.Linear(1, 1), objective.needs)


@pytest.mark.parametrize("settings", [{"levels": 1, "features": 2}, {"levels": -1, "features": 2}, {"features": 0}])
def test_wrong_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="--objective"):
        LikelihoodConfig(**settings).build()
