"""`weft train`: trains, continues, says when it is finished, stops on a signal with everything saved."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests.cli.conftest import TINY, Outcome, tiny_flags
from tests.contracts.tiny import tiny
from weft.api import fit
from weft.cli.describe import closing
from weft.core import installation
from weft.core.errors import CheckpointError
from weft.kernels.select import ALL_CORES, BLOCKS, PACKED, STACKS
from weft.report.progress import Progress
from weft.runs.assemble import assemble
from weft.runs.record import read
from weft.training.checkpoint import checkpoint, files
from weft.training.log import Log


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_train_says_what_it_does_and_what_to_type_next(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    done = command("train", "gpt/text", *tiny_flags(text_file), "--out", str(tmp_path / "run"))
    assert done.code == 0
    for piece in ("gpt/text starts in", "parameters", "training tokens", "plan: cpu, fp32", "step 6/6", "tokens/s", "best validation loss"):
        assert piece in done.out
    assert done.out.count("plan: ") == 1
    assert f'weft sample {tmp_path / "run"} "a prompt"' in done.out
    assert f"weft evaluate {tmp_path / 'run'}" in done.out
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_explain_shows_every_kernel_and_the_run_keeps_it(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    done = command("train", "gpt/text", *tiny_flags(text_file), "--explain", "--out", str(tmp_path / "run"))
    assert done.code == 0
    assert "plan: compile off: " in done.out
    kept = json.loads((tmp_path / "run" / "environment.json").read_text())["kernels"]
    assert {row["implementation"] for row in kept} >= {one.name for one in (*STACKS, *BLOCKS, *PACKED, *ALL_CORES)}
    for row in kept:
        assert row["kind"] in done.out
        assert (row["refused"] or "serves") in done.out


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("bert/sst2", '"a text"'),
        ("bert/rte", '"a text" "another text"'),
        ("bert/score", '"a text" "another text"'),
        ("bert/choice", '"a text" "one way to go on" "another way"'),
        ("bert/answers", '"a question" "a paragraph with the answer"'),
        ("bert/tags", '"a few words"'),
        ("bert/pairs", "likes"),
        ("gpt/classify", '"a text" "another text"'),
        ("gpt/choose", '"a text" "one way to go on" "another way"'),
        ("gpt/text", ""),  # its characters are too few for "a prompt"
        ("transformer/pairs", '"a text"'),
        ("vit/images", "picture.png"),
        ("vae/digits", ""),
        ("pix2pix/digits", "--input picture.png --out restyled"),
        ("cyclegan/digits", "--input picture.png --out restyled"),
        ("word2vec/source", "likes"),
    ],
)
def test_what_is_advised_works(
    name: str, advice: str, command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = assemble(tiny(name, tmp_path, {"train.steps": 2, "train.device": "cpu"}), tmp_path / "run")
    fit(run)
    lines = closing(run)
    sample, evaluate = (line.strip() for line in lines[lines.index("next:") + 1 :])
    assert sample == f"{installation.command()} sample {tmp_path / 'run'} {advice}".strip()
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("PIL.Image").new("RGB", (20, 30)).save("picture.png")
    for line in (sample, evaluate):
        done = command(*shlex.split(line)[1:])
        assert done.code == 0, done.err
        assert done.out


def test_without_validation_data_no_evaluation_is_advised(text_file: Path, tmp_path: Path) -> None:
    run = assemble(tiny("gpt/text", tmp_path, {"data.path": str(text_file), "data.validation": 0.0, "train.steps": 1}), tmp_path / "run")
    assert [line.split()[1] for line in closing(run) if "weft " in line] == ["sample"]


def test_the_same_command_continues_and_a_finished_run_says_so(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    place = ["--out", str(tmp_path / "run")]
    assert command("train", "gpt/text", *tiny_flags(text_file), *place).code == 0
    again = command("train", "gpt/text", *tiny_flags(text_file), *place)
    assert again.code == 0
    assert "is finished: all 6 steps are made" in again.out
    assert "best validation loss" in again.out
    longer = command("train", "gpt/text", *tiny_flags(text_file, **{"train.steps": 9}), *place)
    assert longer.code == 0
    assert "continues after step 6" in longer.out
    assert steps(tmp_path / "run") == [1, 2, 3, 4, 6, 8, 9]
    other = command("train", "gpt/text", *tiny_flags(text_file, **{"model.width": 32}), *place)
    assert other.code == 2
    assert "model.width: 16 -> 32" in other.err


def test_a_run_that_stopped_early_stays_finished(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    words = tiny_flags(text_file, **{"train.patience": 1, "train.steps": 400, "train.eval_every": 1, "optim.lr": 0.5})
    first = command("train", "gpt/text", *words, "--out", str(tmp_path / "run"))
    assert first.code == 0
    assert "stopped early: no better loss" in first.out
    assert "is finished: it stopped early" in command("train", "gpt/text", *words, "--out", str(tmp_path / "run")).out


def test_a_setting_takes_several_values(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    done = command("train", "gpt/text", *tiny_flags(text_file), "--optim.betas", "0.8", "0.9", "--out", str(tmp_path / "run"))
    assert done.code == 0
    assert json.loads((tmp_path / "run" / "recipe.json").read_bytes())["optim"]["betas"] == [0.8, 0.9]


def test_init_starts_from_another_run_and_keeps_its_tokens(
    command: Callable[..., Outcome], text_run: Path, text_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("lazy dogs jump over foxes.\n" * 60)
    words = tiny_flags(other, **{"train.steps": 1, "optim.lr": 0.0})
    assert command("train", "gpt/text", *words, "--init", str(text_run), "--out", str(tmp_path / "run")).code == 0
    old, new = weft.load(text_run), weft.load(tmp_path / "run")
    assert new.tokenizer.to_json() == old.tokenizer.to_json()
    assert all((a == b).all() for a, b in zip(old.model.parameters(), new.model.parameters(), strict=True))
    assert f"--init {text_run}" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_same_command_continues(
    command: Callable[..., Outcome], text_file: Path, tmp_path: Path, number: int, code: int
) -> None:
    run = tmp_path / "run"
    words = tiny_flags(text_file, **{"train.steps": 200_000, "train.eval_every": 0, "train.save_every": 100_000})
    arguments = [sys.executable, "-m", "weft", "train", "gpt/text", *words, "--out", str(run)]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        deadline = time.monotonic() + 60
        while not ((run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, err
    assert "the same command continues" in out
    assert "Traceback" not in err
    reached = max(int(p.name) for p in (run / "checkpoints").iterdir())
    assert reached >= 1
    longer = tiny_flags(text_file, **{"train.steps": reached + 1, "train.eval_every": 0, "train.save_every": 100_000})
    assert f"continues after step {reached:,}" in command("train", "gpt/text", *longer, "--out", str(run)).out


def test_data_problems_are_told(command: Callable[..., Outcome], tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("good words here.\n" * 80)
    (folder / "b.txt").write_text("")
    done = command("train", "gpt/text", *tiny_flags(folder), "--out", str(tmp_path / "run"))
    assert done.code == 0
    assert "empty files" in done.err
    assert "empty files" in (tmp_path / "run" / "report.html").read_text()
    assert command("train", "gpt/text", "--out", str(tmp_path / "none")).code == 2


def test_the_live_line_shows_bar_numbers_and_best(text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    changes = dict(zip(*[iter(tiny_flags(text_file))] * 2, strict=True))
    recipe = weft.recipe("gpt/text", {name[2:]: value for name, value in changes.items()})
    progress = Progress(live=True)
    run = assemble(recipe, tmp_path / "run", extra=[progress])
    fit(run)
    assert "validation loss" in capsys.readouterr().out
    assert "tokens/s" in progress.line
    assert f"at {run.validation.best_step}" in progress.best()


def test_a_step_is_told_while_it_is_made(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is drawn from the clock: before the first step and in the middle of a long one it has something new to say."""
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("weft.report.progress.time.perf_counter", lambda: float(next(clock)))
    trainer = types.SimpleNamespace(step=0, cursor=0, tokens=16, hooks=[Log(tmp_path, 50)], settings=types.SimpleNamespace(steps=100))
    progress = Progress(live=False)
    progress.start(trainer)  # type: ignore[arg-type]
    assert progress.now() == (0, 100, "step 1: 0:10 so far")
    for trainer.step in range(1, 4):
        trainer.cursor += 4
        progress.after_step(trainer)  # type: ignore[arg-type]
    step, steps, text = progress.now()
    assert (step, steps) == (3, 100)
    assert "tokens/s" in text and "left" in text
    assert progress.now()[2] != text


def test_the_display_never_reads_the_device_between_log_lines(text_file: Path, tmp_path: Path) -> None:
    """Numbers are described once per line of the log, however many steps lie between."""

    class Counting(Progress):
        described = 0

        def describe(self, trainer: object) -> str:
            self.described += 1
            return super().describe(trainer)  # type: ignore[arg-type]

    changes = dict(zip(*[iter(tiny_flags(text_file, **{"train.steps": 12, "train.eval_every": 0, "train.log_every": 5}))] * 2, strict=True))
    progress = Counting(live=False)
    recipe = weft.recipe("gpt/text", {name[2:]: value for name, value in changes.items()})
    weft.train(recipe, out=tmp_path / "run", extra=[progress])
    assert progress.described == len(read(tmp_path / "run").lines) == 4


def test_a_run_outlives_the_reader_of_its_output(text_file: Path, tmp_path: Path) -> None:
    """As in `weft train … | head -1`."""
    words = [
        sys.executable,
        "-m",
        "weft",
        "train",
        "gpt/text",
        *tiny_flags(text_file, **{"train.log_every": 1}),
        "--out",
        str(tmp_path / "run"),
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    assert steps(tmp_path / "run") == [1, 2, 3, 4, 5, 6]
    assert checkpoint.find(str(tmp_path / "run@last")).json("metrics.json")["step"] == 6


def test_updates_that_were_refused_are_told(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    wild = tiny_flags(text_file, **{"optim.type": "sgd", "optim.lr": 1e30, "train.nonfinite": "skip"})
    found = command("train", "gpt/text", *wild, "--out", str(tmp_path / "run"))
    assert found.code == 0
    assert "updates were not made, as a gradient was not finite" in found.out


def test_a_folder_in_use_keeps_its_log(text_file: Path, tmp_path: Path) -> None:
    """A process that comes second must not touch the log of the first."""
    run = assemble(weft.recipe("gpt/text", {**TINY, "data.path": str(text_file), "train.steps": 2}), tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1}\n')
    held = files.lock(tmp_path / "run")
    try:
        with pytest.raises(CheckpointError, match="another process is training here"):
            fit(run)
    finally:
        os.close(held)
    assert steps(tmp_path / "run") == [1]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory\nwhere")])
def test_too_little_memory_is_one_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Outcome]) -> None:
    def assemble(*given: object) -> None:
        raise error

    monkeypatch.setattr("weft.runs.assemble.assemble", assemble)
    found = command("train", "gpt/quickstart")
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert found.err.startswith("weft: there is not enough memory for this: ")
