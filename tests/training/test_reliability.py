"""Interrupted runs, damaged checkpoints and failing disks, in small; the folder reliability/ has the campaigns."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.training.test_hooks import full_trainer, hook, lines
from weft.core.errors import CheckpointError, ConfigError
from weft.runs.assemble import assemble
from weft.training.checkpoint import checkpoint, files
from weft.training.checkpoint.hook import Checkpoints
from weft.training.hooks import Hook
from weft.training.log import Log
from weft.training.trainer import Trainer

CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, so nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Died(BaseException):
    """What a killed process does: nothing more."""


@contextmanager
def striking(call: str, number: int, strike: Callable[[], None], lasting: bool = False, made: list[int] | None = None) -> Iterator[None]:
    """Let the n-th call of a system function strike, or that and all later ones; `made` counts them."""
    real, made = getattr(os, call), [0] if made is None else made

    def function(*given: Any, **named: Any) -> Any:
        made[0] += 1
        if made[0] == number or (lasting and made[0] > number):
            strike()
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, function)
        yield


def full_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die() -> None:
    raise Died


@contextmanager
def dying(call: str, number: int) -> Iterator[None]:
    """Die at a call, without the clearing away that an exception brings and a kill does not."""
    with pytest.MonkeyPatch.context() as patch, striking(call, number, die):
        patch.setattr(files, "delete", lambda path: None)
        yield


@contextmanager
def only_while(kind: type, method: str, steps: range, ffn_width: Callable[[], Any]) -> Iterator[None]:
    """Enter a context only while a hook's method works on some steps."""
    real = getattr(kind, method)

    def replaced(self: Hook, *given: Any, **named: Any) -> None:
        trainer = next(value for value in given if isinstance(value, Trainer))
        with ffn_width() if trainer.step in steps else nullcontext():
            real(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, method, replaced)
        yield


def debris(run: Path) -> list[Path]:
    return [path for place in (run, run / "checkpoints") if place.exists() for path in place.iterdir() if path.name.startswith(".")]


# -- exact resume -----------------------------------------------------------------------------------------------------------


class DieAt(Hook):
    def __init__(self, step: int):
        self.step = step

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == self.step:
            raise Died


TEXT = {"data.context": 16, "model.layers": 1, "model.heads": 2, "model.width": 16, "model.embedding_dropout": 0.1}
SMALL: dict[str, dict[str, Any]] = {
    "gpt/text": {**TEXT, "model.attention_dropout": 0.1, "model.residual_dropout": 0.1, "train.ema": 0.9},
    "gan/digits": {},
    "rbm/persistent": {},
}


def small(name: str, folder: Path) -> weft.Recipe:
    common = {"train.batch": 8, "train.steps": 24, "train.log_every": 1, "train.eval_every": 10, "train.eval_examples": 16}
    own = dict(SMALL[name])
    if name == "gpt/text":
        (folder / "squares.txt").write_text(" ".join(str(n * n) for n in range(500)))
        own["data.path"] = str(folder / "squares.txt")
    return weft.recipe(name, {**common, "train.save_every": 4, **own})


@pytest.mark.parametrize("name", list(SMALL))
def test_a_run_cut_short_many_times_ends_as_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    """Died between steps, and within a save whose remains nobody clears away."""
    recipe = small(name, tmp_path)
    assemble(recipe, tmp_path / "whole").trainer.fit()
    for step in (3, 9, 17):
        with pytest.raises(Died):
            assemble(recipe, tmp_path / "cut", extra=[DieAt(step)]).trainer.fit()
    for call, number in (("write", 3), ("fsync", 8), ("replace", 1)):
        trainer = assemble(recipe, tmp_path / "cut").trainer
        with only_while(Checkpoints, "save", range(99), partial(dying, call, number)), pytest.raises(Died):
            trainer.fit()
        assert debris(tmp_path / "cut")
    assemble(recipe, tmp_path / "cut").trainer.fit()
    found = [checkpoint.read(checkpoint.folder(tmp_path / run, 24)) for run in ("whole", "cut")]
    for file in ("model.safetensors", "training.safetensors"):
        assert found[0].files[file] == found[1].files[file]
    assert not debris(tmp_path / "cut")
    logs = [[(line["step"], losses(line)) for line in lines(tmp_path / run)] for run in ("whole", "cut")]
    assert logs[0] == logs[1]
    assert [step for step, _ in logs[1]] == list(range(1, 25))


def losses(line: dict[str, Any]) -> dict[str, Any]:
    return {**line["train"], **line.get("validation", {}), "per_second": None, "mfu": None}


DEATHS = """
import os, pathlib, sys
from weft.training.checkpoint import files

run, calls = pathlib.Path(sys.argv[1]), ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir")
path, old, new = run / "00000001", {"a": b"old", "b": b"old"}, {"a": b"new", "b": b"new"}

def save(call, number, after):
    real, made = getattr(os, call), [0]
    def function(*given, **named):
        made[0] += 1
        if made[0] == number and not after:
            os._exit(9)
        result = real(*given, **named)
        if made[0] == number:
            os._exit(9)
        return result
    setattr(os, call, function)
    files.write_folder(path, new)
    os._exit(0)

deaths = 0
for call in calls:
    for after in (False, True):
        number, code = 1, 9
        while code:
            files.write_folder(path, old)
            child = os.fork()
            if not child:
                save(call, number, after)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            deaths += code == 9
            files.sweep(run)
            assert [p.name for p in run.iterdir()] == ["00000001"], (call, number, after, list(run.iterdir()))
            assert {p.name: p.read_bytes() for p in path.iterdir()} in (old, new), (call, number, after)
            number += 1
print(deaths)
"""


def test_a_process_that_dies_at_any_call_leaves_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DEATHS, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


# -- damage -----------------------------------------------------------------------------------------------------------------


def saved(run: Path, *steps: int) -> None:
    for step in steps:
        checkpoint.save(checkpoint.folder(run, step), {"a.json": b'{"step": %d}' % step, "b.bin": bytes(range(40))})
        checkpoint.mark_saved(run, step)


def test_every_byte_and_every_length_of_every_file_counts(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    folder, chance = checkpoint.folder(tmp_path, 1), random.Random(0)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        flipped = (whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :] for place in range(len(whole)))
        cut = (whole[:length] for length in range(len(whole)))
        for damaged in (*flipped, *cut, whole + b"\n", whole + b"\0"):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=path.name):
                checkpoint.read(folder)
        path.write_bytes(whole)
    assert checkpoint.read(folder).json("a.json") == {"step": 1}


def test_a_newest_checkpoint_that_is_gone_is_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved(tmp_path, 1, 2)
    files.remove_folder(checkpoint.folder(tmp_path, 2))
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.json("a.json") == {"step": 1}
    assert "00000002 is gone" in caplog.text


@pytest.mark.parametrize("note", [b"", b"\0\0", b"[]", b'{"saved": "x"}'])
def test_a_damaged_note_still_says_that_there_was_a_checkpoint(tmp_path: Path, note: bytes) -> None:
    (tmp_path / "run.json").write_bytes(note)
    with pytest.raises(CheckpointError, match="no usable checkpoint"):
        checkpoint.newest(tmp_path)


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_checkpoints_do_not_push_out_new_ones(tmp_path: Path, keep: int) -> None:
    """A run that had to go back saves anew below the damaged steps; what it saves must outlive the pruning."""
    full_trainer(tmp_path, every=0, save_every=3, keep_checkpoints=9, steps=12).fit()
    for step in (6, 9, 12):
        (checkpoint.folder(tmp_path, step) / "model.safetensors").write_bytes(b"")
    trainer = full_trainer(tmp_path, every=0, save_every=1, keep_checkpoints=keep, steps=12, extra=(DieAt(5),))
    assert trainer.step == 3
    with pytest.raises(Died):
        trainer.fit()
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.json("training.json")["step"] == 4


def test_restoring_takes_weights_and_state_of_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    full_trainer(tmp_path, every=0, save_every=3, keep_checkpoints=9, steps=9).fit()
    chance, newest = random.Random(0), checkpoint.folder(tmp_path, 9)
    whole = {path: path.read_bytes() for path in sorted(newest.iterdir())}
    for path in whole:
        data = bytearray(whole[path])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        trainer = full_trainer(tmp_path, every=0, steps=9)
        expected = checkpoint.read(checkpoint.folder(tmp_path, 6)).tensors("model.safetensors")
        assert trainer.step == 6
        assert all(torch.equal(value, expected[name]) for name, value in trainer.model.state_dict().items())
        assert path.name in caplog.text
        path.write_bytes(whole[path])
        caplog.clear()


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_a_lost_recipe_is_taken_from_the_checkpoint(tmp_path: Path, damage: bytes | None) -> None:
    recipe, run = small("gpt/text", tmp_path), tmp_path / "run"
    with pytest.raises(Died):
        assemble(recipe, run, extra=[DieAt(5)]).trainer.fit()
    (run / "recipe.json").unlink() if damage is None else (run / "recipe.json").write_bytes(damage)
    other = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, seed=7))
    with pytest.raises(ConfigError, match=r"train\.seed: 1 -> 7"):
        assemble(other, run)
    assert assemble(recipe, run).trainer.step == 4
    assert json.loads((run / "recipe.json").read_text())["train"]["seed"] == 1


# -- failing disks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_save_may_fail(tmp_path: Path, call: str, final: bool) -> None:
    whole = full_trainer(tmp_path / "whole", every=0, save_every=3, steps=9)
    made = [0]
    with only_while(Checkpoints, "save", range(9, 10), partial(striking, call, -1, full_disk, made=made)):
        whole.fit()
    expected = checkpoint.read(checkpoint.folder(tmp_path / "whole", 9)).files["model.safetensors"]
    for number in range(1, made[0] + 1):
        run, step = tmp_path / str(number), 9 if final else 6
        trainer = full_trainer(run, every=0, save_every=3, steps=9)
        refusal = pytest.raises(CheckpointError, match="could not be saved") if call == "write" else suppress(CheckpointError)
        with (
            only_while(Checkpoints, "save", range(step, step + 1), partial(striking, call, number, full_disk)),
            refusal if final else nullcontext(),
        ):
            trainer.fit()
        assert not debris(run)
        assert checkpoint.newest(run) is not None
        full_trainer(run, every=0, save_every=3, steps=9).fit()
        assert checkpoint.read(checkpoint.folder(run, 9)).files["model.safetensors"] == expected


@pytest.mark.parametrize("call", ["open", "write"])
def test_a_log_that_cannot_be_written_for_a_while_is_made_up_for(tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture) -> None:
    with only_while(Log, "write", range(1, 5), lambda: striking(call, 1, full_disk, lasting=True)):
        full_trainer(tmp_path, every=0, steps=8).fit()
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 9))
    assert caplog.text.count("cannot be written") == 2, "once for each of the two files"


def test_a_log_that_can_never_be_written_does_not_end_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = full_trainer(tmp_path, every=0, steps=4)
    real = os.write

    def write(descriptor: int, data: Any) -> int:
        log = hook(trainer, Log)
        if descriptor in (log.lines.descriptor, log.loggers[0].events.descriptor):
            full_disk()
        return real(descriptor, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        trainer.fit()
    assert trainer.step == 4
    assert "last lines are lost" in caplog.text
    assert checkpoint.newest(tmp_path) is not None


def test_records_are_whole_or_absent(tmp_path: Path) -> None:
    file, real = files.Appender(tmp_path / "log", b"head "), os.write
    file.append(b"one ")
    with pytest.MonkeyPatch.context() as patch:

        def half(descriptor: int, data: Any) -> int:
            if len(data) < 4:
                full_disk()
            return real(descriptor, bytes(data)[: len(data) // 2])

        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            file.append(b"two two ")
    assert (tmp_path / "log").read_bytes() == b"head one "
    file.append(b"three ")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"head one two two three "


# -- places -----------------------------------------------------------------------------------------------------------------


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file/run: cannot be written \(Not a directory\); .*--out"):
        files.make_folder(tmp_path / "file" / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda *given: False)
        with pytest.raises(CheckpointError, match="Permission denied"):
            files.make_folder(tmp_path)


def test_a_full_disk_at_the_start_is_one_sentence(tmp_path: Path) -> None:
    recipe = small("gpt/text", tmp_path)
    with striking("write", 1, full_disk), pytest.raises(CheckpointError, match="run: cannot be written"):
        assemble(recipe, tmp_path / "run")
    assert not debris(tmp_path / "run")


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    class Intruder(Hook):
        def after_step(self, trainer: Trainer) -> None:
            with pytest.raises(CheckpointError, match="another process is training here"):
                full_trainer(tmp_path)

    full_trainer(tmp_path, every=0, steps=2, extra=(Intruder(),)).fit()
    assert json.loads((tmp_path / "run.json").read_text()) == {"saved": 2}
    assert full_trainer(tmp_path).step == 2


def test_what_was_about_to_be_replaced_returns(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "00000001", {"a": b"old"})
    os.replace(tmp_path / "00000001", tmp_path / ".old-00000001-77")
    files.sweep(tmp_path)
    assert (tmp_path / "00000001" / "a").read_bytes() == b"old"
    files.write_folder(tmp_path / ".old-00000001-77", {"a": b"older"})
    files.sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["00000001"]
    assert (tmp_path / "00000001" / "a").read_bytes() == b"old"


def test_means_between_two_lines_of_the_log_survive_an_interruption(tmp_path: Path) -> None:
    """The checkpoint falls between two lines: the sums so far travel in it."""
    full_trainer(tmp_path / "whole", every=0, save_every=4, steps=12, log_every=6).fit()
    with pytest.raises(Died):
        full_trainer(tmp_path / "cut", every=0, save_every=4, steps=12, log_every=6, extra=(DieAt(5),)).fit()
    full_trainer(tmp_path / "cut", every=0, save_every=4, steps=12, log_every=6).fit()
    logs = [[(line["step"], losses(line)) for line in lines(tmp_path / run)] for run in ("whole", "cut")]
    assert logs[0] == logs[1]
