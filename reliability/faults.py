"""Failing disks: every call a save or the log makes fails once, and the process dies at every call of a save.

Whatever happens, the checkpoint before still loads, nothing is left behind, training goes on where it can, and where it
cannot it ends with one sentence from which the same command continues exactly.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from campaign import FAMILIES, Campaign, Changes, arguments, debris, digests, event_steps, finish, logged, settings, workplace

import weft
from weft.core.errors import CheckpointError
from weft.runs.assemble import assemble
from weft.training.checkpoint import checkpoint, files
from weft.training.checkpoint.hook import Checkpoints
from weft.training.hooks import Hook
from weft.training.log import Log
from weft.training.trainer import Trainer

CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir", "ftruncate")
STEPS, EVERY = 28, 7
RECIPE = "gpt/text"


@dataclass
class Faults:
    """Counts the calls made to the system while armed, and makes one of them (or all after it) fail."""

    call: str = ""
    number: int = 0
    code: int = 0
    lasting: bool = False
    armed: bool = False
    fired: int = 0
    fatal: str = ""
    """"before" or "after" the call the process dies instead."""

    def __post_init__(self) -> None:
        self.counts = dict.fromkeys(CALLS, 0)
        self.true: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}

    @contextmanager
    def installed(self) -> Iterator[Faults]:
        for name in CALLS:
            setattr(os, name, self.wrapped(name))
        try:
            yield self
        finally:
            for name, function in self.true.items():
                setattr(os, name, function)

    @contextmanager
    def arm(self) -> Iterator[None]:
        self.armed = True
        try:
            yield
        finally:
            self.armed = False

    def wrapped(self, name: str) -> Callable[..., Any]:
        def function(*given: Any, **named: Any) -> Any:
            if not self.armed:
                return self.true[name](*given, **named)
            self.counts[name] += 1
            hit = name == self.call and (self.counts[name] == self.number or (self.lasting and self.counts[name] > self.number))
            if not hit:
                return self.true[name](*given, **named)
            self.fired += 1
            return self.strike(name, given, named)

        return function

    def strike(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.fatal:
            try:
                if self.fatal == "after":
                    self.true[name](*given, **named)
            finally:
                os._exit(9)
        if name == "write":  # a full disk takes some of the data first
            self.true[name](given[0], bytes(given[1])[: len(given[1]) // 2])
        raise OSError(self.code, os.strerror(self.code))


def counted(run: Callable[[Faults], None]) -> list[tuple[str, int]]:
    """Every call an action makes, as (name, number)."""
    with Faults().installed() as faults:
        run(faults)
    return [(name, number) for name, total in faults.counts.items() for number in range(1, total + 1)]


@contextmanager
def during(kind: type, method: str, faults: Faults, step: int | range, after: Callable[[Trainer], None] | None = None) -> Iterator[None]:
    """Arm the faults while a hook's method works on some steps."""
    original = getattr(kind, method)

    def replaced(hook: Any, *given: Any, **named: Any) -> None:
        trainer = next(value for value in given if isinstance(value, Trainer))
        if trainer.step not in (step if isinstance(step, range) else (step,)):
            original(hook, *given, **named)
            return
        with faults.arm():
            original(hook, *given, **named)
        if after:
            after(trainer)

    setattr(kind, method, replaced)
    try:
        yield
    finally:
        setattr(kind, method, original)


class StopAt(Hook):
    def __init__(self, step: int):
        self.step = step

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == self.step:
            trainer.stop_reason = "asked to stop here"


class Bench:
    """A run brought to some step once, and continued from there under every fault."""

    def __init__(self, campaign: Campaign, folder: Path, changes: Changes):
        self.campaign, self.folder, self.changes, self.work = campaign, folder, changes, folder / "work"
        with quiet():
            weft.train(weft.recipe(RECIPE, changes), folder / "whole", progress=False)
            for step in (0, 2 * EVERY, 3 * EVERY):
                self.stopped_at(step)
        self.digests, self.lines = digests(folder / "whole", STEPS), logged(folder / "whole")

    def stopped_at(self, step: int) -> None:
        """A run of the same recipe that was saved at this step and not later; at 0, one that never began."""
        run = assemble(weft.recipe(RECIPE, self.changes), self.folder / str(step), extra=[StopAt(step)])
        if step:
            run.trainer.fit()

    def fresh(self, step: int) -> Path:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / str(step), self.work)
        return self.work

    def go_on(self) -> None:
        assemble(weft.recipe(RECIPE, self.changes), self.work).trainer.fit()

    def ended_well(self, what: str) -> None:
        check = self.campaign.check
        check(digests(self.work, STEPS) == self.digests, f"{what}: other weights at the end")
        check(logged(self.work) == self.lines, f"{what}: the log is not whole")
        check(not debris(self.work), f"{what}: left behind {debris(self.work)}")


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Collect warnings instead of printing them."""
    logger, lines = logging.getLogger("weft"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def saves(bench: Bench) -> None:
    """Each call of a save fails once: a later save makes up for it; the last one ends the run with a sentence."""
    campaign, began = bench.campaign, time.time()
    for step, final in ((3 * EVERY, False), (STEPS, True)):
        start = step - EVERY

        def whole(faults: Faults, start: int = start, step: int = step) -> None:
            bench.fresh(start)
            with quiet(), during(Checkpoints, "save", faults, step):
                bench.go_on()

        calls, refused = counted(whole), 0
        for call, number in calls:
            for code in (errno.ENOSPC, errno.EIO):
                refused += failing_save(bench, start, step, final, call, number, code)
        names = {name: sum(c == name for c, _ in calls) for name in CALLS}
        told = "refused with a sentence" if final else "passed over"
        campaign.row(
            save="final" if final else "ordinary", **names, faults=2 * len(calls), **{told: refused}, seconds=round(time.time() - began, 1)
        )


def failing_save(bench: Bench, start: int, step: int, final: bool, call: str, number: int, code: int) -> bool:
    """One fault in the save of a step; whether that save was given up."""
    campaign, what = bench.campaign, f"{'final' if final else 'ordinary'} save, {call} {number} {errno.errorcode[code]}"
    work = bench.fresh(start)
    before = content(checkpoint.folder(work, start))
    sentence = ""

    def look(trainer: Trainer | None = None) -> None:
        campaign.check(not debris(work), f"{what}: left behind {debris(work)}")
        campaign.check(content(checkpoint.folder(work, start)) == before, f"{what}: the checkpoint before was changed")
        found = checkpoint.newest(work)
        campaign.check(found is not None and int(found.path.name) in (start, step), f"{what}: the newest is {found and found.path}")

    with quiet() as warned, Faults(call, number, code).installed() as faults, during(Checkpoints, "save", faults, step, look):
        try:
            bench.go_on()
        except CheckpointError as error:
            sentence = str(error)
        except Exception as error:
            campaign.check(False, f"{what}: {type(error).__name__}: {error}")
    campaign.check(faults.fired == 1, f"{what}: the fault did not happen")
    given_up = any("could not be saved" in line for line in [*warned, sentence])
    if sentence:
        campaign.check(final and "\n" not in sentence and given_up, f"{what}: said {sentence!r}")
        look()
        with quiet():
            bench.go_on()
    campaign.check(not given_up or not final or bool(sentence), f"{what}: a failed last save was passed over")
    bench.ended_well(what)
    return given_up


def log_lines(bench: Bench) -> None:
    """Each call of the log fails once, for a while, and for good: training goes on, and what can be made up for is."""
    campaign, last = bench.campaign, len(bench.lines)

    def whole(faults: Faults) -> None:
        bench.fresh(0)
        with quiet(), during(Log, "write", faults, range(1, 4)):
            bench.go_on()

    calls = counted(whole)
    for call, number in calls:
        for code in (errno.ENOSPC, errno.EIO):
            what = f"log, {call} {number} {errno.errorcode[code]}"
            bench.fresh(0)
            with quiet() as warned, Faults(call, number, code).installed() as faults, during(Log, "write", faults, range(1, 4)):
                bench.go_on()
            told = call == "mkdir" or any("cannot be written" in line for line in warned)  # the folder may be there already
            campaign.check(faults.fired == 1 and told, f"{what}: not told")
            bench.ended_well(what)
            steps = event_steps(bench.work, "train/loss")
            campaign.check(steps in (None, list(range(1, last + 1))), f"{what}: TensorBoard shows {steps}")
    for until, whole_log in ((12, True), (STEPS, False)):
        bench.fresh(0)
        what = f"log, full disk from step 3 to {until}"
        faults = Faults("write", 1, errno.ENOSPC, lasting=True)
        with quiet() as warned, faults.installed(), during(Log, "write", faults, range(3, until + 1)):
            bench.go_on()
        campaign.check(sum("cannot be written" in line for line in warned) <= 2, f"{what}: {len(warned)} warnings")
        campaign.check(digests(bench.work, STEPS) == bench.digests, f"{what}: other weights")
        if whole_log:
            bench.ended_well(what)
    campaign.row(log=f"{2 * len(calls)} faults", disk="full for a while, full to the end")


def deaths(campaign: Campaign, folder: Path) -> None:
    """The process dies before and after every call of a save, with and without an older folder under the same name."""
    run, total = folder / "run", 0
    for replaced in (False, True):

        def prepare(replaced: bool = replaced) -> None:
            shutil.rmtree(run, ignore_errors=True)
            run.mkdir()
            for step in (7, 14, 21) if replaced else (7, 14):
                checkpoint.save(checkpoint.folder(run, step), {"a": b"old" * 1000, "b": str(step).encode()})
            checkpoint.mark_saved(run, 14)

        def save(faults: Faults) -> None:
            with faults.arm():
                checkpoint.save(checkpoint.folder(run, 21), {"a": b"new" * 1000, "b": b"21"})
                checkpoint.mark_saved(run, 21)
                checkpoint.prune(run, 2, 21)

        prepare()
        for call, number in counted(save):
            for fatal in ("before", "after"):
                what = f"death {fatal} {call} {number}{', replacing' if replaced else ''}"
                prepare()
                child = os.fork()
                if not child:
                    with Faults(call, number, fatal=fatal).installed() as faults:
                        save(faults)
                    os._exit(0)
                campaign.check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, f"{what}: did not die")
                total += 1
                files.sweep(run / "checkpoints")
                files.sweep(run)
                found = checkpoint.newest(run)
                steps = (21,) if replaced else (14, 21)
                campaign.check(found is not None and int(found.path.name) in steps, f"{what}: the newest is {found and found.path}")
                for path in checkpoint.folders(run):
                    checkpoint.read(path)
                campaign.check(not debris(run), f"{what}: left behind {debris(run)}")
    campaign.row(deaths=total)


def real_processes(campaign: Campaign, bench: Bench, folder: Path) -> None:
    """Limits the system itself sets: a largest file size, a folder that cannot be written."""
    changes, work = bench.changes, folder / "limited"
    code, said = finish(RECIPE, work, changes | {"largest_file": 100_000})
    last = said.strip().splitlines()[-1]
    campaign.check(code == 1 and last.startswith("error: ") and "could not be saved" in last, f"file size limit: {code}, {said[-400:]}")
    campaign.check("Traceback" not in said and not debris(work), f"file size limit: {debris(work)} {said[-400:]}")
    code, said = finish(RECIPE, work, changes)
    campaign.check(code == 0 and digests(work, STEPS) == bench.digests, f"after the file size limit: {code}, {said[-400:]}")
    readonly, file = folder / "readonly", folder / "file"
    readonly.mkdir(mode=0o555)
    file.write_text("")
    cases: dict[str, tuple[Path, Changes]] = {"below a file": (file / "run", {}), "below /proc": (Path("/proc/weft/run"), {})}
    cases["read-only"] = (readonly, {"user": 65534} if os.geteuid() == 0 else {})
    for name, (place, extra) in cases.items():
        os.chmod(folder, 0o755)
        code, said = finish(RECIPE, place, changes | extra)
        lines = said.strip().splitlines()
        campaign.check(code == 1 and len(lines) == 1 and f"{place}: cannot be written" in lines[0], f"{name}: {code}, {said[-400:]}")
    campaign.row(processes=5)


def main() -> int:
    given = arguments("faults", __doc__).parse_args()
    torch.set_num_threads(1)
    campaign = Campaign("faults", given.device, given.record)
    with workplace(fast=True) as folder:
        text = folder / "squares.txt"
        text.write_text(" ".join(str(n * n) for n in range(5000)))
        few: Changes = {"train.eval_every": 0, "train.keep_checkpoints": 2, "model.layers": 1, "train.ema": 0.0, "data.path": str(text)}
        changes = {**FAMILIES["gpt"][1], **settings(given.device, STEPS, EVERY), **few}
        del changes["data.megabytes"]
        deaths(campaign, folder)
        bench = Bench(campaign, folder, changes)
        saves(bench)
        log_lines(bench)
        real_processes(campaign, bench, folder)
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
