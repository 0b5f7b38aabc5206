"""Recovery of many: a random process of a run is killed or made to hang, again and again, and the run ends as if nothing had happened.

torchrun starts all processes anew and weft continues from the last checkpoint. A recovery takes from the kill until the run has
made one step more than it had. In the last round a process is stopped instead (SIGSTOP): the others give it up after --timeout.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from math import prod
from pathlib import Path

from campaign import FAMILIES, HERE, Campaign, Changes, arguments, digests, logged, settings, workplace
from kill import last_step

LAYOUTS: dict[str, tuple[str, Changes]] = {
    "parts": ("gpt", {"parallel.shard": 2}),
    "copies": ("gan", {"parallel.replicate": 2}),
    "stages": ("gpt", {"parallel.pipeline": 2}),
    "stages of parts": ("gpt", {"parallel.pipeline": 2, "parallel.shard": 2}),
}
"""Which family's model is laid out, and how."""


def start(name: str, run: Path, changes: Changes, restarts: int) -> subprocess.Popen[str]:
    family, layout = LAYOUTS[name]
    count = f"--nproc-per-node={prod(layout.values())}"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--max-restarts={restarts}", count]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    trainee = [str(HERE / "trainee.py"), FAMILIES[family][0], str(run), json.dumps(changes)]
    with open(run.with_suffix(".log"), "w") as said:
        return subprocess.Popen([*command, *trainee], env=environment, stdout=said, stderr=said, text=True)


def words(run: Path) -> str:
    return run.with_suffix(".log").read_text()[-2000:]


def workers(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_for_step(run: Path, step: int, agent: subprocess.Popen[str], patience: float) -> bool:
    end = time.time() + patience
    while last_step(run) < step and time.time() < end and agent.poll() is None:
        time.sleep(0.02)
    return last_step(run) >= step


def disturb(campaign: Campaign, name: str, run: Path, changes: Changes, kills: int, chance: random.Random, patience: float) -> list[float]:
    """Seconds of each recovery; the last from a process that hangs."""
    agent = start(name, run, changes, kills + 1)
    room = (changes["train.steps"] - 10) / (kills + 1)
    seconds = []
    for index in range(kills + 1):
        target = int(room * (index + chance.random())) + 2
        if not campaign_waits(campaign, name, run, max(target, last_step(run) + 1), agent, patience):
            break
        victim, hangs = chance.choice(workers(agent.pid)), index == kills
        os.kill(victim, signal.SIGSTOP if hangs else signal.SIGKILL)
        began, reached = time.time(), last_step(run)
        if not campaign_waits(campaign, name, run, reached + 2, agent, patience):
            break
        seconds.append(round(time.time() - began, 1))
        print(f"{name}: {'hang' if hangs else 'kill'} {index + 1} at step {reached}, recovered in {seconds[-1]} s", flush=True)
    try:
        code = agent.wait(patience)
    except subprocess.TimeoutExpired:
        agent.terminate()
        code = -1
    campaign.check(code == 0, f"{name}: the run ended with {code}: {words(run)}")
    return seconds


def campaign_waits(campaign: Campaign, name: str, run: Path, step: int, agent: subprocess.Popen[str], patience: float) -> bool:
    reached = wait_for_step(run, step, agent, patience)
    campaign.check(reached, f"{name}: step {step} was not reached; the last one is {last_step(run)}")
    return reached


def family(campaign: Campaign, name: str, folder: Path, kills: int, steps: int, seed: int, timeout: int) -> None:
    kind, layout = LAYOUTS[name]
    changes = FAMILIES[kind][1] | settings("cpu", steps, 5) | layout | {"parallel.timeout": timeout}
    folder.mkdir()
    whole, cut = folder / "whole", folder / "cut"
    code = start(name, whole, changes, 0).wait()
    campaign.check(code == 0, f"{name}: the undisturbed run failed: {words(whole)}")
    seconds = disturb(campaign, name, cut, changes, kills, random.Random(seed), patience=120.0)
    campaign.check(len(seconds) == kills + 1, f"{name}: {len(seconds)} of {kills + 1} recoveries")
    killed, hung = seconds[:kills], seconds[kills:]
    campaign.check(all(second <= 30 for second in seconds), f"{name}: a recovery took {max(seconds, default=0)} s")
    campaign.check(digests(whole, steps) == digests(cut, steps), f"{name}: weights and training state differ from the undisturbed run's")
    campaign.check([line[0] for line in logged(cut)] == list(range(1, steps + 1)), f"{name}: not every step is logged exactly once")
    said = cut.with_suffix(".log").read_text()
    campaign.check("did not answer" in said, f"{name}: nobody said that a process hung")
    campaign.row(layout=name, family=kind, **layout, steps=steps, kills=len(killed), slowest=max(killed, default=0), hang=hung)


def main() -> int:
    parser = arguments("processes", __doc__)
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--timeout", type=int, default=10, help="seconds until a silent process is given up")
    given = parser.parse_args()
    campaign = Campaign("processes", given.device, given.record)
    with workplace() as folder:
        for name in given.layouts:
            family(campaign, name, folder / name.replace(" ", "-"), given.kills, given.steps, given.seed, given.timeout)
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
