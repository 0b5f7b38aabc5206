from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import TensorDataset
from weft.data.tables.noise_only import NoiseOnlyConfig
from weft.data.tables.toys import SQUARES, ToysConfig


def points(**settings: object) -> tuple[Tensor, Tensor]:
    data = ToysConfig(**settings).build()  # type: ignore[arg-type]
    assert isinstance(data.train, TensorDataset)
    assert data.info["features"] == 2
    return data.train.tensors["point"], data.train.tensors["label"]


def test_the_ring_has_its_modes() -> None:
    config = ToysConfig(shape="ring", spread=0.02)
    data = config.build()
    point, label = points(shape="ring", spread=0.02)
    centres = torch.tensor(data.info["centres"]).view(-1, 2)
    assert centres.shape == (8, 2)
    torch.testing.assert_close(centres.norm(dim=1), torch.full((8,), 2.0))
    away = point - centres[label]
    assert abs(float(away.std()) - 0.02) < 0.001
    assert (torch.bincount(label) > 1100).all()
    assert float((point[:, None] - centres).norm(dim=2).min(1).values.max()) < 0.12


def test_moons_and_circles_lie_on_their_curves() -> None:
    for shape in ("moons", "circles"):
        point, label = points(shape=shape, spread=0.0)
        centre = torch.where(label[:, None] == 0, 0.0, torch.tensor([1.0, 0.5])) if shape == "moons" else torch.zeros(1, 2)
        radius = (point - centre).norm(dim=1)
        torch.testing.assert_close(radius, torch.ones(len(point)) if shape == "moons" else 1.0 + label)
        assert 0.45 < float((label == 0).float().mean()) < 0.55


def test_the_checkerboard_is_full_where_it_is_black() -> None:
    point, label = points(shape="checkerboard")
    square = (point + 2).floor().long()
    assert [tuple(row) for row in square.tolist()] == [SQUARES[i] for i in label.tolist()]
    assert len(label.unique()) == 8


def test_points_are_a_function_of_the_seed_and_validation_is_apart() -> None:
    first, again, other = (points(seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    held = ToysConfig().build().validation
    assert isinstance(held, TensorDataset)
    assert len(held) == 2000
    assert (held.tensors["point"][:, None] != first).any(-1).all()


def test_draws_are_nothing_but_keys() -> None:
    data = NoiseOnlyConfig(features=3, validation_examples=7).build()
    assert data.info == {"features": 3}
    assert data.validation is not None
    assert len(data.validation) == 7
    key = torch.arange(4)
    assert list(data.train.batch(key, key)) == ["key"]


@pytest.mark.parametrize("settings", [{"examples": 1}, {"modes": 0}, {"spread": -1.0}, {"radius": float("nan")}])
def test_wrong_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="--data"):
        ToysConfig(**settings).build()  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"--data\.validation_examples"):
        NoiseOnlyConfig(validation_examples=0).build()
