"""Models of images keep how they are shown their pixels and what their classes are called, in and out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import weft
from tests.cli.conftest import weft_command
from weft.benchmarks.references import CASES, reference
from weft.convert import labels, pixels
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.data.images.pixels import ImagesConfig
from weft.evaluation.evaluate import evaluate
from weft.inference.predict.find import find
from weft.inference.predict.run import tell

transformers = pytest.importorskip("transformers")
NAMES = ["cat", "dog, domestic", "emu", "fox", "gnu"]
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PREPROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 16, "width": 16},
    "resample": 3,
    "do_rescale": True,
    "rescale_factor": 0.00392156862745098,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": DEVIATION,
}
SMALL = {"vit": CASES["vit"]["16 patches of 4 x 4"], "swin": CASES["swin"]["shifted, then one window"]}


def written(family: str, folder: Path, preprocessor: dict[str, Any] | None = PREPROCESSOR) -> Any:
    """A model of transformers with named classes, in a folder; its own processor would need torchvision, so the file is ours."""
    settings = {name: value for name, value in SMALL[family].items() if name != "num_labels"}
    model = reference(family, {**settings, "id2label": dict(enumerate(NAMES)), "label2id": {name: i for i, name in enumerate(NAMES)}})
    model.save_pretrained(folder)
    if preprocessor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return model


def photographs(folder: Path, side: int = 16) -> dict[Path, np.ndarray]:
    """Three images in the folder of each class but the last."""
    chance, made = np.random.default_rng(0), {}
    for name in NAMES[:-1]:
        (folder / name).mkdir(parents=True)
        for number in range(3):
            path = folder / name / f"{number}.png"
            made[path] = chance.integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(made[path]).save(path)
    return made


def expected(model: Any, images: dict[Path, np.ndarray]) -> torch.Tensor:
    """Their logits, from pixels as their processor would have them."""
    stacked = np.stack(list(images.values())).astype(np.float64) / 255
    shown = torch.from_numpy((stacked - MEAN) / DEVIATION).float().movedim(3, 1)
    with torch.no_grad():
        logits: torch.Tensor = model(shown).logits
    return logits


@pytest.mark.parametrize("family", ["vit", "swin"])
def test_images_are_shown_and_named_as_they_were(family: str, tmp_path: Path) -> None:
    theirs, images = written(family, tmp_path / "in"), photographs(tmp_path / "images")
    assert convert(str(tmp_path / "in"), tmp_path / "ours").classes == 5
    logits = expected(theirs, images)
    labels = torch.tensor([NAMES.index(path.parent.name) for path in images])
    found = evaluate(str(tmp_path / "ours"), data={"path": str(tmp_path / "images"), "validation_path": str(tmp_path / "images")})
    assert found.examples == 12
    assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), abs=1e-5)
    told = tell(find(weft.load(tmp_path / "ours", "cpu")), [str(tmp_path / "images")])
    for path, row in zip(images, logits.softmax(1), strict=True):
        shown = {name: float(share) for name, share in told[str(path)]}
        assert shown == pytest.approx(dict(zip(NAMES, row.tolist(), strict=True)), abs=6e-4)  # told with three digits


def test_there_and_back(tmp_path: Path) -> None:
    written("vit", tmp_path / "in")
    convert(str(tmp_path / "in"), tmp_path / "ours")
    done = weft_command("convert", str(tmp_path / "ours"), str(tmp_path / "out"))
    assert "with the names of 5 classes" in done.out
    back = json.loads((tmp_path / "out" / "preprocessor_config.json").read_text())
    assert {name: back[name] for name in PREPROCESSOR if name != "resample"} == {n: v for n, v in PREPROCESSOR.items() if n != "resample"}
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "out")
    assert again.config.id2label == dict(enumerate(NAMES))
    convert(str(tmp_path / "out"), tmp_path / "again")
    assert weft.load(tmp_path / "again", "cpu").recipe == weft.load(tmp_path / "ours", "cpu").recipe


def test_a_run_of_ours_goes_out_with_its_names(tmp_path: Path) -> None:
    photographs(tmp_path / "images")
    sizes = {"model.layers": 1, "model.heads": 2, "model.width": 16, "data.size": 16, "train.steps": 1, "train.device": "cpu"}
    weft.train(weft.recipe("vit/images", {"data.path": str(tmp_path / "images"), **sizes}), out=tmp_path / "run")
    convert(str(tmp_path / "run"), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {str(i): name for i, name in enumerate(NAMES[:-1])}
    back = json.loads((tmp_path / "out" / "preprocessor_config.json").read_text())
    assert (back["size"], back["crop_size"], back["do_normalize"]) == ({"shortest_edge": 16}, {"height": 16, "width": 16}, False)
    convert(str(tmp_path / "out"), tmp_path / "again")
    recipe, first = weft.load(tmp_path / "again", "cpu").recipe, weft.load(tmp_path / "run", "cpu").recipe
    assert all(getattr(recipe.data, name) == getattr(first.data, name) for name in ImagesConfig.model_preprocessing if name != "channels")


def test_finetuning_on_other_classes_keeps_how_images_are_shown(tmp_path: Path) -> None:
    written("vit", tmp_path / "in")
    convert(str(tmp_path / "in"), tmp_path / "ours")
    chance = np.random.default_rng(0)
    for name in ("ant", "bee"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(10):
            Image.fromarray(chance.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(tmp_path / "mine" / name / f"{number}.png")
    words = ["--data.path", str(tmp_path / "mine"), "--init", str(tmp_path / "ours"), "--train.steps", "1", "--train.device", "cpu"]
    refused = weft_command("train", "vit/images", *words, "--out", str(tmp_path / "no"))
    assert refused.code == 2
    assert "no image of a class that the model knows (cat, dog, domestic, emu" in refused.err
    assert "--data.class-names" in refused.err
    done = weft_command("train", "vit/images", *words, "--data.class-names", "ant", "bee", "--out", str(tmp_path / "run"))
    assert done.code == 0, done.err
    loaded = weft.load(tmp_path / "run", "cpu")
    data: Any = loaded.recipe.data
    assert loaded.tokenizer.names == ["ant", "bee"]
    assert (data.size, data.squash, data.mean, data.std) == (16, True, tuple(MEAN), tuple(DEVIATION))
    assert weft_command("evaluate", str(tmp_path / "run"), "--data.path", str(tmp_path / "mine")).code == 0


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (None, {"size": 16, "squash": False, "mean": ()}),
        ({}, {"size": 16, "squash": True, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}),
        ({"do_normalize": False}, {"mean": (), "std": ()}),
        ({"do_normalize": False, "do_rescale": False}, {"mean": (0.0, 0.0, 0.0), "std": (round(1 / 255, 12),) * 3}),
        ({"do_rescale": False, "image_mean": 127.5, "image_std": [51.0, 51.0, 51]}, {"mean": (0.5,) * 3, "std": (0.2,) * 3}),
        ({"size": 18, "do_center_crop": True, "crop_size": 16}, {"size": 18, "crop_size": 16, "squash": True}),
        ({"size": {"shortest_edge": 18}, "do_center_crop": True}, {"size": 18, "crop_size": 16, "squash": False}),
        ({"size": {"shortest_edge": 16}, "do_center_crop": False}, {"size": 16, "crop_size": 0, "squash": False}),
    ],
)
def test_kinds_of_processors(theirs: dict[str, Any] | None, ours: dict[str, Any]) -> None:
    found = pixels.shown(ImagesConfig(), (3, 16, 16), theirs)
    assert {name: getattr(found, name) for name in ours} == ours
    assert pixels.shown(ImagesConfig(), (3, 16, 16), json.loads(pixels.files(found, (3, 16, 16))[pixels.FILE])).mean == found.mean


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"image_mean": [0.5, 0.5]}, "image_mean is .*, not 3 numbers"),
        ({"image_mean": ["a", 0, 0]}, "image_mean is"),
        ({"image_std": [0.5, 0.0, 0.5]}, "must be above 0"),
        ({"image_std": [0.5, float("nan"), 0.5]}, "image_std is"),
        ({"rescale_factor": "x"}, "rescale_factor is 'x', not a number"),
        ({"rescale_factor": 0}, "must be above 0"),
    ],
)
def test_a_wrong_processor_is_one_line(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    written("vit", tmp_path / "in", {**PREPROCESSOR, **wrong})
    with pytest.raises(CheckpointError, match=f"preprocessor_config.json: .*{said}"):
        convert(str(tmp_path / "in"), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_class_names() -> None:
    assert labels.class_names({}) is None
    assert labels.class_names({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}) is None
    named = labels.class_names({"id2label": {"1": "b", "0": "a"}})
    assert named is not None
    assert named.names == ["a", "b"]
    for wrong in ({"0": "a", "2": "b"}, {"0": "a", "1": 7}, ["a", "b"]):
        with pytest.raises(CheckpointError, match="id2label does not give a name"):
            labels.class_names({"id2label": wrong})
    assert labels.labels(named, 3) == {}


def test_grey_and_oblong_images() -> None:
    """What has no settings of ours is left to the files."""
    found = pixels.shown(ImagesConfig(size=64), (2, 9, 14), {"do_normalize": False})
    assert (found.size, found.channels) == (0, 0)
    content = json.loads(pixels.files(found, (1, 9, 14))[pixels.FILE])
    assert (content["size"], content["do_convert_rgb"]) == ({"height": 9, "width": 14}, False)
