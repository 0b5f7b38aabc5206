"""Damaged checkpoints: every damage of the newest is noticed and named, and the one before is used; never step 0.

The in-process part damages a copy of a finished run and restores a trainer from it, whose weights were spoilt before.
A few damages are also left for a real process to find.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from campaign import FAMILIES, Campaign, Changes, arguments, digests, finish, logged, settings, workplace

import weft
from weft.core.errors import CheckpointError
from weft.runs.assemble import Run, assemble
from weft.training.checkpoint import checkpoint
from weft.training.checkpoint.hook import Checkpoints

STEPS, EVERY = 35, 7
FEW: Changes = {"train.keep_checkpoints": 5, "train.eval_every": 0}


def some_file(folder: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(folder.iterdir()))


def flip(folder: Path, chance: random.Random) -> str:
    path = some_file(folder, chance)
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return path.name


def truncate(folder: Path, chance: random.Random) -> str:
    path = some_file(folder, chance)
    with open(path, "r+b") as file:
        file.truncate(chance.choice([chance.randrange(path.stat().st_size), path.stat().st_size - 1, 0]))
    return path.name


def delete_file(folder: Path, chance: random.Random) -> str:
    path = some_file(folder, chance)
    path.unlink()
    return path.name


def delete_folder(folder: Path, chance: random.Random) -> str:
    shutil.rmtree(folder)
    return folder.name


def zero(folder: Path, chance: random.Random) -> str:
    path = some_file(folder, chance)
    path.write_bytes(bytes(path.stat().st_size))
    return path.name


def zero_page(folder: Path, chance: random.Random) -> str:
    """A block the disk never received; places that were zero already are passed over."""
    path = some_file(folder, chance)
    data = bytearray(path.read_bytes())
    place = chance.choice([i for i in range(0, len(data), 512) if any(data[i : i + 512])])
    data[place : place + 512] = bytes(len(data[place : place + 512]))
    path.write_bytes(data)
    return path.name


def grow(folder: Path, chance: random.Random) -> str:
    path = some_file(folder, chance)
    path.write_bytes(path.read_bytes() + chance.choice([b"\0", b"\n", b" ", b"weft"]))
    return path.name


def swap(folder: Path, chance: random.Random) -> str:
    """Two files of the folder change names."""
    first, second = chance.sample(sorted(folder.iterdir()), 2)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    return f"{first.name} {second.name} manifest.json"


def stale(folder: Path, chance: random.Random) -> str:
    """A file of the checkpoint before, under the same name."""
    before = folder.with_name(f"{int(folder.name) - EVERY:08d}")
    path = chance.choice([p for p in sorted(folder.iterdir()) if p.read_bytes() != (before / p.name).read_bytes()])
    shutil.copy(before / path.name, path)
    return f"{path.name} manifest.json training.json model.safetensors metrics.json"


def unreadable(folder: Path, chance: random.Random) -> str:
    """A file became a folder."""
    path = some_file(folder, chance)
    path.unlink()
    path.mkdir()
    return path.name


DAMAGES: list[Callable[[Path, random.Random], str]] = [
    *[flip] * 5,
    *[truncate] * 4,
    *[delete_file] * 2,
    delete_folder,
    zero,
    zero_page,
    grow,
    swap,
    stale,
    unreadable,
]


class Heard(logging.Handler):
    """Collects what was warned of."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Patient:
    """A trainer that is spoilt and then restored from a damaged copy of its run."""

    def __init__(self, run: Path, changes: Changes, work: Path):
        self.pristine, self.work = run, work
        recipe = weft.recipe(FAMILIES["gpt"][0], changes)
        self.run: Run = assemble(recipe, run)
        self.keeper = next(h for h in self.run.trainer.hooks if isinstance(h, Checkpoints))
        self.keeper.run = work
        self.good = {int(p.name): checkpoint.read(p) for p in checkpoint.folders(run)}
        self.heard = Heard()
        logging.getLogger("weft").addHandler(self.heard)
        logging.getLogger("weft").propagate = False

    def copy(self) -> list[Path]:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.pristine, self.work)
        return checkpoint.folders(self.work)

    def restore(self) -> bool:
        trainer = self.run.trainer
        trainer.step = trainer.cursor = 0
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.fill_(float("nan"))
        self.heard.lines.clear()
        return self.keeper.restore(trainer)

    def holds(self, step: int) -> bool:
        """Whether step, weights and training state are those of an undamaged checkpoint."""
        trainer, good = self.run.trainer, self.good[step]
        tensors, plain = trainer.state()
        own: dict[str, Any] = {**trainer.model.state_dict(), **{f"training/{n}": t for n, t in tensors.items()}}
        expected = {**good.tensors("model.safetensors"), **{f"training/{n}": t for n, t in good.tensors("training.safetensors").items()}}
        same = all(torch.equal(own[name], value) for name, value in expected.items())
        return same and trainer.step == step and plain["cursor"] == good.json("training.json")["cursor"]


def newest_damaged(campaign: Campaign, patient: Patient, damages: int, chance: random.Random) -> None:
    counts: dict[str, int] = {}
    for number in range(damages):
        folders = patient.copy()
        damage = chance.choice(DAMAGES)
        counts[damage.__name__] = counts.get(damage.__name__, 0) + 1
        names = damage(folders[-1], chance)
        what = f"damage {number} ({damage.__name__} of {names})"
        try:
            restored = patient.restore()
        except Exception as error:
            campaign.check(False, f"{what}: {type(error).__name__}: {error}")
            continue
        campaign.check(
            restored and patient.holds(STEPS - EVERY), f"{what}: continued at step {patient.run.trainer.step}, not as {STEPS - EVERY}"
        )
        said = " ".join(patient.heard.lines)
        campaign.check(folders[-1].name in said and any(name in said for name in names.split()), f"{what}: not named, only {said!r}")
    campaign.row(newest=sum(counts.values()), **counts)


def several_damaged(campaign: Campaign, patient: Patient, trials: int, chance: random.Random) -> None:
    """The newest few damaged: the newest whole one is used. Then all of them: an error, never a beginning."""
    for number in range(trials):
        folders = patient.copy()
        spared = chance.randrange(-1, len(folders) - 1)
        for folder in reversed(folders[spared + 1 :]):
            chance.choice([flip, truncate, delete_file, delete_folder, zero])(folder, chance)
        if number % 3 == 0:
            (patient.work / "run.json").write_bytes(b"\0" * 19)
        try:
            restored, refused = patient.restore(), False
        except CheckpointError:
            restored, refused = False, True
        if spared < 0:
            campaign.check(refused, f"trial {number}: all damaged, yet no error (restored: {restored})")
        else:
            campaign.check(restored and patient.holds(EVERY * (spared + 1)), f"trial {number}: not the newest whole one of {spared + 1}")
    campaign.row(several=trials)
    for gone in ("checkpoints", "checkpoints/*"):
        patient.copy()
        for path in patient.work.glob(gone):
            shutil.rmtree(path)
        try:
            campaign.check(False, f"{gone} gone, yet no error: {patient.restore()}")
        except CheckpointError as error:
            campaign.check("no usable checkpoint" in str(error), f"{gone} gone: {error}")


def real_processes(campaign: Campaign, pristine: Path, changes: Changes, work: Path, chance: random.Random) -> None:
    recipe = FAMILIES["gpt"][0]
    expected, lines = digests(pristine, STEPS), logged(pristine)
    for damage in (flip, truncate, delete_folder):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(pristine, work)
        names = damage(checkpoint.folders(work)[-1], chance)
        code, said = finish(recipe, work, changes)
        campaign.check(code == 0 and names in said and "trying another" in said, f"process, {damage.__name__}: {code}, {said[-300:]}")
        campaign.check(digests(work, STEPS) == expected and logged(work) == lines, f"process, {damage.__name__}: ended otherwise")
    for case in ("all damaged", "all gone"):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(pristine, work)
        for folder in checkpoint.folders(work):
            flip(folder, chance) if case == "all damaged" else shutil.rmtree(folder)
        code, said = finish(recipe, work, changes)
        last = said.strip().splitlines()[-1]
        campaign.check(
            code == 1 and last.startswith("error: ") and "no usable checkpoint" in last, f"process, {case}: {code}, {said[-300:]}"
        )
        campaign.check(logged(work) == lines, f"process, {case}: the log was changed")
    campaign.row(processes=5)


def main() -> int:
    parser = arguments("damage", __doc__)
    parser.add_argument("--damages", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    campaign, chance = Campaign("damage", given.device, given.record), random.Random(given.seed)
    changes = FAMILIES["gpt"][1] | settings(given.device, STEPS, EVERY) | FEW
    with workplace() as folder:
        weft.train(weft.recipe(FAMILIES["gpt"][0], changes), folder / "run", progress=False)
        patient = Patient(folder / "run", changes, folder / "work")
        newest_damaged(campaign, patient, given.damages, chance)
        several_damaged(campaign, patient, max(10, given.damages // 5), chance)
        real_processes(campaign, folder / "run", changes, folder / "work", chance)
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
