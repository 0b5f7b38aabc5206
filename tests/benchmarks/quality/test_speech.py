from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.audio.test_manifest import digits
from weft.benchmarks.quality.speech import CONTENDERS, main
from weft.results import from_json


def test_each_speaker_is_left_out_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = digits(tmp_path)
    small = ["--fsdd", str(folder), "--models", "plain", "--steps", "2", "--channels", "2", "4", "--device", "cpu"]
    main([*small, "--runs", str(tmp_path / "runs"), "--record", str(tmp_path / "speech.json")])
    record = from_json((tmp_path / "speech.json").read_text(), "speech")
    assert {found.of["speaker"] for found in record.measurements if "speaker" in found.of} == {"lucas", "nina", "theo"}
    by_metric = {found.metric: found for found in record.measurements}
    assert (by_metric["mean_accuracy"].target, by_metric["worst_accuracy"].target) == (0.9, 0.8)
    assert by_metric["accuracy"].examples == 20
    recipe = json.loads((tmp_path / "runs" / "plain-theo-1" / "recipe.json").read_text())
    assert recipe["data"]["without_speakers"] == ["theo"]
    capsys.readouterr()
    main([*small, "--runs", str(tmp_path / "pairs"), "--speakers", "theo", "--select"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines[:4]] == ["lucas", "theo", "nina", "theo"]
    spoken = digits(tmp_path / "spoken", ("en-us+m1",))
    words = ["--models", "espeak", "--spoken", str(spoken), "--speakers", "nina", "--runs", str(tmp_path / "spoken-runs")]
    main([*small[:2], *small[4:], *words])
    recipe = json.loads((tmp_path / "spoken-runs" / "espeak-nina-1" / "recipe.json").read_text())
    assert (recipe["data"]["path"], recipe["data"]["espeak"]["number"]) == (f"{folder},{spoken}", 0)
    assert set(CONTENDERS) >= {"plain", "espeak", "audiomnist"}


@pytest.mark.parametrize("wrong", [["--speakers", "ann"], ["--models", "audiomnist"], ["--models", "plane"]])
def test_what_is_wrong_is_one_sentence(tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--fsdd", str(digits(tmp_path)), *wrong])
    assert capsys.readouterr().err.count("\n") == 1
