from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.generative.planar import PlanarFlowConfig
from weft.objectives.generative.reverse_kl import TARGETS, ReverseKLConfig, Target, normaliser


class Normal(nn.Module):
    """Draws from N(0, s²)."""

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def draw(self, key: Tensor) -> tuple[Tensor, Tensor]:
        z = random.normal(key, 2)
        return self.scale * z, -0.5 * (z.square() + math.log(2 * math.pi)).sum(1) - 2 * math.log(self.scale)


def test_the_divergence_of_two_normals_is_known() -> None:
    objective = ReverseKLConfig(features=2).build()
    objective.energy = lambda x: x.square().sum(1) / 2
    objective.log_normaliser = normaliser(objective.energy)
    assert objective.log_normaliser == pytest.approx(math.log(2 * math.pi), abs=1e-9)
    keys = random.keys(0, torch.arange(50_000))
    for scale in (0.5, 1.0, 1.3):
        found = objective(Normal(scale), {"key": keys}, "").sums["loss"] / len(keys)
        assert float(found) == pytest.approx(scale**2 - 1 - 2 * math.log(scale), abs=0.02)


@pytest.mark.parametrize("target", get_args(Target))
def test_targets_are_densities_within_reach(target: Target) -> None:
    wide, wider = normaliser(TARGETS[target]), normaliser(TARGETS[target], reach=14.0, steps=1400)
    assert wide == pytest.approx(wider, abs=1e-4)


def test_targets_are_in_the_plane() -> None:
    with pytest.raises(ConfigError, match="in the plane"):
        ReverseKLConfig(features=3).build()


def test_a_planar_flow_fits_a_target_without_data() -> None:
    torch.manual_seed(0)
    model, objective = PlanarFlowConfig(features=2, layers=6).build(), ReverseKLConfig(target="lobes", features=2).build()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-2)

    def divergence(seed: int, size: int) -> Tensor:
        return objective(model, {"key": random.keys(seed, torch.arange(size))}, "").sums["loss"] / size

    before = float(divergence(0, 4000).detach())
    for step in range(200):
        optimizer.zero_grad()
        divergence(step + 1, 128).backward()
        optimizer.step()
    after = float(divergence(0, 4000).detach())
    assert before > 2
    assert 0 <= after < 0.5, "both lobes are found: one alone costs log 2"
