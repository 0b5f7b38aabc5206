"""The translation benchmark on made-up pairs: begun again it goes on, a checkpoint is chosen once, a run begins from another's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contracts.tiny import pairs_file
from weft.benchmarks.quality import translation
from weft.benchmarks.quality.side_by_side import side_by_side
from weft.results import read

SMALL = {"width": 8, "embedding_width": 8, "layers": 1}
STEPS = ("train.steps=4", "train.save_every=1", "train.eval_every=2", "train.eval_examples=4", "train.device=cpu", "train.batch=1")


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flags that make a run small; the test sentences are those of training."""
    rows = [row.split("\t") for row in pairs_file(tmp_path).read_text().splitlines()[1:]]
    for side, name in enumerate(("en", "de")):
        (tmp_path / name).write_text("".join(f"{row[side]} {row[side]}\n" for row in rows))
    paths = {"path": str(tmp_path / "en"), "target_path": str(tmp_path / "de")}
    monkeypatch.setattr(translation, "TEST", paths)
    data = {"path": paths["path"], "target_path": paths["target_path"], "vocabulary": 270, "max_length": 12, "batch_tokens": 60}
    data |= {f"validation_{name}": path for name, path in paths.items()}
    changes = [f"data.{name}={value}" for name, value in data.items()] + [f"model.{name}={value}" for name, value in SMALL.items()]
    return ["--out", str(tmp_path / "runs"), "--change", *changes, *STEPS]


def test_a_contender_and_one_that_begins_from_it(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="first: weft bench translation rnn"):
        translation.main(["rnn-risk", *words])
    translation.main(
        ["rnn", *words, "--report", "--also", str(tmp_path / "en"), str(tmp_path / "de"), "--record", str(tmp_path / "found.json")]
    )
    run = tmp_path / "runs" / "rnn-1"
    scores = json.loads((run / "chosen-4.json").read_text())
    assert set(scores) <= set(translation.CANDIDATES) and "" in scores
    made = read(tmp_path / "found.json")
    whole = next(one for one in made.measurements if one.metric == "bleu_lc" and one.of == {"model": "rnn", "test": "test_2016_flickr"})
    assert whole.target == 38.0 and whole.examples == 120 and whole.baselines[0].name == "the source itself"
    assert {one.of.get("words") for one in made.measurements} == {None, "1 to 8"}
    assert {one.of.get("test") for one in made.measurements} == {None, "test_2016_flickr", "en"}
    (run / "chosen-4.json").write_text(json.dumps({**scores, "@average5": 101.0}))  # what was chosen is not searched for again
    assert translation.chosen(run)[0] == "@average5"
    (run / "chosen-4.json").write_text(json.dumps(scores))
    translation.main(["rnn-risk-constant", *words, "objective.samples=2", "--report"])
    assert "bleu_lc_gained" in capsys.readouterr().out


def test_several_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side_by_side({"a": ["list", "benches"], "b": ["list", "studies"]}, 2, 1.0, tmp_path)
    assert capsys.readouterr().out.count("finished") == 2 and "translation" in (tmp_path / "a.log").read_text()
    with pytest.raises(SystemExit, match=r"failed: bad \(.*bad.log\)"):
        side_by_side({"bad": ["bench", "nothing"]}, 1, 0.0, tmp_path)
    with pytest.raises(SystemExit, match="not finished: late; the same command goes on"):
        side_by_side({"late": ["list"]}, 1, 1e-9, tmp_path)


def test_classes_of_length() -> None:
    pairs = [{"source": "a " * number, "translation": "ein mann", "reference": "ein mann"} for number in (1, 8, 9, 30)]
    assert [(row["words"], row["examples"]) for row in translation.by_length(pairs)] == [("1 to 8", 2), ("9 to 11", 1), ("19 and more", 1)]
