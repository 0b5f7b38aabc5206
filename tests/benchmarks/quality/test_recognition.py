"""Who is tested is learned from by nobody, and chooses no checkpoint."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.benchmarks.quality import recognition


def recordings(folder: Path, speakers: int) -> str:
    folder.mkdir()
    for speaker in range(speakers):
        for digit in range(10):
            with wave.open(str(folder / f"{digit}_s{speaker}_0.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(bytes(range(256)) * 4)
    return str(folder)


def options(tmp_path: Path) -> SimpleNamespace:
    return SimpleNamespace(
        audiomnist=recordings(tmp_path / "many", 16),
        fsdd=recordings(tmp_path / "few", 3),
        more=[],
        kinds=["ctc", "rnnt"],
        seeds=[0, 1],
        language="en",
        steps=1,
        strings=10,
        device="cpu",
    )


def speakers(table: str) -> set[str]:
    return {json.loads(line)["speaker"] for line in Path(table).read_text().splitlines()}


def test_speakers_set_aside(tmp_path: Path) -> None:
    jobs = recognition.jobs_of_strings(options(tmp_path), tmp_path / "runs")
    assert len(jobs) == 4
    learned, chosen, tested = speakers(jobs[0].train), speakers(jobs[0].chosen), speakers(jobs[0].tests[0][1])
    assert (len(learned), len(chosen), len(tested)) == (2, 4, 10)
    assert not learned & chosen and not learned & tested and not chosen & tested


def test_each_speaker_is_left_out(tmp_path: Path) -> None:
    jobs = recognition.jobs_of_speakers(options(tmp_path), tmp_path / "runs")
    assert len(jobs) == 3 * 4 and len({job.out for job in jobs}) == 12
    for job in jobs:
        assert speakers(job.tests[0][1]) == {job.speaker}
        assert job.speaker not in speakers(job.train) | speakers(job.chosen)
        assert len(speakers(job.train)) == 13 and len(speakers(job.chosen)) == 5


def test_a_run_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"layers": 1, "heads": 2, "width": 16, "ffn_width": 16, "kernel": 3, "subsampling": 4}
    monkeypatch.setattr(recognition, "ENCODER", small)
    monkeypatch.setattr(recognition, "TESTED", {**recognition.TESTED, "strings.number": 4})
    monkeypatch.setattr(recognition, "TRAINING", {**recognition.TRAINING, "train.eval_examples": 4})
    asked = options(tmp_path)
    asked.kinds, asked.seeds, asked.fsdd = ["ctc"], [0], ""
    [job] = recognition.jobs_of_strings(asked, tmp_path / "runs")
    rows = recognition.done(job)
    assert [row["what"] for row in rows] == ["single", "strings"]
    assert "ctc set aside single" in recognition.summary(rows)[0]
