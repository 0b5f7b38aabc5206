"""SIGTERM and SIGINT: the command saves and ends with 143 or 130 within seconds, and the same command continues exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from campaign import FAMILIES, Campaign, Changes, arguments, debris, digests, logged, settings, workplace
from kill import last_step, wait_for

from weft.training.checkpoint import checkpoint

LIMIT = 10.0
"""Seconds a stop may take."""


def command(recipe: str, folder: Path, changes: Changes) -> list[str]:
    words = [word for name, value in changes.items() for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])]
    return [sys.executable, "-m", "weft", "train", recipe, "--out", str(folder), *words]


def start(words: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def stop(campaign: Campaign, words: list[str], run: Path, number: signal.Signals, kind: str, target: int) -> float:
    """Send the signal at a moment and see how the run ends; the seconds that took."""
    child, what = start(words), f"{number.name} at {kind} {target}"
    wait_for(kind if kind in ("clock", "save") else "step", run, target, child, random.Random(target))
    began = time.time()
    child.send_signal(number)
    if kind == "twice":
        time.sleep(0.01)
        child.send_signal(number)
    _, said = child.communicate()
    took = time.time() - began
    campaign.check(took < LIMIT, f"{what}: took {took:.1f} s")
    # a shell shows 128 + n as well for a process that the signal itself ended: before training, or after it
    expected = (128 + number, -number) if kind in ("clock", "twice") else (128 + number,)
    campaign.check(child.returncode in expected, f"{what}: ended with {child.returncode}, not {expected}: {said[-300:]}")
    if kind in ("step", "save"):
        campaign.check("Traceback" not in said and not debris(run), f"{what}: {debris(run)} {said[-300:]}")
        found = checkpoint.newest(run)
        campaign.check(found is not None and int(found.path.name) == last_step(run), f"{what}: the last step made was not saved")
    return took


def plan(steps: int, chance: random.Random) -> list[tuple[str, int]]:
    kinds, room = ["step", "save", "twice", "step", "save"], (steps - 20) / 5
    targets = [int(room * (index + chance.random())) + 1 for index in range(5)]
    return [("clock", chance.randrange(150, 300)), *zip(kinds, targets, strict=True)]


def main() -> int:
    parser = arguments("signals", __doc__)
    parser.add_argument("--family", default="gpt", choices=list(FAMILIES))
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    recipe, changes = FAMILIES[given.family]
    changes = changes | settings(given.device, given.steps, 7)
    campaign, chance = Campaign("signals", given.device, given.record), random.Random(given.seed)
    with workplace() as folder:
        whole = start(command(recipe, folder / "whole", changes))
        said = whole.communicate()[1]
        campaign.check(whole.returncode == 0, f"the uninterrupted run ended with {whole.returncode}: {said[-300:]}")
        for number in (signal.SIGTERM, signal.SIGINT):
            run = folder / number.name
            words = command(recipe, run, changes)
            took = [stop(campaign, words, run, number, kind, target) for kind, target in plan(given.steps, chance)]
            last = start(words)
            said = last.communicate()[1]
            campaign.check(last.returncode == 0, f"{number.name}: the last start ended with {last.returncode}: {said[-300:]}")
            same = digests(run, given.steps) == digests(folder / "whole", given.steps) and logged(run) == logged(folder / "whole")
            campaign.check(same and not debris(run), f"{number.name}: continued runs differ from the uninterrupted one")
            campaign.row(signal=number.name, stops=len(took), **{"slowest stop, s": round(max(took), 2)}, identical=same)
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
