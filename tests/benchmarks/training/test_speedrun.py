"""The race runs anywhere on a tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.text.test_python_corpus import packages
from weft import results
from weft.benchmarks.training import speedrun
from weft.benchmarks.training.speedrun import SIZES, Course, Size, compared, prepared, recipe_of

SMALL = Size(1, 32, {"classical": 16, "speedrun": 16}, 0.01, 4e-3, {"classical": 4, "speedrun": 2}, 32, 400, 8)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    prepared(folder / "corpus", [str(packages(folder / "in", 40))], SMALL.vocabulary)
    return folder / "corpus"


def test_a_race_is_run_and_recorded(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "tiny", SMALL)
    speedrun.main(["--size", "tiny", "--corpus", str(corpus), "--tokens", "0.001", "--seeds", "1", "--record", str(tmp_path)])
    record = results.read(tmp_path / "speedrun-tiny.json")
    (result,) = (row for row in record.table() if "classical_loss" in row)
    runs = [row for row in record.table() if "recipe" in row]
    classical = [row for row in runs if row["recipe"] == "classical"]
    assert len({row["lr"] for row in classical}) >= 3 and len(runs) == len(classical) + 1
    assert all(len(row["curve"]) > 0 for row in runs)
    best = min(classical, key=lambda row: row["chosen_on"])
    assert min(row["lr"] for row in classical) < best["lr"] < max(row["lr"] for row in classical)
    assert result["classical_loss"] == best["loss"] and result["classical_seconds"] == best["seconds"]
    assert all(row["tokens"] <= record.details["classical"]["training_tokens"] for row in runs)
    assert len(record.details["corpus"]["sha256"]) == 64


@pytest.mark.parametrize("name", ["classical", "speedrun"])
def test_a_course_begun_anew_is_the_same_course(corpus: Path, name: str) -> None:
    course = Course(name, recipe_of(name, SMALL, corpus, {}), str(corpus / "held_out-400"), 8)
    losses = [[point[2] for point in course.train(seed, course.lr, 6)["curve"]] for seed in (1, 2, 1)]
    assert losses[0] == losses[2] != losses[1]
    assert course.train(1, course.lr / 10, 6)["loss"] > losses[0][-1]


def test_the_first_point_at_the_loss_counts() -> None:
    slow = {"seed": 1, "loss": 3.0, "seconds": 60.0}
    fast = {"loss": 2.8, "seconds": 20.0, "curve": [[10, 5.0, 4.0], [20, 10.0, 3.0], [40, 20.0, 2.8]]}
    assert (compared(slow, fast)["reached_seconds"], compared(slow, fast)["share"]) == (10.0, 0.1667)
    assert compared(slow | {"loss": 2.0}, fast)["share"] is None
