"""Every record of results/ is of the one form, and what is wrong with another is said."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from weft import results
from weft.benchmarks.record import measurements, write_record
from weft.core.errors import DataError
from weft.results import Baseline, Measurement, Record

ROOT = Path(__file__).resolve().parent.parent
FILES = results.files([ROOT / "results"])


def test_every_record_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(FILES) > 100
    assert results.main([str(ROOT / "results")]) == 0, capsys.readouterr().err


def test_the_package_ships_these_records() -> None:
    assert (ROOT / "src" / "weft" / "records").resolve() == ROOT / "results"


def test_every_field_is_explained() -> None:
    text = (ROOT / "results" / "README.md").read_text()
    for kind in (Record, Measurement, Baseline, results.Published, results.Hardware):
        assert [f.name for f in dataclasses.fields(kind) if f"`{f.name}`" not in text] == []


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    rows = [{"seed": seed, "examples": 10, "accuracy": 0.5 + seed / 10, "train_seconds": 3.0, "plan": ["bf16"]} for seed in (1, 2)]
    beside = {"accuracy": {"target": 0.9, "baselines": (Baseline(name="commonest class", value=0.1),)}}
    found = measurements([*rows, {"seed": 1, "contender": "peer", "accuracy": 0.4}], ("contender",), split="test", beside=beside)
    write_record(tmp_path / "toy.json", found, benchmark="toys", recipe="classifier/digits", command="weft bench toys")
    content: dict[str, Any] = json.loads((tmp_path / "toy.json").read_text())
    return content


def test_rows_are_told_apart_and_come_back(record: dict[str, Any]) -> None:
    found = results.from_json(json.dumps(record), "toy")
    accuracy, seconds, peer = found.measurements
    assert (accuracy.values, accuracy.split, accuracy.better, accuracy.examples) == ((0.6, 0.7), "test", "higher", 10)
    assert accuracy.mean == pytest.approx(0.65) and accuracy.spread == pytest.approx(0.0707, abs=1e-4)
    assert (seconds.split, seconds.unit, seconds.examples) == (None, "s", None), "the clock measures on no split of the data"
    assert peer.of == {"contender": "peer"} and peer.values == (0.4, None) and peer.mean == 0.4
    assert found.table() == [
        {"seed": 1, "accuracy": 0.6, "train_seconds": 3.0, "plan": ["bf16"]},
        {"seed": 2, "accuracy": 0.7, "train_seconds": 3.0, "plan": ["bf16"]},
        {"contender": "peer", "seed": 1, "accuracy": 0.4},
    ]
    assert found.find("accuracy", contender="peer") is peer
    assert results.compared(found.measurements).startswith("at least 90 % right")
    assert results.to_json(found) == results.to_json(results.from_json(results.to_json(found), "toy"))


def test_a_target_of_zero_is_kept(tmp_path: Path) -> None:
    write_record(tmp_path / "toy.json", measurements([{"failures": 0}], beside={"failures": {"target": 0}}), command="make reliability")
    (failures,) = results.read(tmp_path / "toy.json").measurements
    assert failures.target == 0 and failures.values == (0,)


def test_what_became_no_number_is_a_word(tmp_path: Path) -> None:
    found = measurements([{"seed": 1, "loss": math.nan, "curve": [1.0, math.inf]}, {"seed": 2, "loss": 3.0}])
    write_record(tmp_path / "toy.json", found, command="weft bench toys")
    record = results.read(tmp_path / "toy.json")
    assert record.measurements[0].values == (None, 3.0)
    assert record.details["rows"] == [{"of": {}, "seed": 1, "loss": "nan", "curve": [1.0, "inf"]}]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["name"], "other", "its name is 'other', that of the file 'toy'"),
        (["colour"], "red", "no field 'colour'"),
        (["measurments"], [], "no field 'measurments'; did you mean 'measurements'"),
        (["date"], "yesterday", "date 'yesterday' is not a day"),
        (["commit"], "main", "commit 'main' is not 40 hexadecimal digits"),
        (["recipe"], "classifier/digts", "no recipe is called 'classifier/digts'; did you mean 'classifier/digits'"),
        (["recipe"], 3, "toy.recipe: 3 is not a text"),
        (["versions"], {"python": "3.11"}, "versions lack torch"),
        (["hardware", "cpu"], None, "hardware names neither cpu nor gpu"),
        (["seeds"], [1], "has 2 values for 1 seeds"),
        (["seeds"], [1, 1], "hold one twice"),
        (["measurements"], [], "it has no measurement"),
        (["measurements", 0, "split"], "held-out", "toy.measurements[0].split: \"held-out\" is not one of train, validation, dev, test"),
        (["measurements", 0, "values"], ["0.5", 1], 'toy.measurements[0].values[0]: "0.5" is not a number'),
        (["measurements", 0, "values"], [None, None], "has no value"),
        (["measurements", 0, "better"], None, "has a target, but `better` does not say"),
        (["measurements", 0, "of"], {"seed": 1}, "`of` names the seed"),
        (["measurements", 0, "baselines", 0, "value"], [3, 1], "the lowest value comes first"),
        (["measurements", 1, "metric"], "accuracy", ""),
        (["benchmark"], None, "begin with recipe-"),
        (["reconstructed"], ["hash"], "reconstructed names hash"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(record: dict[str, Any], path: list[str | int], value: Any, said: str, tmp_path: Path) -> None:
    if path == ["hardware", "cpu"]:
        record["hardware"]["gpu"] = None
    place: Any = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    if said:
        with pytest.raises(DataError) as error:
            results.from_json(json.dumps(record), "toy")
        assert said in str(error.value)
    (tmp_path / "toy.json").write_text(json.dumps(record))
    assert results.main([str(tmp_path)]) == (1 if said else 0)


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Record)][:12])
def test_no_field_may_be_left_out(record: dict[str, Any], name: str) -> None:
    del record[name]
    with pytest.raises(DataError, match=f"lacks {name}; what was not recorded is null"):
        results.from_json(json.dumps(record), "toy")


@pytest.mark.parametrize("text", ["", "[]", '{"name": NaN}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="toy"):
        results.from_json(text, "toy")


def test_a_measurement_stands_once(record: dict[str, Any]) -> None:
    record["measurements"].append(record["measurements"][0])
    with pytest.raises(DataError, match="accuracy : stands twice"):
        results.from_json(json.dumps(record), "toy")


def test_a_bad_record_is_written_all_the_same_and_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it has no measurement"):
        write_record(tmp_path / "toy.json", measurements([]), command="weft bench toys")
    assert (tmp_path / "toy.json").exists()
