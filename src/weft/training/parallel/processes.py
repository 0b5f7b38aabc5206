"""The processes of a run as torchrun starts them: counted, joined, watched and parted.

    torchrun --nproc-per-node 4 -m weft train RECIPE --parallel.replicate 2 --parallel.shard 2

Nothing of torch.distributed is imported where one process trains alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from weft.core.errors import ConfigError, ProcessError, WeftError
from weft.objectives.base import Objective
from weft.training.parallel.team import SINGLE_PROCESS, Team
from weft.training.parallel.watchdog import end_neighbours
from weft.training.settings import Parallel, Train

GRACE = 2.0
"""Seconds that all but the first process wait before they speak of an error: it is mostly the same one, and torchrun ends them first."""
LAYOUT = ("replicate", "shard", "tensor", "pipeline")
"""Settings whose product is the number of processes."""


def started() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def check(parallel: Parallel, train: Train) -> None:
    """Refuse a layout that is not the one that was started, or that leaves a process without examples."""
    for name in (*LAYOUT, "timeout"):
        if getattr(parallel, name) < 1:
            raise ConfigError(f"--parallel.{name} must be at least 1, not {getattr(parallel, name)}")
    groups, given = parallel.replicate * parallel.shard, started()
    wanted = groups * parallel.tensor * parallel.pipeline
    layout = " x ".join(f"--parallel.{name} {getattr(parallel, name)}" for name in LAYOUT)
    if wanted != given and given == 1:
        raise ConfigError(f"{layout} needs {wanted} processes; start them with: torchrun --nproc-per-node {wanted} -m weft train …")
    if wanted != given:
        raise ConfigError(
            f"{layout} is {wanted}, but {given} processes were started; make the product {given}, as with --parallel.replicate {given}"
        )
    smallest = min(train.batch, train.batch_ramp[0] if train.batch_ramp[1] else train.batch)
    if groups > 1 and smallest < groups:
        raise ConfigError(
            f"a batch of {smallest} examples cannot be divided among {groups} processes; raise --train.batch or --train.batch_ramp"
        )


def indivisible(model: nn.Module, objective: Objective) -> str:
    """Why a batch cannot be divided: its loss is more than the sum of its examples' losses. Empty where it can."""
    if not objective.separable:
        return f"{type(objective).__name__} compares the examples of a batch with one another, so the batch cannot be divided"
    batch_norm = next((name for name, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)), None)
    if batch_norm is not None:
        return f"{batch_norm} normalises over the batch, so the batch cannot be divided"
    if not getattr(model, "separable", True):
        return f"{type(model).__name__} compares the examples of a batch with one another, so the batch cannot be divided"
    return ""


def refuse(model: nn.Module, objective: Objective, team: Team) -> None:
    """Several processes for what one must see whole."""
    if team.dp_size > 1 and (reason := indivisible(model, objective)):
        raise ConfigError(f"{reason}; train it in one process")
    if team.dp_size > 1 and objective.carries:
        raise ConfigError(f"{type(objective).__name__} carries a state from batch to batch; train it in one process")


def compare(team: Team, *things: bytes) -> None:
    """Refuse to train where the processes were not given the same things."""
    number = int.from_bytes(hashlib.sha256(b"".join(things)).digest()[:7], "big")
    if (team.all_reduce_max(number), -team.all_reduce_max(-number)) != (number, number):
        raise ConfigError("the processes have different data or settings; give all the same flags and the same files")


def take_device(train: Train) -> torch.device:
    """The kind of device of all processes; of GPUs, each takes the one of its number on its machine."""
    if train.device == "cpu" or (train.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if train.device not in ("auto", "cuda"):
        raise ConfigError(
            f"--train.device: {train.device!r} cannot serve several processes; use cuda, where each takes its own GPU, or cpu"
        )
    own, given = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if own >= given:
        raise ConfigError(
            f"process {own} of this machine finds no GPU of its own: there are {given}; start as many, or use --train.device cpu"
        )
    torch.cuda.set_device(own)
    return torch.device("cuda")


@contextlib.contextmanager
def joined(parallel: Parallel, train: Train) -> Iterator[Team]:
    """The team of this run; nothing happens where it is one process."""
    check(parallel, train)
    if started() == 1:
        yield SINGLE_PROCESS
        return
    from weft.training.parallel.data_parallel import DistributedTeam

    team = None
    try:
        team = DistributedTeam(parallel, take_device(train))
        yield team
    except RuntimeError as error:
        if unanswered(error):
            end_neighbours()
        raise lost(error, parallel) or error from error
    finally:
        if team:
            team.destroy_process_group()


def unanswered(error: RuntimeError) -> bool:
    """Whether another process was waited for in vain."""
    text = str(error)
    return "Timed out" in text or "timeout" in text.lower()


def lost(error: RuntimeError, parallel: Parallel) -> WeftError | None:
    """What an error of the connection means; None where it is another error."""
    text = str(error)
    if unanswered(error):
        return ProcessError(
            f"another process did not answer for {parallel.timeout} s (--parallel.timeout); this one ends. Run the same command to continue"
        )
    if isinstance(error, _errors()) or any(words in text for words in ("Connection closed", "Connection reset", "Broken pipe", "Gloo")):
        return ProcessError("another process of this run has ended, so this one ends too. Run the same command to continue")
    return None


def _errors() -> Any:
    import torch.distributed as dist

    return (dist.DistError,)


def delay_nonzero_ranks() -> None:
    """Let the first process speak first."""
    if rank():
        sys.stdout.flush()
        time.sleep(GRACE)
