"""Data that there is nothing to learn from are refused before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.core.errors import DataError
from weft.runs.assemble import assemble


def refused(tmp_path: Path, name: str, path: Path, said: str, **changes: object) -> None:
    recipe = weft.recipe(name, {"data.path": str(path), "train.device": "cpu", **changes})
    with pytest.raises(DataError, match=said) as caught:
        assemble(recipe, tmp_path / "run")
    assert str(path) in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_one_class_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    table.write_text("x,y,label\n" + "1,2,spam\n3,4,spam\n" * 20)
    refused(tmp_path, "classifier/table", table, "all its examples are of one class, 'spam'")
    texts = tmp_path / "one.tsv"
    texts.write_text("text\tlabel\n" + "hello there\tspam\n" * 20)
    refused(tmp_path, "bert/classify", texts, "one class, 'spam'")
    tags = tmp_path / "tags.txt"
    tags.write_text("a\tO\nb\tO\n\n" * 20)
    refused(tmp_path, "bert/tags", tags, "one class, 'O'")


def test_one_image_or_one_folder_of_them_is_refused(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "images" / "cats").mkdir(parents=True)
    picture = image.new("L", (8, 8), 128)
    picture.save(tmp_path / "images" / "cats" / "0.png")
    refused(tmp_path, "vae/images", tmp_path / "images", "holds one example to train on")
    for number in range(1, 9):
        picture.save(tmp_path / "images" / "cats" / f"{number}.png")
    refused(tmp_path, "vit/images", tmp_path / "images", "one class, 'cats'")


def test_a_column_of_many_numbers_is_no_class_and_words_are_no_number(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("rooms,price\n" + "".join(f"{n % 5},{1000 + 7 * n}\n" for n in range(60)))
    refused(tmp_path, "classifier/table", table, "train regression/table")
    words = tmp_path / "words.csv"
    words.write_text("rooms,kind\n" + "1,flat\n2,house\n" * 20)
    refused(tmp_path, "regression/table", words, "classes are predicted by classifier/table")
