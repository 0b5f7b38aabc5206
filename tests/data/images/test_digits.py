"""Scikit-learn's digits: the same split each time, pixels in range, labels withheld evenly."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Data, TensorDataset
from weft.data.images.digits import DigitsConfig

pytest.importorskip("sklearn")


def columns(data: Data, part: str = "train") -> dict[str, torch.Tensor]:
    dataset = getattr(data, part)
    assert isinstance(dataset, TensorDataset)
    return dataset.tensors


def test_sizes_and_ranges() -> None:
    data = DigitsConfig().build()
    train, held = columns(data), columns(data, "validation")
    assert len(train["label"]) + len(held["label"]) == 1797
    assert train["image"].shape == (1438, 64)
    assert train["image"].dtype == torch.float32
    assert train["label"].dtype == torch.int64
    assert (train["image"].min(), train["image"].max()) == (0.0, 1.0)
    assert {name: data.info[name] for name in ("features", "classes", "image")} == {"features": 64, "classes": 10, "image": (1, 8, 8)}
    assert data.tokenizer.decode([7]) == "7"


def test_the_split_is_fixed_and_disjoint() -> None:
    first, second = DigitsConfig().build(), DigitsConfig(labelled=0.1).build()
    assert torch.equal(columns(first)["image"], columns(second)["image"])
    rows = {tuple(row) for row in columns(first)["image"].tolist()}
    assert not rows & {tuple(row) for row in columns(first, "validation")["image"].tolist()}
    assert sorted(set(columns(first, "validation")["label"].tolist())) == list(range(10))


def test_a_share_of_the_labels_is_kept_evenly() -> None:
    data = DigitsConfig(labelled=0.05).build()
    label = columns(data)["label"]
    kept = label[label != UNLABELLED]
    assert len(kept) == data.info["training_labels"] == 72
    assert set(kept.bincount().tolist()) == {7, 8}
    assert torch.equal(kept, columns(DigitsConfig().build())["label"][label != UNLABELLED])
    assert (columns(data, "validation")["label"] != UNLABELLED).all()
    assert (columns(DigitsConfig(labelled=0.0).build())["label"] == UNLABELLED).all()


def seen(config: DigitsConfig, key: int = 0) -> torch.Tensor:
    """Every training image as a model is shown it, under keys that start at `key`."""
    dataset = config.build().train
    index = torch.arange(len(dataset))
    return dataset.batch(index, index + key)["image"]


def test_black_and_white_images_with_sides() -> None:
    image = seen(DigitsConfig(binarise="threshold", flat=False))
    assert image.shape[1:] == (1, 8, 8)
    assert torch.equal(image.flatten(1), (seen(DigitsConfig()) >= 0.5).float())


def test_dynamic_binarisation_draws_each_pixel_by_its_brightness() -> None:
    config = DigitsConfig(binarise="dynamic")
    first, grey = seen(config), seen(DigitsConfig())
    assert set(first.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(first, seen(config))  # the same keys
    assert not torch.equal(first, seen(config, key=1_000_000))
    for level in (0.0, 0.25, 0.5, 1.0):
        drawn = first[grey == level]
        assert float(drawn.mean()) == pytest.approx(level, abs=4 * (level * (1 - level) / len(drawn)) ** 0.5)


def test_labelled_digits_may_stand_more_often() -> None:
    once, often = (columns(DigitsConfig(labelled=0.05, repeat_labelled=times).build())["label"] for times in (1, 5))
    assert len(often) - len(once) == 4 * 72
    assert torch.equal((often != UNLABELLED).sum(), 5 * (once != UNLABELLED).sum())
    assert len(columns(DigitsConfig(repeat_labelled=5).build())["label"]) == 1438  # nothing is gained where all are labelled
    with pytest.raises(ConfigError, match=r"--data\.repeat_labelled"):
        DigitsConfig(repeat_labelled=0).build()


@pytest.mark.parametrize("wrong", [{"validation": 1.0}, {"validation": -0.1}, {"labelled": 1.5}])
def test_wrong_shares_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        DigitsConfig(**wrong).build()
