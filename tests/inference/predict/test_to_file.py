"""A file of rows becomes a file of results: in order, whole, continued after any interruption, bad rows in their places."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.cli.conftest import weft_command
from tests.contracts.tiny import tiny
from weft.inference.predict import to_file
from weft.inference.predict.base import BadRow
from weft.inference.predict.find import find
from weft.inference.predict.run import batches
from weft.runs.assemble import assemble
from weft.runs.load import Loaded

Made = Callable[[str], Loaded]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A small model of a recipe, trained for a step."""
    known: dict[str, Loaded] = {}

    def make(name: str) -> Loaded:
        if name not in known:
            folder = tmp_path_factory.mktemp("model")
            recipe = tiny(name, folder, {"train.device": "cpu", "train.eval_every": 0, "train.steps": 3})
            assemble(recipe, folder / "run").trainer.fit()
            known[name] = weft.load(folder / "run", "cpu")
        return known[name]

    return make


def texts(path: Path, number: int = 50) -> Path:
    """Rows of very different lengths; every seventh has no text."""
    rows = [{"id": i, "text": "" if i % 7 == 3 else "the cat " * (1 + i * 5 % 11) + "likes rain."} for i in range(number)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def predicted(loaded: Loaded, source: Path, target: Path, window: int = 2048, **about: Any) -> to_file.Progress:
    predictor = find(loaded)
    predictor.window = window
    opened = to_file.open_source(source, predictor)
    try:
        return to_file.predict_file(predictor, opened, predictor.choose(opened.names, ()), target, about)
    finally:
        opened.close()


def test_rows_stay_in_order_whatever_the_window_and_are_those_of_a_row_alone(made: Made, tmp_path: Path) -> None:
    loaded, source = made("bert/classify"), texts(tmp_path / "in.jsonl")
    done = predicted(loaded, source, tmp_path / "all.jsonl")
    predicted(loaded, source, tmp_path / "few.jsonl", window=8)
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == list(range(50))
    assert (done.rows, done.bad) == (50, 7)
    for row, other in zip(rows, map(json.loads, (tmp_path / "few.jsonl").read_text().splitlines()), strict=True):
        if row["id"] % 7 == 3:
            assert row["error"] == other["error"] == "no text in 'text'"
            assert "prediction" not in row
        else:
            [alone] = loaded.predict([row["text"]])
            assert row["prediction"] == other["prediction"] == alone["prediction"]
            assert row["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
            assert other["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


def test_every_form_of_output_says_the_same(made: Made, tmp_path: Path) -> None:
    loaded, source = made("bert/classify"), texts(tmp_path / "in.jsonl", 10)
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.csv.gz"):
        predicted(loaded, source, tmp_path / name, window=4)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    plain = (tmp_path / "a.csv").read_text()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode() == plain
    tables = [list(csv.DictReader(plain.splitlines())), list(csv.DictReader((tmp_path / "a.tsv").read_text().splitlines(), delimiter="\t"))]
    for table in tables:
        assert [row["prediction"] for row in table] == [row.get("prediction", "") for row in rows]
        assert [row["error"] for row in table] == [row.get("error", "") for row in rows]
        told = [float(row["probabilities.1"]) for row in table if not row["error"]]
        assert told == pytest.approx([row["probabilities"]["1"] for row in rows if "error" not in row])


class Cut(Exception):
    pass


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz"])
def test_a_call_cut_anywhere_goes_on_where_it_was(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Cut after the rows are written but before the state says so, and with half a row behind them."""
    loaded, source = made("bert/classify"), texts(tmp_path / "in.jsonl")
    predicted(loaded, source, tmp_path / f"whole.{ending}", window=8)
    target = tmp_path / f"cut.{ending}"
    save, calls = to_file.save, 0

    def cutting(state: Path, content: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        if calls in (1, 4):
            raise Cut
        save(state, content)

    monkeypatch.setattr(to_file, "save", cutting)
    for _ in range(2):
        with pytest.raises(Cut):
            predicted(loaded, source, target, window=8)
        assert not target.exists()
        with (tmp_path / f"cut.{ending}.part").open("ab") as part:
            part.write(b"half a ro")
    done = predicted(loaded, source, target, window=8)
    assert done.begun == 16
    assert target.read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()
    assert not list(tmp_path.glob("cut.*.part"))
    assert not list(tmp_path.glob("cut.*.state"))


def test_what_was_begun_with_another_input_is_not_gone_on_with(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, source, target = made("bert/classify"), texts(tmp_path / "in.jsonl"), tmp_path / "out.csv"
    monkeypatch.setattr(os, "replace", replace_all_but(target))
    with pytest.raises(Cut):
        predicted(loaded, source, target, window=8)
    texts(source, 20)
    with pytest.raises(weft.core.errors.ConfigError, match="another model, input or settings"):  # type: ignore[attr-defined]
        predicted(loaded, source, target, window=8)


def replace_all_but(target: Path) -> Callable[[Any, Any], None]:
    own = os.replace

    def replace(source: Any, to: Any) -> None:
        if Path(to) == target:
            raise Cut
        own(source, to)

    return replace


def test_kill_minus_nine(made: Made, tmp_path: Path) -> None:
    """The process is killed as soon as some rows are written; the same command then ends as one left alone."""
    source = texts(tmp_path / "in.jsonl", 60)
    program = (
        "import os, sys; from weft.inference.predict import base, to_file; base.Predictor.window = 8; own = to_file.save; count = 0\n"
        "def save(*given):\n    global count; own(*given); count += 1\n    if count == 3: os.kill(os.getpid(), 9)\n"
        "if sys.argv[1] == 'kill': to_file.save = save\n"
        "from weft.__main__ import run; sys.exit(run(sys.argv[2:]))"
    )
    words = ["predict", str(made("bert/classify").path), str(source), "--device", "cpu", "--out"]
    for how, name in (("kill", "a.csv"), ("go", "a.csv"), ("go", "b.csv")):
        done = subprocess.run([sys.executable, "-c", program, how, *words, str(tmp_path / name)], capture_output=True, text=True)
        assert done.returncode == (-9 if how == "kill" else 0), done.stderr
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_bad_rows_are_told_in_their_places(made: Made, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('x,y\n0.5,0.5\n1\n"never closed,2\n,nothing\n1,2,3\n"0.1",0.2\n')
    done = weft_command("predict", str(made("regression/table").path), str(tmp_path / "in.csv"), "--out", str(tmp_path / "out.csv"))
    assert done.code == 0, done.err
    assert "6 rows, 3 of them without a result" in done.out
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [bool(row["error"]) for row in rows] == [False, True, True, False, True, False]
    assert "in.csv:3 (1 cells where 2 are expected)" in done.err
    assert "misplaced quotes" in rows[2]["error"]
    assert all(900 < float(row["prediction"]) < 1100 for row in rows if not row["error"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["in.csv"], "--out names the file to write to"),
        (["in.csv", "--out", "out.xlsx"], "must end in one of .csv"),
        (["in.csv", "--out", "in.csv"], "is the file that is read"),
        (["absent.csv", "--out", "o.csv"], "no such file"),
        (["other.csv", "--out", "o.csv"], "lacks 'y'"),
        (["in.csv", "--out", "o.csv", "--columns", "x,z"], "no column 'z'"),
        (["in.csv", "--out", "o.csv", "--what", "embedding"], "cannot tell it; take auto"),
        (["a.pdf", "--out", "o.csv"], "is a PDF, not a text file"),
        (["empty.csv", "--out", "o.csv"], "is empty"),
    ],
)
def test_wrong_use_is_one_sentence(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(made("regression/table").path)
    for name, content in (("in.csv", "x,y\n1,2\n"), ("other.csv", "x,b\n1,2\n"), ("a.pdf", "%PDF-1.4\n"), ("empty.csv", "")):
        (tmp_path / name).write_text(content)
    done = weft_command("predict", run, *words)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert said in done.err


def test_a_model_that_tells_nothing_says_what_it_can(made: Made, tmp_path: Path) -> None:
    done = weft_command("predict", str(made("gan/ring").path), str(texts(tmp_path / "a.jsonl", 2)), "--out", str(tmp_path / "o.csv"))
    assert done.code == 2
    assert "tells no class, number, tags, answer or vector of a row; it can be sampled" in done.err


def test_likelihoods_are_those_of_the_scorer_and_windows_count_each_token_once(made: Made) -> None:
    from weft.evaluation.fewshot.scoring import Scorer

    loaded = made("gpt/text")
    [short, long] = loaded.predict(["the cat sees", "the cat sees the moon. " * 4])
    scorer = Scorer(loaded)
    [expected] = scorer.score_tokens([(scorer.encode("t"), scorer.encode("he cat sees"))])
    assert short["log_likelihood"] == pytest.approx(sum(expected.logprobs), abs=1e-4)
    assert (short["tokens"], long["tokens"]) == (11, 91)
    assert isinstance(loaded.predict(["the", "x#"])[1].get("error"), str)


def test_a_table_of_numbers_is_told_in_its_unit(made: Made) -> None:
    loaded = made("regression/table")
    again = weft.load(loaded.path, "cpu")
    assert again.tokenizer.mean == pytest.approx(1000, abs=10)
    assert again.predict([{"x": 0.2, "y": "0.1"}, {"x": None, "y": 0}, {"y": [1], "x": 1}])[2]["error"] == "'y' is not a number or a text"
    assert weft.predict(again, [{"x": 0.2, "y": 0.1}]) == again.predict([{"x": "0.2", "y": "0.1"}])


def test_batches_hold_items_of_similar_size_and_bounded_tokens(made: Made) -> None:
    predictor = find(made("bert/classify"))
    sizes = torch.randint(1, 120, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    found = list(batches(sizes, predictor))
    assert sorted(item for batch in found for item in batch) == list(range(1000))
    assert all(len(batch) * max(sizes[item] for item in batch) <= 4096 for batch in found)
    padded = sum(len(batch) * max(sizes[item] for item in batch) for batch in found)
    assert sum(sizes) / padded > 0.9
    assert isinstance(BadRow("why"), ValueError)
