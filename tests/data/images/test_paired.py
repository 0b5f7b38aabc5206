"""Halves of one image, outlines of digits, and two styles that nobody pairs."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import DataLoader
from weft.data.images.domains import DomainsConfig, restyle, to_grey
from weft.data.images.paired import ImagePairsConfig, OutlinesConfig, outlines
from weft.data.images.unpaired import UnpairedImagesConfig


def pairs(folder: Path, number: int = 12) -> Path:
    """Left halves are dark red, right halves bright green; a row says which file it is."""
    image = pytest.importorskip("PIL.Image")
    (folder / "pairs").mkdir()
    for i in range(number):
        pixels = np.zeros((10, 20, 3), dtype=np.uint8)
        pixels[:, :10, 0], pixels[:, 10:, 1], pixels[..., 2] = 100, 200, 10 * i
        image.fromarray(pixels).save(folder / "pairs" / f"{i:02}.png")
    return folder / "pairs"


@pytest.mark.parametrize("packed", [False, True])
def test_halves_stay_together(packed: bool, tmp_path: Path) -> None:
    path = pairs(tmp_path)
    if packed:
        with tarfile.open(tmp_path / "pairs.tar", "w") as archive:
            archive.add(path, "pairs")
        path = tmp_path / "pairs.tar"
    data = ImagePairsConfig(path=str(path), size=10, crop_size=8, validation=0.25).build()
    assert data.validation is not None
    assert (len(data.train), len(data.validation)) == (9, 3)
    assert data.info["image"] == data.info["source_image"] == (3, 8, 8)
    batch = DataLoader(data.train, 1, torch.device("cpu")).batch(0, 9)
    assert batch["source"].shape == batch["image"].shape == (9, 3, 8, 8)
    torch.testing.assert_close(batch["source"][:, 1], torch.full((9, 8, 8), 200 / 255))  # the right half by default
    torch.testing.assert_close(batch["image"][:, 0], torch.full((9, 8, 8), 100 / 255))
    torch.testing.assert_close(batch["source"][:, 2], batch["image"][:, 2])  # both of one file
    other = ImagePairsConfig(path=str(path), size=10, crop_size=8, source="left").build()
    assert float(DataLoader(other.train, 1, torch.device("cpu")).batch(0, 2)["source"][:, 0].min()) > 0.3


def test_flaws_are_told(tmp_path: Path) -> None:
    path = pairs(tmp_path, 4)
    (path / "broken.png").write_bytes(b"no image")
    assert any("cannot be read" in line for line in ImagePairsConfig(path=str(path), size=8, crop_size=0).build().problems.lines())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no image"):
        ImagePairsConfig(path=str(tmp_path / "empty")).build()
    for changes in ({"crop_size": 300}, {"flip": 2.0}, {"size": 0}, {"validation": 1.0}):
        with pytest.raises(ConfigError):
            ImagePairsConfig(path=str(path), **changes).build()  # type: ignore[arg-type]


def test_pixels_of_sixteen_bits_keep_their_brightness_and_one_column_is_no_pair(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((8, 16), 128 << 8, dtype=np.uint16)).save(tmp_path / "deep.png")
    image.new("L", (1, 8)).save(tmp_path / "thin.png")
    data = ImagePairsConfig(path=str(tmp_path), size=8, crop_size=0, validation=0.0).build()
    assert len(data.train) == 1
    batch = DataLoader(data.train, 1, torch.device("cpu")).batch(0, 1)
    torch.testing.assert_close(batch["source"], torch.full((1, 3, 8, 8), 128 / 255))
    assert "thin.png (one pixel wide, which has no halves)" in data.problems.lines()[0]


def test_outlines_are_the_rim_of_what_is_bright() -> None:
    image = torch.zeros(1, 1, 8, 8)
    image[..., 2:7, 2:7] = 1
    found = outlines(image)
    assert float(found.sum()) == 16
    assert float(found[0, 0, 3:6, 3:6].sum()) == 0
    coarse = outlines(image, 4)
    assert set(coarse.flatten().tolist()) <= {0.0, 1.0}
    assert float(coarse[0, 0, :4, :4].std()) == 0


def test_digits_have_outlines() -> None:
    pytest.importorskip("sklearn")
    data = OutlinesConfig().build()
    batch = DataLoader(data.train, 1, torch.device("cpu")).batch(0, 5)
    torch.testing.assert_close(batch["source"], outlines(batch["image"]))
    assert data.info["source_image"] == (1, 8, 8)
    with pytest.raises(ConfigError):
        OutlinesConfig(coarse=0).build()


@pytest.mark.parametrize("style", ["invert", "colour"])
def test_no_image_is_in_both_domains(style: str) -> None:
    pytest.importorskip("sklearn")
    data = DomainsConfig(style=style).build()  # type: ignore[arg-type]
    source = DataLoader(data.train, 1, torch.device("cpu"), shuffle=False)
    batch = source.batch(0, len(data.train))
    channels = data.info["image"][0]
    assert batch["image"].shape[1:] == batch["other"].shape[1:] == (channels, 8, 8)
    torch.testing.assert_close(batch["truth"], restyle(batch["image"][:, :1], style))  # type: ignore[arg-type]
    torch.testing.assert_close(to_grey(batch["truth"], style), batch["image"][:, :1], atol=1e-5, rtol=1e-5)  # type: ignore[arg-type]
    own = {tuple(row) for row in batch["image"][:, 0].flatten(1).mul(16).round().int().tolist()}
    others = {tuple(row) for row in to_grey(batch["other"], style)[:, 0].flatten(1).mul(16).round().int().tolist()}  # type: ignore[arg-type]
    assert len(own & others) <= 2  # a few digits are drawn alike twice
    assert not torch.equal(batch["other_label"], batch["label"])


def test_two_folders_are_two_domains(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, colour, number in (("night", 0, 10), ("day", 255, 20)):
        (tmp_path / name).mkdir()
        for i in range(number):
            image.new("L", (12, 10), colour).save(tmp_path / name / f"{i}.png")
    settings = UnpairedImagesConfig(
        path=str(tmp_path / "night"), other=str(tmp_path / "day"), size=9, crop_size=8, channels=1, validation=0.2
    )
    data = settings.build()
    assert data.info["image"] == (1, 8, 8)
    assert (len(data.train), data.info["other_examples"]) == (8, 16)
    assert data.validation is not None
    for part in (data.train, data.validation):
        batch = DataLoader(part, 1, torch.device("cpu")).batch(0, 5)
        assert set(batch) == {"image", "other", "key"}
        assert batch["image"].shape == batch["other"].shape == (5, 1, 8, 8)
        assert float(batch["image"].max()) == 0
        assert float(batch["other"].min()) == 1
    with pytest.raises(ConfigError, match="second domain"):
        UnpairedImagesConfig(path=str(tmp_path / "night")).build()
