"""What the campaigns share: small runs of several families, their children, and the facts of a finished run."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.benchmarks.record import measurements, write_record

HERE = Path(__file__).resolve().parent
DEBRIS = (".tmp-*", ".old-*", ".trash-*")
Changes = dict[str, Any]

FAMILIES: dict[str, tuple[str, Changes]] = {
    "gpt": (
        "gpt/quickstart",
        {
            "data.megabytes": 0.3,
            "data.context": 32,
            "model.layers": 2,
            "model.heads": 2,
            "model.width": 128,
            "model.position_embedding": "learned",  # with both, a GPU goes through the blocks as one operation
            "model.embedding_dropout": 0.1,
            "model.attention_dropout": 0.1,
            "model.residual_dropout": 0.1,
            "train.batch": 8,
            "train.ema": 0.99,
        },
    ),
    "gan": ("gan/digits", {"train.batch": 32}),
    "rbm": ("rbm/persistent", {"train.batch": 32}),
}


def settings(device: str, steps: int, save_every: int) -> Changes:
    changes: Changes = {
        "train.device": device,
        "train.steps": steps,
        "train.log_every": 1,
        "train.eval_every": 50,
        "train.eval_examples": 64,
        "train.save_every": save_every,
    }
    return changes | ({"train.deterministic": True, "train.cuda_graphs": "on"} if device.startswith("cuda") else {})


@dataclass
class Campaign:
    """Counts checks, remembers failures, and ends with a table, a record and an exit code."""

    name: str
    device: str
    record: Path
    checks: int = 0
    failures: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.time)

    def check(self, holds: bool, what: str) -> None:
        self.checks += 1
        if not holds:
            self.failures.append(what)
            print(f"FAILED: {what}", flush=True)

    def row(self, **values: Any) -> None:
        self.rows.append(values)
        print("  ".join(f"{name} {value}" for name, value in values.items()), flush=True)

    def end(self) -> int:
        seconds = round(time.time() - self.started, 1)
        found = measurements([{"failures": len(self.failures), "examples": self.checks}], beside={"failures": {"target": 0}})
        details = {"device": self.device, "failures": self.failures, "table": self.rows}
        command = " ".join(["python", *sys.argv])
        write_record(self.record, found, benchmark=f"reliability {self.name}", command=command, seconds=seconds, details=details)
        print(f"{self.name}: {self.checks} checks, {len(self.failures)} failures, {seconds} s -> {self.record}")
        return 1 if self.failures else 0


def arguments(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0, help="of the random places and moments")
    parser.add_argument("--record", type=Path, default=Path(f"runs/reliability/reliability-{name}.json"), help="where the JSON record goes")
    return parser


@contextmanager
def workplace(fast: bool = False) -> Iterator[Path]:
    """A folder for the runs, in memory where the disk does not matter; kept where something broke."""
    memory = "/dev/shm" if fast and os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="weft-reliability-", dir=memory))
    try:
        yield folder
    except BaseException:
        print(f"the runs are kept in {folder}")
        raise
    shutil.rmtree(folder)


def start(recipe: str, folder: Path, changes: Changes) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "trainee.py"), recipe, str(folder), json.dumps(changes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(recipe: str, folder: Path, changes: Changes) -> tuple[int, str]:
    """Run to the end: exit code and what was said."""
    child = start(recipe, folder, changes)
    _, said = child.communicate()
    return child.returncode, said


def digests(run: Path, step: int) -> dict[str, str]:
    """sha256 of everything in a checkpoint that training must reproduce."""
    folder = run / "checkpoints" / f"{step:08d}"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.safetensors"))}


def logged(run: Path) -> list[tuple[int, Any, Any]]:
    """(step, training numbers, validation numbers) of every line of the log, without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for clocked in ("per_second", "mfu"):
            line.get("train", {}).pop(clocked, None)
    return [(line["step"], line.get("train"), line.get("validation")) for line in lines]


def debris(run: Path) -> list[str]:
    return [str(path.relative_to(run)) for place in (run, run / "checkpoints") for kind in DEBRIS for path in place.glob(kind)]


def event_steps(run: Path, tag: str) -> list[int] | None:
    """Steps that TensorBoard shows for a curve; None where it is not installed."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
    except ImportError:
        return None
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    reader = EventAccumulator(str(run / "events"), size_guidance={"scalars": 0})
    reader.Reload()
    return [event.step for event in reader.Scalars(tag)]
