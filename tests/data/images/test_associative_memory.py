from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.images.associative_memory import PatternsConfig


def everything(config: PatternsConfig, part: str = "train") -> torch.Tensor:
    dataset = getattr(config.build(), part)
    index = torch.arange(len(dataset))
    image: torch.Tensor = dataset.batch(index, index)["image"]
    return image


def test_random_patterns_are_balanced_and_of_their_seed() -> None:
    config = PatternsConfig(patterns=50, units=200)
    found = everything(config)
    assert found.shape == (50, 200)
    assert set(found.unique().tolist()) == {0.0, 1.0}
    assert float(found.mean()) == pytest.approx(0.5, abs=0.03)
    assert torch.equal(found, everything(PatternsConfig(patterns=50, units=200)))
    assert not torch.equal(found, everything(PatternsConfig(patterns=50, units=200, seed=1)))
    assert config.build().info["features"] == 200


def test_validation_asks_for_the_same_patterns_several_times() -> None:
    config = PatternsConfig(patterns=4, units=30, copies=3)
    assert torch.equal(everything(config, "validation"), everything(config).repeat(3, 1))


def test_digits_come_class_after_class() -> None:
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    found = everything(PatternsConfig(kind="digits", patterns=12))
    images = torch.from_numpy(bunch.images >= 8).flatten(1).float()
    places = [[i for i in range(len(images)) if torch.equal(images[i], row)] for row in found]
    assert [int(bunch.target[place[0]]) for place in places] == [*range(10), 0, 1]
    assert PatternsConfig(kind="digits").build().info["image"] == (1, 8, 8)


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="units"):
        PatternsConfig(units=0).build()
    with pytest.raises(ConfigError, match="at most"):
        PatternsConfig(kind="digits", patterns=2000).build()
