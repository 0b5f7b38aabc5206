"""Keeps a run: saves checkpoints, continues from the newest, and returns to it when a gradient stops being finite."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.core.errors import CheckpointError, NonFiniteError
from weft.core.untrusted import checked, natural, parsing
from weft.training.checkpoint import checkpoint, files
from weft.training.checkpoint.tensors import LazyTensors, numbered
from weft.training.hooks import EMA, Hook, Validation
from weft.training.log import Log
from weft.training.parallel.team import once, saved

if TYPE_CHECKING:
    from weft.training.trainer import Trainer

logger = logging.getLogger("weft")
STATE = {"step": natural, "cursor": natural, "hooks": {str: dict}}
"""What training.json must hold."""


def weights(trainer: Trainer) -> dict[str, Tensor]:
    """What this process saves of the model."""
    team = trainer.team
    found = once(trainer.model.state_dict(keep_vars=True), team)
    return {n: piece for name, t in found.items() for n, piece in saved(name, team.to_local(t.detach()), t, team).items()}


class Checkpoints(Hook):
    """Saves every so often, at every best validation, when told to stop and at the end."""

    name = "checkpoints"
    PATIENCE = 5
    """Returns to a checkpoint allowed before the trouble step is passed."""

    def __init__(self, run: Path, recipe: dict[str, Any], tokenizer: bytes | None, every: int, keep: int):
        self.run, self.recipe, self.tokenizer, self.every, self.keep = run, recipe, tokenizer, every, keep
        self.saved_step = -1
        self.threads = 0
        """Those of the process that saved the checkpoint from which this run went on; 0 where that is not known."""
        self.trouble = (0, 0)
        self.lock = -1

    def start(self, trainer: Trainer) -> None:
        self.lock = files.lock(self.run) if trainer.team.first else os.open(self.run, os.O_RDONLY)

    def after_step(self, trainer: Trainer) -> None:
        best = any(h.improved for h in trainer.hooks if isinstance(h, Validation))
        final = trainer.step >= trainer.settings.steps or bool(trainer.stop_reason)
        if final or best or (self.every and trainer.step % self.every == 0):
            self.save(trainer, best, final)

    def complete(self, trainer: Trainer) -> None:
        if self.saved_step != trainer.step:
            self.save(trainer, best=False, final=True)

    def save(self, trainer: Trainer, best: bool, final: bool) -> None:
        if trainer.rolled_back():
            return
        team = trainer.team
        for hook in trainer.hooks if team.first else ():
            if isinstance(hook, Log):
                hook.sync()
        try:
            checkpoint.save(checkpoint.folder(self.run, trainer.step), self.content(trainer, best), team)
            checkpoint.all_ranks(team, lambda: checkpoint.mark_saved(self.run, trainer.step) if team.first else None)
        except OSError as error:
            self.failed(trainer, error, final)
            return
        self.saved_step = trainer.step
        if not team.first:
            return
        try:
            checkpoint.prune(self.run, self.keep, trainer.step)
        except OSError as error:
            logger.warning("%s: old checkpoints could not be removed (%s)", self.run, error.strerror)

    def failed(self, trainer: Trainer, error: OSError, final: bool) -> None:
        step = trainer.step
        if not final:
            if trainer.team.first:
                logger.warning("step %d could not be saved (%s); training goes on and will try again", step, error)
            return
        before = f"step {self.saved_step}" if self.saved_step >= 0 else "the beginning"
        raise CheckpointError(
            f"{self.run}: step {step} could not be saved ({error.strerror}); mend this and repeat the command to continue from {before}"
        ) from error

    def finish(self, trainer: Trainer) -> None:
        os.close(self.lock)
        self.lock = -1

    def content(self, trainer: Trainer, best: bool) -> dict[str, bytes]:
        """The files that this process writes: its tensors and, if it is the first, all that is no tensor."""
        tensors, plain = trainer.state()
        average = next((h for h in trainer.hooks if isinstance(h, EMA)), None)
        parts = {"model": weights(trainer), **({"ema": average.saved(trainer)} if average else {}), "training": tensors}
        rank = trainer.team.rank
        packed = {numbered(f"{n}.safetensors", rank): checkpoint.pack(part) for n, part in parts.items() if part or not rank}
        if rank:
            return packed
        validation = next((h for h in trainer.hooks if isinstance(h, Validation)), None)
        metrics = {"step": trainer.step, "best": best, "validation": validation.latest if validation else {}}
        plainly = {"recipe.json": self.recipe, "metrics.json": metrics, "training.json": {**plain, "threads": torch.get_num_threads()}}
        content = packed | {name: checkpoint.encode(value) for name, value in plainly.items()}
        return content | ({"tokenizer.json": self.tokenizer} if self.tokenizer else {})

    def restore(self, trainer: Trainer) -> bool:
        """Continue from the newest checkpoint that can be loaded, in all processes; False for a run that has none yet."""
        team, below = trainer.team, None
        while (found := self.newest(trainer, below)) is not None:
            trouble = None
            try:
                self.load(trainer, found)
            except CheckpointError as error:
                trouble = error
            failed = [error for error in team.all_gather_object(trouble) if error]
            if not failed:
                return True
            if team.first:
                logger.warning("%s; trying another", failed[0])
            below = int(found.path.name)
        return False

    def load(self, trainer: Trainer, found: checkpoint.Checkpoint) -> None:
        """Put a checkpoint into the trainer; a CheckpointError where it is not one of this run."""
        with parsing(found.path, CheckpointError):
            plain = found.json("training.json")
            checked(plain, STATE | ({"threads": natural} if "threads" in plain else {}))
            if plain["step"] != int(found.path.name):
                raise CheckpointError(f"{found.path}: training.json is that of step {plain['step']}")
            checkpoint.load_weights(trainer.model, found.lazy("model.safetensors"), str(found.path), trainer.team)
            if "training.safetensors" not in found.files:
                raise CheckpointError(f"{found.path}: holds no training.safetensors")
            makers = found.lazy("training.safetensors").makers
            average = {f"hooks/average/{name}": make for name, make in found.lazy("ema.safetensors").makers.items()}
            trainer.load_state(LazyTensors({**makers, **average}), plain)
        self.saved_step, self.threads = trainer.step, plain.get("threads", 0)

    def newest(self, trainer: Trainer, below: int | None = None) -> checkpoint.Checkpoint | None:
        """The checkpoint to continue from, of those below a step that did not fit; the first process finds it for all."""
        found = None
        if trainer.team.first:
            held = self.lock if self.lock >= 0 else files.lock(self.run)
            try:
                files.sweep(self.run / "checkpoints")
                files.sweep(self.run)
                found = checkpoint.newest(self.run, below)
            finally:
                if held != self.lock:
                    os.close(held)
        step = trainer.team.all_reduce_max(int(found.path.name) if found else -1)
        return found or (checkpoint.read(checkpoint.folder(self.run, step)) if step >= 0 else None)

    def roll_back(self, trainer: Trainer) -> None:
        """Return to the last checkpoint but not to its data: the batches that led to trouble are passed over."""
        step, cursor = trainer.step, trainer.cursor
        attempts = self.trouble[1] + 1 if step <= self.trouble[0] else 1
        self.trouble = (max(step, self.trouble[0]), attempts)
        if attempts > self.PATIENCE or not self.restore(trainer):
            why = "returning to a checkpoint did not help" if self.saved_step >= 0 else "there is no checkpoint yet to return to"
            raise NonFiniteError(
                f"step {step}: a gradient was not finite, and {why}; lower the learning rate, or clip with --optim.clip_norm 1"
            )
        trainer.cursor = cursor
        for hook in trainer.hooks:
            if isinstance(hook, Log):
                hook.finish(trainer)
                hook.start(trainer)
            if isinstance(hook, EMA):
                hook.start(trainer)
        logger.warning("step %d: a gradient was not finite; returned to step %d with other data", step, trainer.step)
