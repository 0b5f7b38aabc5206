"""`weft sample` and `weft evaluate` of models that answer: one text, a file of texts, passes and scaled lengths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests.cli.conftest import Outcome
from tests.contracts.tiny import tiny
from weft.core.config import override


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that goes token by token, one that makes all tokens at once and one that is cut."""
    folder = tmp_path_factory.mktemp("answering")
    for name in ("transformer/numbers", "nat/numbers"):
        recipe = override(tiny(name, folder), {"train.steps": 20, "train.device": "cpu", "optim.lr": 1e-2})
        weft.train(recipe, out=folder / name.partition("/")[0])
    cut = {"model.fixed_length": 20, "objective.fixed_length": 20, "train.device": "cpu"}
    weft.train(override(tiny("nat/numbers", folder), cut), out=folder / "cut")
    return folder


def test_all_tokens_at_once(command: Callable[..., Outcome], runs: Path) -> None:
    plain = command("sample", str(runs / "nat"), "123", "--iterations", "1")
    assert plain.code == 0, plain.err
    assert "in 1 passes, ended by length" in plain.err
    assert plain.out == command("sample", str(runs / "nat"), "123", "--iterations", "1").out
    double = command("sample", str(runs / "nat"), "123", "--length-factor", "2")
    tokens = int(double.err.split("(")[1].split()[0])
    assert tokens % 2 == 0
    assert "in 1 passes" in command("sample", str(runs / "cut"), "123").err


def test_a_file_of_texts(command: Callable[..., Outcome], runs: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("7\n\n123\n45\n")
    for run in ("transformer", "nat"):
        out = tmp_path / f"{run}.txt"
        done = command("sample", str(runs / run), "--input", str(tmp_path / "in.txt"), "--out", str(out))
        assert done.code == 0, done.err
        assert "0 of 4 lines" in done.err
        assert "4 answers written" in done.out
        lines = out.read_text().split("\n")
        assert (len(lines), lines[1], lines[4]) == (5, "", "")
        assert lines[2] == command("sample", str(runs / run), "123").out.removesuffix("\n")
    # the two texts are pairs that another model can learn from
    flags = ["--data.path", str(tmp_path / "in.txt"), "--data.target-path", str(tmp_path / "transformer.txt")]
    small = ["--model.layers", "1", "--model.width", "16", "--model.heads", "2", "--data.tokenizer", "bytes", "--train.steps", "2"]
    learned = command("train", "nat/pairs", *flags, *small, "--data.validation", "0", "--out", str(tmp_path / "run"))
    assert learned.code == 0, learned.err
    assert "pairs with an empty side, left out" in learned.out + learned.err


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("nat", [], "answers a text; give it one"),
        ("nat", ["7", "--length-factor", "-1"], "length_factor must be above 0"),
        ("nat", ["7", "--iterations", "-2"], "iterations must be at least 1"),
        ("cut", ["7", "--iterations", "3"], "cut at END makes one pass"),
        ("transformer", ["7", "--iterations", "3"], "answers token by token"),
        ("transformer", ["7", "--temperature", "0.5"], "--temperature is for models that continue a text, and this one answers it"),
        ("transformer", ["7", "--max-new-tokens", "2"], "--max-new-tokens is for models that continue a text"),
        ("nat", ["7", "--beams", "3"], "--beams needs beam search, and this model makes all tokens at once"),
        ("nat", ["--input", "/nowhere", "--out", "x"], "no such file"),
        ("nat", ["--input", "texts"], "--input needs --out"),
        ("nat", ["7", "--input", "texts", "--out", "x"], "no room for the prompt"),
    ],
)
def test_what_cannot_be_answered_is_one_line(command: Callable[..., Outcome], runs: Path, run: str, words: list[str], said: str) -> None:
    done = command("sample", str(runs / run), *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.startswith("weft: ")


def test_a_file_of_texts_needs_a_model_that_answers(command: Callable[..., Outcome], text_run: Path) -> None:
    assert "--input is for models that answer" in command("sample", str(text_run), "--input", "a", "--out", "b").err


def test_bleu_of_so_many_passes(command: Callable[..., Outcome], runs: Path) -> None:
    pytest.importorskip("sacrebleu")
    done = command("evaluate", str(runs / "nat"), "bleu", "token_bleu", "--iterations", "2", "--length-factor", "0.5", "--examples", "8")
    assert done.code == 0, done.err
    (said,) = (runs / "nat" / "evaluations").glob("*-iterations-2-length_factor-0.5-predictions.json")
    content = json.loads(said.read_text())
    assert (content["iterations"], content["candidates"], content["length_factor"]) == (2, 2, 0.5)
    assert len(content["translations"]) == 8
    (record,) = (runs / "nat" / "evaluations").glob("*-iterations-2-length_factor-0.5.json")
    assert json.loads(record.read_text())["objective"] == {"iterations": 2, "length_factor": 0.5}
    assert "has no setting 'iterations'" in command("evaluate", str(runs / "transformer"), "--iterations", "2").err


def test_the_best_answers_of_a_beam(command: Callable[..., Outcome], runs: Path) -> None:
    several = command("sample", str(runs / "transformer"), "123", "--beams", "4", "--n", "3", "--length-penalty", "0")
    assert several.code == 0, several.err
    scores = [float(line.rsplit("score ", 1)[1].rstrip(")")) for line in several.err.splitlines()]
    assert len(several.out.splitlines()) == len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    loaded = weft.load(runs / "transformer")
    best = loaded.answer("123", beams=4, length_penalty=0.0)
    assert [f"{one.score:.5f}" for one in best[:3]] == [f"{score:.5f}" for score in scores]
    assert all(one.logprob == one.score for one in best)
    covering = command("sample", str(runs / "transformer"), "123", "--beams", "4", "--coverage-penalty", "0.5")
    assert covering.code == 0, covering.err
    logprob, score = (float(re.findall(rf"{name} (-?[\d.]+)", covering.err)[0]) for name in ("log-probability", "score"))
    length = int(covering.err.split("(")[1].split()[0])
    assert score < logprob / ((5 + length) / 6) ** 0.6 + 1e-5  # what is not covered costs


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("transformer", ["7", "--beams", "2", "--n", "3"], "2 beams find at most 2 answers"),
        ("transformer", ["7", "--beams", "-1"], "2 beams|at least one beam|-1 beams find"),
        ("transformer", ["7", "--length-penalty", "-1"], "must be at least 0, not -1"),
        ("transformer", ["7", "--coverage-penalty", "-1"], "must be at least 0, not -1"),
        ("nat", ["7", "--n", "2"], "makes one answer, all tokens at once"),
    ],
)
def test_beams_that_make_no_sense(command: Callable[..., Outcome], runs: Path, run: str, words: list[str], said: str) -> None:
    done = command("sample", str(runs / run), *words)
    assert done.code == 2
    assert re.search(said, done.err), done.err
