"""What models tell of something new: the same as they say in evaluation, whatever the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import weft
from tests.contracts.tiny import LEARN, tiny
from weft.core.errors import DataError, WeftError
from weft.data.images.pixels import ImagesConfig
from weft.evaluation.evaluate import evaluate
from weft.inference.predict.find import find, told
from weft.inference.predict.images import shape_of
from weft.inference.predict.run import tell
from weft.runs.assemble import assemble
from weft.runs.load import Loaded


def trained(name: str, folder: Path, changes: dict[str, Any]) -> Loaded:
    made = assemble(tiny(name, folder, {"train.device": "cpu", "train.eval_every": 0, **changes}), folder / "run")
    made.trainer.fit()
    return weft.load(folder / "run", device="cpu")


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("bert/classify", ["a dog likes rain."], [("1", "0")]),
        ("bert/mrpc", ["my friend hates a tree.", "a dog sees rain."], [("0", "1")]),
        ("gpt/classify", ["a dog likes rain.", "the cat sees rain."], [("1", "0")]),
        ("bert/choice", ["my friend 7", "hates rain", "likes a tree", "hates the moon"], [("likes a tree",)]),
        ("bert/tags", ["will sees", "the rain"], [("will", "sees", "the", "rain"), ("B-who", "O", "O", "B-what")]),
    ],
)
def test_a_task_that_was_learned_is_told(name: str, words: list[str], told: list[tuple[str, ...]], tmp_path: Path) -> None:
    loaded = trained(name, tmp_path, LEARN.get(name, {"train.steps": 60, "optim.lr": 3e-3}))
    [rows] = tell(find(loaded), words).values()
    for column, expected in zip(zip(*rows, strict=True), told, strict=False):
        assert column[: len(expected)] == expected
    if name != "bert/tags":
        assert sum(float(share) for _, share in rows) == pytest.approx(1.0, abs=0.002)


def test_a_number_is_told_in_its_own_units(tmp_path: Path) -> None:
    loaded = trained("bert/score", tmp_path, LEARN["bert/score"])
    liked, hated = (float(rows[0][1]) for text in ("likes", "hates") for rows in tell(find(loaded), [f"a dog {text} rain.", "x"]).values())
    assert liked == pytest.approx(1.5, abs=0.3)
    assert hated == pytest.approx(0.5, abs=0.3)


def test_an_answer_is_that_of_the_evaluation(tmp_path: Path) -> None:
    loaded = trained("bert/answers", tmp_path, {"train.steps": 20})
    findings = evaluate(loaded).findings
    assert findings is not None
    said = json.loads(findings.content)
    for paragraph in json.loads((tmp_path / "answers.json").read_text())["data"][0]["paragraphs"][:10]:
        asked = paragraph["qas"][0]
        rows = dict(tell(find(loaded), [asked["question"], paragraph["context"]])[asked["question"]])
        assert said[asked["id"]] in rows
        assert "(no answer)" in rows


def test_an_image_is_read_as_in_training(tmp_path: Path) -> None:
    loaded = trained("vit/images", tmp_path, {"train.steps": 3, "data.mean": (0.5,), "data.std": (0.2,)})
    chance = np.random.default_rng(0)
    (tmp_path / "new").mkdir()
    for number in range(3):
        Image.fromarray(chance.integers(0, 256, (40, 25, 3), dtype=np.uint8)).save(tmp_path / "new" / f"{number}.png")
    data = ImagesConfig(path=str(tmp_path / "new"), size=16, channels=1, mean=(0.5,), std=(0.2,), validation=0.0).build()
    index = torch.arange(3)
    with torch.no_grad():
        shares = loaded.model.classify(data.train.batch(index, index)["image"]).softmax(1)  # type: ignore[operator]
    shown = tell(find(loaded), [str(tmp_path / "new")])
    assert list(shown) == [str(tmp_path / "new" / f"{number}.png") for number in range(3)]
    for rows, expected in zip(shown.values(), shares, strict=True):
        found = {name: float(share) for name, share in rows}
        assert found == pytest.approx(dict(zip(loaded.tokenizer.names, expected.tolist(), strict=True)), abs=6e-4)
    (tmp_path / "new" / "3.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"cannot be read: .*3\.png"):
        tell(find(loaded), [str(tmp_path / "new")])
    with pytest.raises(DataError, match=r"absent\.png"):
        tell(find(loaded), ["absent.png"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        tell(find(loaded), [str(tmp_path / "empty")])


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("bert/classify", ["a", "b", "c"], "one text or two"),
        ("bert/choice", ["a", "b"], "at least two ways"),
        ("bert/answers", ["a"], "a question and a paragraph"),
        ("bert/answers", ["a", " "], "what was typed: no text in 'paragraph'"),
        ("bert/tags", [" "], "at least one word"),
    ],
)
def test_too_few_or_too_many_words(name: str, words: list[str], said: str, tmp_path: Path) -> None:
    loaded = trained(name, tmp_path, {"train.steps": 1})
    with pytest.raises(WeftError, match=said):
        tell(find(loaded), words)


def test_recipes_whose_models_tell_nothing() -> None:
    for name in ("gpt/text", "vae/digits", "word2vec/source", "transformer/numbers"):
        assert told(weft.recipe(name)) is None
    for name in ("classifier/digits", "classifier/table", "vit/cifar10", "bert/sst2"):
        assert told(weft.recipe(name)) is not None


@pytest.mark.parametrize(("features", "shape"), [(64, (1, 8, 8)), (784, (1, 28, 28)), (3072, (3, 32, 32)), (108, (3, 6, 6))])
def test_the_shape_of_a_flat_image(features: int, shape: tuple[int, int, int]) -> None:
    assert shape_of(features) == shape
