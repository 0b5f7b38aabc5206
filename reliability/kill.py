"""Exact resume: runs killed with SIGKILL at random moments, several of them inside a save, end as if never interrupted.

A kill counts as "inside a save" when the dead process left a half-written or half-removed checkpoint behind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from campaign import (
    FAMILIES,
    Campaign,
    Changes,
    arguments,
    debris,
    digests,
    event_steps,
    finish,
    logged,
    settings,
    start,
    workplace,
)

HALF_DONE = (".tmp-", ".old-", ".trash-")
PAUSE = 0.01
"""Seconds between steps."""
SHARES = {"save": 0.4, "prune": 0.1, "step": 0.35, "clock": 0.15}
"""When to kill: as a checkpoint is being written, as an old one is being removed, within a step, at any time after the start."""


def last_step(run: Path) -> int:
    try:
        with open(run / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            whole = file.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
        return int(whole.partition(b'"step": ')[2].partition(b",")[0] or 0)
    except OSError:
        return 0


def seen(run: Path, *kinds: str, pid: int) -> bool:
    """Whether a process has something half-done beside the checkpoints."""
    try:
        return any(entry.name.startswith(kinds) and entry.name.endswith(f"-{pid}") for entry in os.scandir(run / "checkpoints"))
    except OSError:
        return False


def wait_for(kind: str, run: Path, target: int, child: subprocess.Popen[str], chance: random.Random) -> None:
    """Return when the moment has come, or the process has ended."""
    if kind == "clock":
        time.sleep(target / 100)
        return
    target = max(target, last_step(run) + 1)  # a step of this process, not one that its forerunner logged
    while child.poll() is None and last_step(run) < target:
        time.sleep(0.0005)
    if kind == "step":
        while seen(run, *HALF_DONE, pid=child.pid):
            pass
        time.sleep(chance.random() * 0.005)
        return
    while child.poll() is None and not seen(run, ".tmp-" if kind == "save" else ".trash-", pid=child.pid):
        pass
    time.sleep(chance.random() * 0.002)


def plan(kills: int, steps: int, whole: float, chance: random.Random) -> list[tuple[str, int]]:
    """Kinds of kill with the step to wait for, in their order, or, by the clock, hundredths of a second: a part of those that a whole run
    takes, so that it does not end before the others had their turn."""
    kinds = [kind for kind, share in SHARES.items() for _ in range(round(kills * share))][:kills]
    kinds += ["step"] * (kills - len(kinds))
    chance.shuffle(kinds)
    room = (steps - 20) / kills
    targets = [int(room * (index + chance.random())) + 1 for index in range(kills)]
    return [(kind, round(40 * whole * chance.random()) if kind == "clock" else target) for kind, target in zip(kinds, targets, strict=True)]


def interrupt(recipe: str, run: Path, changes: Changes, kills: int, whole: float, seed: int) -> tuple[int, int, int]:
    """Kill a run at planned moments, then let it end: exit code of the last start, kills made, kills inside a save. whole: seconds that
    it takes when nobody does."""
    chance = random.Random(seed)
    made = inside = 0
    for kind, target in plan(kills, changes["train.steps"], whole, chance):
        child = start(recipe, run, changes)
        wait_for(kind, run, target, child, chance)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        made += child.returncode == -signal.SIGKILL
        inside += seen(run, *HALF_DONE, pid=child.pid)
    code, said = finish(recipe, run, changes)
    if code:
        print(said)
    return code, made, inside


def compare(campaign: Campaign, name: str, steps: int, whole: Path, cut: Path) -> dict[str, Any]:
    expected, found = digests(whole, steps), digests(cut, steps)
    campaign.check(expected == found, f"{name}: weights and training state differ from those of the uninterrupted run")
    lines, again = logged(whole), logged(cut)
    campaign.check([line[0] for line in again] == list(range(1, steps + 1)), f"{name}: not every step is logged exactly once, in order")
    campaign.check(lines == again, f"{name}: the logged numbers differ")
    campaign.check(not debris(cut), f"{name}: left behind {debris(cut)}")
    kept = [sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (whole, cut)]
    campaign.check(kept[0] == kept[1], f"{name}: kept checkpoints {kept[1]}, not {kept[0]}")
    tag = next(f"train/{key}" for key in lines[0][1] if key.endswith("loss"))
    drawn = event_steps(cut, tag)
    campaign.check(drawn in (None, list(range(1, steps + 1))), f"{name}: TensorBoard does not show every step once")
    return {"model sha256": found.get("model.safetensors", "")[:12], "tensorboard": "absent" if drawn is None else "each step once"}


def family(campaign: Campaign, name: str, folder: Path, device: str, kills: int, steps: int, save_every: int, seed: int) -> None:
    recipe, changes = FAMILIES[name]
    changes = changes | settings(device, steps, save_every) | {"pause": PAUSE}
    began = time.time()
    whole, cut = folder / "whole", folder / "cut"
    code, said = finish(recipe, whole, changes)
    campaign.check(code == 0, f"{name}: the uninterrupted run failed: {said[-500:]}")
    if code:
        return
    first = round(time.time() - began, 1)
    for every in (10, 100):
        other = folder / str(every)
        finish(recipe, other, changes | {"train.eval_every": every})
        same = digests(other, steps)["model.safetensors"] == digests(whole, steps)["model.safetensors"]
        campaign.check(same, f"{name}: a fresh run that validates every {every} steps ends with other weights")
    code, made, inside = interrupt(recipe, cut, changes, kills, first, seed)
    campaign.check(code == 0, f"{name}: the last start ended with {code}")
    campaign.check(made == kills, f"{name}: only {made} of {kills} kills met a living process")
    campaign.check(inside >= max(1, kills // 5), f"{name}: only {inside} kills fell inside a save")
    facts = compare(campaign, name, steps, whole, cut) if not code else {}
    campaign.row(
        family=name, steps=steps, kills=made, **{"inside a save": inside}, **facts, uninterrupted=first, all=round(time.time() - began, 1)
    )
    shutil.rmtree(folder)


def main() -> int:
    parser = arguments("kill", __doc__)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2, help="families at a time")
    given = parser.parse_args()
    campaign = Campaign("kill", given.device, given.record)
    with workplace() as folder, ThreadPoolExecutor(given.jobs) as pool:
        plan = (given.device, given.kills, given.steps, given.save_every, given.seed)
        for done in [pool.submit(family, campaign, name, folder / name, *plan) for name in given.families]:
            done.result()
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
