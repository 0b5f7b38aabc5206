"""Two directions, two discriminators, and the objective that binds them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.models.generative.cyclegan import CycleGANConfig
from weft.objectives.generative.cycle import CycleConfig


def test_shapes() -> None:
    model = CycleGANConfig(image=(3, 8, 8), width=4, blocks=1, patch_layers=1).build()
    x = torch.rand(2, 3, 8, 8)
    made = model.translate(x, "a2b")
    assert made.shape == model.translate(made, "b2a").shape == x.shape
    assert model.discriminate(made, "b").shape == (2, 2, 2)
    torch.testing.assert_close(model(x), made)
    with pytest.raises(ConfigError):
        CycleGANConfig(image=(3, 10, 10)).build()


class Shifts(torch.nn.Module):
    """a2b adds, b2a takes away; the discriminators like what is bright."""

    def __init__(self, a2b: float, b2a: float):
        super().__init__()
        self.shifts = {"a2b": a2b, "b2a": b2a}

    def translate(self, x: Tensor, direction: str) -> Tensor:
        return x + self.shifts[direction]

    def discriminate(self, x: Tensor, domain: str) -> Tensor:
        return x.flatten(1)[:, :1] * 0 + (0.5 if domain == "b" else 0.0)


@pytest.mark.parametrize(("b2a", "off"), [(-0.25, 0.0), (-0.15, 0.1)])
def test_the_cycle_consistency_error(b2a: float, off: float) -> None:
    batch = {"image": torch.rand(3, 1, 2, 2), "other": torch.rand(3, 1, 2, 2), "key": torch.arange(3)}
    batch["truth"] = batch["image"] + 0.25
    objective = CycleConfig(identity_weight=0.5).build()
    terms = objective(Shifts(0.25, b2a), batch, "generators").sums
    assert float(terms["cycle"]) / 3 == pytest.approx(2 * 2 * off, abs=1e-6)
    assert float(terms["identity"]) / 3 == pytest.approx(2 * (0.25 + abs(b2a)), abs=1e-6)
    assert float(terms["game"]) / 3 == pytest.approx(0.25 + 1.0)
    game = objective(Shifts(0.25, b2a), batch, "discriminators").sums["loss"]
    assert float(game) / 3 == pytest.approx(0.5 * (0.25 + 1.0 + 0.25 + 0.0))
    found = objective.measure(Shifts(0.25, b2a), batch)
    assert float(found["translation_error"]) == pytest.approx(0.0, abs=1e-6)
    assert float(found["cycle_error"]) / 3 == pytest.approx(off, abs=1e-6)
