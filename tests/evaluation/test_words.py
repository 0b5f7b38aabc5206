"""Analogies and similarities of word vectors are what gensim finds, and what does not fit a file is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.conftest import weft_command
from tests.convert.vectors.test_files import FIXTURES
from weft.convert.convert import convert
from weft.core.errors import DataError
from weft.data.base import Problems
from weft.evaluation.words import ANALOGIES, SIMILARITY, pair, run, similarity, solved
from weft.runs.load import load


@pytest.fixture(scope="module")
def expected() -> Any:
    return json.loads((FIXTURES / "expected.json").read_text())


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("words")
    convert(str(FIXTURES / "gensim.bin"), folder / "run")
    return load(folder / "run", "cpu")


@pytest.mark.parametrize(("vocabulary", "name"), [(30_000, "analogies"), (12, "analogies_12")])
def test_analogies_are_those_of_gensim(vectors: Any, expected: Any, vocabulary: int, name: str) -> None:
    found = run(vectors, "analogies", ANALOGIES, str(FIXTURES / "questions-words.txt"), vocabulary)
    assert found.metrics["accuracy"] == pytest.approx(expected[name]["accuracy"])
    sections = {row[0]: [int(row[1]), int(row[2]) - int(row[1])] for row in found.rows}
    wanted = dict(expected[name]["sections"])
    assert sections["all"] == wanted.pop("Total accuracy")
    assert {title: sections[title] for title in wanted} == wanted
    assert any("lines that are not four words" in line for line in found.problems)
    assert any("questions with a word that is not among" in line for line in found.problems)
    if vocabulary > 12:
        assert found.metrics["random_vectors"] < 0.3 < found.metrics["accuracy"]


def test_words_of_the_question_are_no_answers_whatever_their_capitals() -> None:
    capitals = ["A", "B", "C", "B", "D"]
    table = torch.nn.functional.normalize(torch.tensor([[1.0, 0], [0, 1], [1, 0.2], [0.1, 1], [0.5, 1]]), dim=-1)
    assert solved(capitals, table, [("A", "B", "C", "D")]) == ["D"]


def test_similarities_are_those_of_gensim(vectors: Any, expected: Any) -> None:
    found = run(vectors, "similarity", SIMILARITY, str(FIXTURES / "wordsim.tsv"))
    assert found.metrics["spearman"] == pytest.approx(expected["similarity"]["spearman"], abs=1e-6)
    [line] = found.problems
    assert "2 × pairs with a word that is not among the 36" in line
    assert 100 * 2 / (2 + found.examples) == pytest.approx(expected["similarity"]["oov"])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("tiger,cat,7.35", ("tiger", "cat", 7.35)),
        ("tiger\tcat\t7.35", ("tiger", "cat", 7.35)),
        ("old\tnew\tA\t1.58\t2.72\t2.81\t2\t7.25\t1\t0.41", ("old", "new", 1.58)),
        ("sun sunlight 50.000000", ("sun", "sunlight", 50.0)),
        ("sun-n sunlight-n 50.000000", ("sun", "sunlight", 50.0)),
        ("cord;smile;0.02", ("cord", "smile", 0.02)),
        ("Word 1,Word 2,Human (mean)", None),
        ("word1\tword2\tPOS\tSimLex999", None),
        ("alone", None),
    ],
)
def test_the_layouts_of_published_files(line: str, wanted: Any) -> None:
    assert pair(line) == wanted


def test_the_command_tells_a_table_and_writes_json(tmp_path: Path) -> None:
    convert(str(FIXTURES / "gensim.bin"), tmp_path / "run")
    done = weft_command("evaluate", str(tmp_path / "run"), "analogies", "--data.path", str(FIXTURES / "questions-words.txt"))
    assert done.code == 0, done.err
    assert "family" in done.out
    assert "random vectors" in done.out
    [written] = (tmp_path / "run" / "evaluations").glob("*-analogies.json")
    assert json.loads(written.read_text())["metrics"]["accuracy"] == pytest.approx(34 / 42)
    done = weft_command("evaluate", str(tmp_path / "run"), "similarity")
    assert done.err.startswith("weft: similarity: name the file of the task with --data.path")
    done = weft_command("evaluate", str(tmp_path / "run"), "analogies", "--shots", "2", "--data.path", "x")
    assert "--shots, --template, --examples and --data.train are for language models" in done.err


def test_a_file_of_other_words_is_refused() -> None:
    with pytest.raises(DataError, match="0 of its pairs have two words"):
        similarity(["CAT"], torch.eye(1), ["dog hen 3"], "it", Problems())
