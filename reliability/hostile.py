"""Files made by somebody who means harm: every format that weft reads, changed by one who knows it, and signed again.

Each case is a number, from which everything follows: `python reliability/hostile.py --only "convert: gguf" --case 17` does one again.
It runs in a process of its own and either works or ends with one sentence; a traceback, a signal, more than ten seconds, more memory
than twice the honest files and 500 MB, or a program that was started is a failure, printed with its number and kept for a look.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import shutil
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from campaign import Campaign, arguments, workplace
from mutations import displaced, guess, signed
from sandbox import Outcome, watched
from specimen import Specimen
from specimens import MAKERS

KEEP = Path("runs/reliability/hostile")
"""Where the files of failures are kept."""


def prepare(specimen: Specimen, seed: str, folder: Path) -> str:
    """Write a specimen into a folder, changed as its seed says; what was done."""
    chance = random.Random(f"{specimen.name} {seed}")
    files, names = dict(specimen.files), sorted(specimen.files)
    newest = chance.random() < 0.3 and specimen.must_work
    some = [name for name in names if not newest or name.startswith(specimen.must_work)]
    kinds = sorted({Path(name).name for name in some})
    done = []
    for _ in range(chance.choice([1, 1, 1, 2])):
        wanted = chance.choice(kinds)  # else the files of which there are many would be chosen alone
        name = chance.choice([name for name in some if Path(name).name == wanted])
        if (way := chance.random()) < 0.9:
            files[name] = guess(Path(name).name)(files[name], chance)
            done.append(f"{name} changed")
        elif way < 0.95:
            other = chance.choice(names)
            files[name], files[other] = files[other], files[name]
            done.append(f"{name} and {other} exchanged")
    files = signed(files, chance) if chance.random() < 0.9 else files
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if not done:
        done.append(displaced(folder / chance.choice(some), chance))
    return ", ".join(done)


def attempt(specimen: Specimen, seed: str, work: Path) -> tuple[str, Outcome]:
    """One case in a fresh folder."""
    folder = work / f"{os.getpid()}-{abs(hash((specimen.name, seed)))}"
    folder.mkdir(parents=True)
    honest = sum(map(len, specimen.files.values()))
    try:
        done = prepare(specimen, seed, folder / "it")
        outcome = watched(lambda: specimen.act(folder / "it"), honest, folder / "said.txt")
        if outcome.trouble:
            keep(folder, f"{specimen.name}-{seed}")
        return done, outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path, name: str) -> None:
    """Put a failure's files where they can be looked at; what is no regular file is passed over."""
    target = KEEP / name.replace(":", "").replace(" ", "-")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True, ignore=irregular, ignore_dangling_symlinks=True)


def irregular(folder: str, names: list[str]) -> list[str]:
    found = [name for name in names if not os.access(Path(folder, name), os.R_OK)]
    return found + [name for name in names if stat.S_IFMT(os.lstat(Path(folder, name)).st_mode) not in (stat.S_IFREG, stat.S_IFDIR)]


def specimens(folder: Path, only: str) -> Iterator[Specimen]:
    for name, make in MAKERS.items():
        place = folder / name
        place.mkdir()
        yield from (specimen for specimen in make(place) if only in specimen.name)


def case(given: tuple[int, int, str]) -> tuple[int, int, str, Outcome]:
    """For a worker process: a case by the number of its specimen and its seed."""
    number, seed, work = given
    return number, seed, *attempt(SPECIMENS[number], str(seed), Path(work))


SPECIMENS: list[Specimen] = []
"""Those of this process and its children."""


def campaign_of(campaign: Campaign, found: Sequence[Specimen], seeds: Sequence[int], work: Path, jobs: int, minutes: float) -> None:
    """Every specimen with every seed, as far as the minutes reach; a row for each."""
    SPECIMENS[:] = found
    for number, specimen in enumerate(found):
        honest = watched(partial(as_it_is, specimen, work / f"honest-{number}"), 1 << 20, work / "said.txt")
        campaign.check(honest.code == 0 and not honest.trouble, f"{specimen.name}, as it is: {honest.trouble} {honest.said[-2000:]}")
    cases = [(number, seed, str(work)) for seed in seeds for number in range(len(found))]
    ends: dict[int, Counter[str]] = {number: Counter() for number in range(len(found))}
    slowest, largest = Counter[int](), Counter[int]()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, seed, done, outcome in pool.imap_unordered(case, cases, chunksize=4):
            name = found[number].name
            if time.time() - campaign.started > 60 * minutes:
                pool.terminate()
                break
            if campaign.checks % 500 == 0:
                print(f"{campaign.checks:,} checks, {len(campaign.failures)} failures", flush=True)
            ends[number][outcome.trouble or ("worked" if not outcome.code else "refused")] += 1
            slowest[number] = max(slowest[number], round(outcome.seconds * 1000))
            largest[number] = max(largest[number], outcome.memory >> 20)
            campaign.check(not outcome.trouble, f"{name} --case {seed} ({done}): {outcome.trouble}: {last(outcome)}")
            if found[number].must_work and all(part.startswith(found[number].must_work) for part in done.split(", ")):
                used = not outcome.code or "not finite" in outcome.said or "exchanged" in done
                campaign.check(used, f"{name} --case {seed} ({done}): the checkpoint before was not used: {last(outcome)}")
    for number, specimen in enumerate(found):
        campaign.row(of=specimen.name, seconds=slowest[number] / 1000, megabytes=largest[number], **dict(sorted(ends[number].items())))


def last(outcome: Outcome) -> str:
    lines = [line for line in outcome.said.splitlines() if line.strip()]
    executed = [line for line in lines if "EXECUTION: " in line]
    return " | ".join([*executed[:1], *lines[-2:]])[-400:] or f"nothing said, {outcome.seconds:.1f} s, {outcome.memory >> 20} MB"


def as_it_is(specimen: Specimen, folder: Path) -> int:
    return specimen.act(written(specimen, folder))


def written(specimen: Specimen, folder: Path) -> Path:
    for name, data in specimen.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def trap(folder: Path) -> None:
    """A Ghostscript that tells when it is asked, as a reader of images might where it is installed."""
    folder.mkdir()
    (folder / "gs").write_text("#!/bin/sh\nexit 1\n")
    (folder / "gs").chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def main() -> int:
    parser = arguments("hostile", __doc__)
    parser.add_argument("--cases", type=int, default=150, help="for each specimen")
    parser.add_argument("--only", default="", help="specimens whose name holds this text")
    parser.add_argument("--case", type=int, default=-1, help="this one alone")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no more cases after so many; all specimens have as many")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("weft").setLevel(logging.ERROR)
    campaign = Campaign("hostile", options.device, options.record)
    first = options.seed * 1_000_000
    seeds = [options.case] if options.case >= 0 else range(first, first + options.cases)
    with workplace(fast=True) as folder:
        trap(folder / "bin")
        (folder / "specimens").mkdir()
        found = list(specimens(folder / "specimens", options.only))
        (folder / "work").mkdir()
        campaign_of(campaign, found, seeds, folder / "work", options.jobs, options.minutes)
    return campaign.end()


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    sys.exit(main())
