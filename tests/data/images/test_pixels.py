from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from weft.core.config import from_dict, override, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.base import UNLABELLED, Dataset
from weft.data.images.augment import Augment
from weft.data.images.paired import ImagePairsConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tokenizers.base import ClassNames


def save(path: Path, value: int = 0, size: tuple[int, int] = (6, 6), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(path)


def classes(folder: Path, number: int = 5) -> Path:
    for position, name in enumerate(("cat", "dog", "emu")):
        for i in range(number):
            save(folder / name / f"{i}.png", 40 * position + i)
    return folder


def everything(dataset: Dataset | None) -> dict[str, torch.Tensor]:
    assert dataset is not None
    index = torch.arange(len(dataset))
    return dataset.batch(index, index)


def write_idx(path: Path, array: np.ndarray) -> None:
    data = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def mnist(folder: Path, number: int = 40, suffix: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    for part, count in (("train", number), ("t10k", 10)):
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", np.arange(count * 12).reshape(count, 3, 4) % 251)
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", np.arange(count) % 10)
    return folder


def test_a_file_is_read_as_what_its_suffixes_may_be_and_no_program_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    (folder / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = str(tmp_path / "photos")
    for config in (ImagesConfig(path=path, size=8), ImagePairsConfig(path=path, size=8, crop_size=8)):
        with pytest.raises(DataError, match="be read"):
            config.build()
    assert not (tmp_path / "asked").exists()


def test_a_folder_per_class(tmp_path: Path) -> None:
    data = ImagesConfig(path=str(classes(tmp_path)), validation=0.2).build()
    assert data.info["class_names"] == ["cat", "dog", "emu"]
    assert (data.info["classes"], data.info["image"], data.info["features"]) == (3, (3, 6, 6), 108)
    assert (data.info["training_examples"], data.info["validation_examples"]) == (12, 3)
    batch = everything(data.train)
    assert batch["image"].dtype == torch.float32
    for image, label in zip(batch["image"], batch["label"], strict=True):
        value = round(float(image[0, 0, 0]) * 255)
        assert value // 40 == label
    assert not data.problems.counts


def test_loose_images_are_unlabelled_and_never_validate_among_labelled_ones(tmp_path: Path) -> None:
    for i in range(10):
        save(tmp_path / f"{i}.png")
    data = ImagesConfig(path=str(tmp_path)).build()
    assert data.info["classes"] == 0
    assert (everything(data.train)["label"] == UNLABELLED).all()
    assert len(everything(data.validation)["label"]) == 1
    mixed = ImagesConfig(path=str(classes(tmp_path)), validation=0.5).build()
    assert (everything(mixed.train)["label"] == UNLABELLED).sum() == 10
    assert (everything(mixed.validation)["label"] != UNLABELLED).all()
    assert not data.problems.counts and mixed.problems.counts == {"images outside the class folders, taken as unlabelled": 10}


def test_flat_grey_and_scaled(tmp_path: Path) -> None:
    data = ImagesConfig(path=str(classes(tmp_path)), size=4, channels=1, flat=True).build()
    assert everything(data.train)["image"].shape[1:] == (16,)
    assert data.info["image"] == (1, 4, 4)


def test_the_shorter_side_is_scaled_and_the_middle_kept(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    image = everything(ImagesConfig(path=str(tmp_path), size=5, validation=0.0).build().train)["image"]
    assert (image[..., 1:-1] == 1).all()
    assert image.min() > 0.8


def test_both_sides_are_scaled_where_nothing_is_to_be_cut(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    image = everything(ImagesConfig(path=str(tmp_path), size=6, squash=True, validation=0.0).build().train)["image"]
    assert (image[..., 0] == 0).all() and (image[..., -1] == 0).all()
    assert (image[..., 2:4] > 0.8).all()


def test_pixels_are_counted_in_deviations_from_a_mean(tmp_path: Path) -> None:
    path = str(classes(tmp_path))
    mean, deviation = (0.5, 0.25, 0.0), (0.5, 0.25, 2.0)
    plain, counted = (ImagesConfig(path=path, **more).build() for more in ({}, {"mean": mean, "std": deviation}))  # type: ignore[arg-type]
    for first, second in ((plain.train, counted.train), (plain.validation, counted.validation)):
        wanted = (everything(first)["image"] - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(deviation).view(3, 1, 1)
        torch.testing.assert_close(everything(second)["image"], wanted)
    assert counted.info == plain.info
    with pytest.raises(ConfigError, match="is of 3 channels, but the images have 1"):
        ImagesConfig(path=path, channels=1, mean=mean, std=deviation).build()
    for wrong in ({"mean": mean}, {"mean": mean, "std": (1.0, 0.0, 1.0)}, {"mean": (float("nan"),) * 3, "std": deviation}):
        with pytest.raises(ConfigError, match=r"--data\.mean and --data\.std"):
            ImagesConfig(path=path, **wrong).build()  # type: ignore[arg-type]


def test_classes_may_be_named_in_another_order(tmp_path: Path) -> None:
    config = ImagesConfig(path=str(classes(tmp_path)), class_names=("emu", "cat"), validation=0.0)
    for data in (config.build(), config.build_with(ClassNames(["ant", "dog"]))):
        assert data.tokenizer.names == ["emu", "cat"]
        assert torch.bincount(everything(data.train)["label"]).tolist() == [5, 5]
        assert "'dog'" in data.problems.lines()[0]


def test_kinds_of_pixels(tmp_path: Path) -> None:
    deep = np.array([[0, 65535], [32768, 256]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    Image.new("P", (2, 2)).save(tmp_path / "b.gif")
    Image.new("1", (2, 2), 1).save(tmp_path / "c.png")
    Image.new("RGBA", (2, 2), (255, 0, 0, 10)).save(tmp_path / "d.png")
    Image.new("CMYK", (2, 2)).save(tmp_path / "e.jpg")
    Image.new("F", (2, 2)).save(tmp_path / "f.tif")
    data = ImagesConfig(path=str(tmp_path), validation=0.0).build()
    image = everything(data.train)["image"]
    assert image.shape == (5, 3, 2, 2)
    assert torch.allclose(image[0, 0] * 255, torch.tensor([[0.0, 255.0], [128.0, 1.0]]))
    assert data.problems.lines()[0].startswith("1 × images that cannot be read")
    assert everything(ImagesConfig(path=str(tmp_path), validation=0.0, channels=4).build().train)["image"].shape[1] == 4


def test_photographs_stand_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = 6  # the camera was held upright: what is on the left of the file belongs on top
    pixels = np.zeros((8, 16), dtype=np.uint8)
    pixels[:, :8] = 255
    Image.fromarray(pixels).save(tmp_path / "held.png", exif=exif)
    found = ImagesConfig(path=str(tmp_path)).build().train.batch(torch.zeros(1).long(), torch.zeros(1).long())["image"][0, 0]
    assert found.shape == (16, 8)
    assert found[:8].min() == 1 and found[8:].max() == 0


def test_different_sizes_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    save(classes(tmp_path) / "cat" / "odd.png", size=(8, 7))
    with pytest.raises(DataError, match=r"odd\.png is 8x7.*--data\.size"):
        ImagesConfig(path=str(tmp_path)).build()
    assert ImagesConfig(path=str(tmp_path), size=6).build().info["image"] == (3, 6, 6)


def test_broken_files_are_counted_and_named(tmp_path: Path) -> None:
    classes(tmp_path)
    good = (tmp_path / "cat" / "0.png").read_bytes()
    (tmp_path / "cat" / "cut.png").write_bytes(good[: len(good) // 2])
    (tmp_path / "cat" / "empty.png").touch()
    (tmp_path / "dog" / "text.jpg").write_text("hello")
    (tmp_path / "dog" / "notes.txt").write_text("hello")
    (tmp_path / "fox").mkdir()
    (tmp_path / "gnu.png").symlink_to(tmp_path / "gnu.png")
    (tmp_path / "loop").symlink_to(tmp_path)
    data = ImagesConfig(path=str(tmp_path)).build()
    told = "\n".join(data.problems.lines())
    for part in ("cut.png", "empty.png", "text.jpg", "notes.txt", "fox", "gnu.png", "loop"):
        assert part in told
    assert data.info["class_names"] == ["cat", "dog", "emu"]
    assert data.problems.counts["images that cannot be read"] == 3


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    classes(tmp_path)
    head = Image.new("L", (1, 1))
    head.save(tmp_path / "bomb.png")
    data = bytearray((tmp_path / "bomb.png").read_bytes())
    data[16:24] = struct.pack(">II", 40_000, 40_000)
    (tmp_path / "bomb.png").write_bytes(data)
    assert ImagesConfig(path=str(tmp_path)).build().problems.counts["images that cannot be read"] == 1


def test_nothing_usable_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no image"):
        ImagesConfig(path=str(tmp_path)).build()
    (tmp_path / "a.png").write_bytes(b"no")
    with pytest.raises(DataError, match="none of its images"):
        ImagesConfig(path=str(tmp_path)).build()
    with pytest.raises(DataError, match="is a file"):
        ImagesConfig(path=str(tmp_path / "a.png")).build()
    with pytest.raises(DataError, match=r"--data\.path"):
        ImagesConfig().build()


def test_one_image_and_one_class(tmp_path: Path) -> None:
    save(tmp_path / "only" / "a.png")
    data = ImagesConfig(path=str(tmp_path)).build()
    assert data.validation is None
    assert len(data.train) == 1
    assert data.info["class_names"] == ["only"]


def test_parts_in_folders_of_their_own(tmp_path: Path) -> None:
    classes(tmp_path / "train")
    classes(tmp_path / "val", 2)
    save(tmp_path / "test" / "dog" / "1.png", 41)
    save(tmp_path / "test" / "yak" / "1.png")
    data = ImagesConfig(path=str(tmp_path)).build()
    assert (data.info["training_examples"], data.info["validation_examples"]) == (15, 6)
    test = ImagesConfig(path=str(tmp_path), validate_on="test").build()
    assert everything(test.validation)["label"].tolist() == [1]
    assert "'yak'" in test.problems.lines()[0]
    (tmp_path / "swan").mkdir()
    save(tmp_path / "swan" / "1.png")
    assert ImagesConfig(path=str(tmp_path)).build().info["class_names"] == ["swan", "test", "train", "val"]


def test_a_folder_to_validate_on_is_numbered_as_training(tmp_path: Path) -> None:
    classes(tmp_path / "mine")
    save(tmp_path / "yours" / "emu" / "1.png", mode="L")
    data = ImagesConfig(path=str(tmp_path / "mine"), validation_path=str(tmp_path / "yours")).build()
    assert everything(data.validation)["label"].tolist() == [2]
    assert everything(data.validation)["image"].shape == (1, 3, 6, 6)
    assert len(data.train) == 15
    again = ImagesConfig(path=str(tmp_path / "yours"), validation=0.0).build_with(data.tokenizer)
    assert everything(again.train)["label"].tolist() == [2]
    assert again.info["classes"] == 3
    with pytest.raises(DataError, match="no image of a class"):
        ImagesConfig(path=str(tmp_path / "yours")).build_with(ClassNames(["a", "b"]))
    save(tmp_path / "large" / "emu" / "1.png", size=(9, 9))
    with pytest.raises(DataError, match="are 9x9, training images 6x6"):
        ImagesConfig(path=str(tmp_path / "mine"), validation_path=str(tmp_path / "large")).build()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx(tmp_path: Path, suffix: str) -> None:
    folder = str(mnist(tmp_path, suffix=suffix))
    data = ImagesConfig(path=folder, validation=0.25).build()
    assert (data.info["training_examples"], data.info["validation_examples"], data.info["image"]) == (30, 10, (1, 3, 4))
    image = everything(ImagesConfig(path=folder, validation=0.0).build().train)["image"]
    assert torch.equal((image * 255).round().flatten().long(), torch.arange(480) % 251)
    test = ImagesConfig(path=folder, validate_on="test", flat=True).build()
    assert (test.info["training_examples"], test.info["validation_examples"]) == (40, 10)
    assert everything(test.validation)["label"].tolist() == list(range(10))
    assert ImagesConfig(path=folder, size=8, channels=3).build().info["image"] == (3, 8, 8)


def test_truncated_idx_files_give_what_they_have(tmp_path: Path) -> None:
    images = mnist(tmp_path) / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[: 16 + 12 * 30 + 5])
    data = ImagesConfig(path=str(tmp_path), validation=0.0).build()
    assert len(data.train) == 30
    assert "30 of 40 are there" in data.problems.lines()[0]
    assert data.problems.counts["images without a label or labels without an image"] == 10
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    assert (everything(ImagesConfig(path=str(tmp_path)).build().train)["label"] == UNLABELLED).all()


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08\x03", b"\0\0\x0d\x03" + b"\0" * 100, b"\0\0\x08\x03" + b"\xff" * 12, b"\0\0\x08\x03" + b"\0" * 64]
)
def test_files_that_are_no_idx(tmp_path: Path, content: bytes) -> None:
    (mnist(tmp_path) / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        ImagesConfig(path=str(tmp_path)).build()


def test_a_folder_without_a_part(tmp_path: Path) -> None:
    mnist(tmp_path)
    os.remove(tmp_path / "t10k-images-idx3-ubyte")
    with pytest.raises(DataError, match="no test split"):
        ImagesConfig(path=str(tmp_path), validate_on="test").build()


def test_cifar_ten(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (20, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(20) % 10
    records[3, 0] = 77
    (tmp_path / "data_batch_1.bin").write_bytes(records[:10].tobytes())
    (tmp_path / "data_batch_2.bin").write_bytes(records[10:].tobytes() + b"rest")
    (tmp_path / "data_batch_3.bin").mkdir()
    (tmp_path / "test_batch.bin").write_bytes(records[:2].tobytes())
    (tmp_path / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    data = ImagesConfig(path=str(tmp_path), validate_on="test").build()
    assert (data.info["training_examples"], data.info["validation_examples"], data.info["image"]) == (19, 2, (3, 32, 32))
    assert data.info["class_names"] == list("abcdefghij")
    assert np.array_equal((everything(data.validation)["image"] * 255).round().numpy().reshape(2, -1), records[:2, 1:])
    told = "\n".join(data.problems.lines())
    assert "record 4, label 77" in told
    assert "(4 bytes of 3073)" in told
    assert "data_batch_3.bin: is a folder" in told


def test_cifar_hundred(tmp_path: Path) -> None:
    records = np.zeros((6, 3074), dtype=np.uint8)
    records[:, 1] = [99, 3, 3, 99, 3, 99]
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    data = ImagesConfig(path=str(tmp_path), validation=0.0).build()
    assert data.info["classes"] == 100
    assert everything(data.train)["label"].tolist() == [99, 3, 3, 99, 3, 99]


@pytest.mark.parametrize("names", [("data_batch_1",), ("batches.meta",), ("train", "meta")])
def test_pickles_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(DataError, match="pickle, which is never opened"):
        ImagesConfig(path=str(tmp_path)).build()


def test_contact_sheets(tmp_path: Path) -> None:
    tiles = np.random.default_rng(1).integers(0, 256, (24, 5, 5, 3), dtype=np.uint8)
    for sheet in range(2):
        picture = tiles[12 * sheet : 12 * sheet + 12].reshape(3, 4, 5, 5, 3).transpose(0, 2, 1, 3, 4).reshape(15, 20, 3)
        Image.fromarray(picture).save(tmp_path / f"train_{sheet}.webp", lossless=True)
    np.savez(tmp_path / "train_labels.npz", labels=np.arange(24, dtype=np.uint8) % 3)
    data = ImagesConfig(path=str(tmp_path), validation=0.0).build()
    assert data.info["image"] == (3, 5, 5)
    assert np.array_equal((everything(data.train)["image"] * 255).round().numpy(), tiles.transpose(0, 3, 1, 2))
    np.savez(tmp_path / "train_labels.npz", labels=np.arange(23))
    with pytest.raises(DataError, match="labels"):
        ImagesConfig(path=str(tmp_path)).build()
    np.savez(tmp_path / "train_labels.npz", labels=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="no labels can be read"):
        ImagesConfig(path=str(tmp_path)).build()


def test_only_training_images_are_changed_and_their_labels_are_not(tmp_path: Path) -> None:
    folder = str(classes(tmp_path))
    plain = ImagesConfig(path=folder).build()
    noisy = ImagesConfig(path=folder, augment=Augment(noise=0.2, flip=0.5, crop=1, rotate=10.0, scale=(0.9, 1.1))).build()
    assert torch.equal(everything(plain.validation)["image"], everything(noisy.validation)["image"])
    first, second = everything(noisy.train), everything(noisy.train)
    assert torch.equal(first["image"], second["image"])
    assert torch.equal(first["label"], everything(plain.train)["label"])
    assert not torch.equal(first["image"], everything(plain.train)["image"])
    index = torch.arange(3)
    assert not torch.equal(noisy.train.batch(index, index + 100)["image"], first["image"][:3])


def test_a_window_is_random_in_training_and_central_in_validation(tmp_path: Path) -> None:
    data = ImagesConfig(path=str(classes(tmp_path)), crop_size=4).build()
    assert data.info["image"] == (3, 4, 4)
    assert everything(data.validation)["image"].shape[1:] == (3, 4, 4)
    assert everything(data.train)["image"].shape[1:] == (3, 4, 4)
    with pytest.raises(ConfigError, match=r"--data\.crop_size 9"):
        ImagesConfig(path=str(tmp_path), crop_size=9).build()


def test_fewer_examples_and_fewer_labels(tmp_path: Path) -> None:
    folder = str(mnist(tmp_path, number=200))
    few = ImagesConfig(path=folder, examples=20).build()
    assert torch.bincount(everything(few.train)["label"]).tolist() == [2] * 10
    mixed = everything(ImagesConfig(path=folder, validation=0.0, labelled=0.25).build().train)["label"]
    assert torch.bincount(mixed[mixed != UNLABELLED]).tolist() == [5] * 10
    assert len(mixed) == 200


@pytest.mark.parametrize("wrong", [{"size": -1}, {"validation": 1.0}, {"examples": -5}, {"labelled": 2.0}])
def test_settings_that_make_no_sense(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        ImagesConfig(path=str(mnist(tmp_path)), **wrong).build()  # type: ignore[arg-type]


def test_settings_survive_json_and_take_flags() -> None:
    config = override(ImagesConfig(), {"augment.scale": ["0.9", "1.1"], "augment.crop": "4", "channels": "3"})
    assert config.augment == Augment(scale=(0.9, 1.1), crop=4)
    assert from_dict(to_dict(config), ImagesConfig) == config
    with pytest.raises(ConfigError):
        override(config, {"channels": "2"})


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    data = ImagesConfig(path=str(classes(tmp_path)), augment=Augment(flip=0.5, crop=1)).build()
    there = data.train.to(torch.device("cuda"))
    index = torch.arange(len(there), device="cuda")
    assert torch.equal(there.batch(index, index)["image"].cpu(), everything(data.train)["image"])


def test_pixels_become_black_and_white(tmp_path: Path) -> None:
    folder = str(mnist(tmp_path / "mnist"))
    grey = everything(ImagesConfig(path=folder).build().train)["image"]
    assert torch.equal(everything(ImagesConfig(path=folder, binarise="threshold").build().train)["image"], (grey >= 0.5).float())
    data = ImagesConfig(path=folder, binarise="dynamic", augment=Augment(crop=1)).build()
    assert set(everything(data.train)["image"].unique().tolist()) == {0.0, 1.0}
    held = everything(data.validation)["image"]
    assert torch.equal(held, everything(data.validation)["image"])  # keys decide


def test_labelled_images_may_stand_more_often(tmp_path: Path) -> None:
    data = ImagesConfig(path=str(mnist(tmp_path / "mnist")), validation=0.0, labelled=0.25, repeat_labelled=7).build()
    label = everything(data.train)["label"]
    assert len(label) == 40 + 6 * 10
    assert int((label != UNLABELLED).sum()) == 70
