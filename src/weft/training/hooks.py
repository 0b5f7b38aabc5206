"""What happens around a step: averaging, validation, early stopping, logging, saving, stopping on a signal.

Hooks run in the order given. Each may keep state, which travels in the checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.data.base import Source
from weft.errors import CheckpointError, ConfigError, NonFiniteError
from weft.evaluation.metrics import Means
from weft.objectives.base import Objective, Terms
from weft.training import checkpoint, files

if TYPE_CHECKING:
    from weft.training.trainer import Trainer

log = logging.getLogger("weft")
State = tuple[dict[str, Tensor], dict[str, Any]]


class Hook:
    name = ""

    def start(self, trainer: Trainer) -> None: ...

    def after_step(self, trainer: Trainer) -> None: ...

    def complete(self, trainer: Trainer) -> None:
        """The run ended as it should."""

    def finish(self, trainer: Trainer) -> None:
        """The run ended, whatever the reason."""

    def state(self) -> State:
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None: ...


class Average(Hook):
    """Exponential moving average of the weights; validation and the checkpoint's users see the average."""

    name = "average"

    def __init__(self, decay: float):
        self.decay = decay
        self.average: dict[str, Tensor] = {}

    def start(self, trainer: Trainer) -> None:
        own = trainer.model.state_dict()
        held = {name: value.to(own[name].device) for name, value in self.average.items()}
        self.average = held or {name: value.detach().clone() for name, value in own.items()}

    @torch.no_grad()
    def after_step(self, trainer: Trainer) -> None:
        current = trainer.model.state_dict()
        moving = [name for name, value in current.items() if value.is_floating_point()]
        torch._foreach_lerp_([self.average[n] for n in moving], [current[n] for n in moving], 1 - self.decay)
        for name in current.keys() - set(moving):
            self.average[name].copy_(current[name])

    @contextlib.contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Put the average in the model's place for a while."""
        own = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(self.average)
        try:
            yield
        finally:
            model.load_state_dict(own)

    def state(self) -> State:
        return dict(self.average), {}

    def load_state(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        self.average = {name: value.clone() for name, value in tensors.items()}


class Validation(Hook):
    """Measures the objective on held-out data with exact means; draws nothing from, and leaves nothing in, training."""

    name = "validation"

    def __init__(self, source: Source, every: int, examples: int, batch: int, metric: str, goal: str, patience: int = 0):
        self.source, self.every, self.batch = source, every, batch
        self.examples = min(examples or len(source.dataset), len(source.dataset))
        self.metric, self.goal, self.patience = metric, goal, patience
        self.best: float | None = None
        self.best_step, self.waited = 0, 0
        self.latest: dict[str, float] = {}
        self.latest_step, self.improved = 0, False

    def start(self, trainer: Trainer) -> None:
        self._stop_if_patience_is_spent(trainer)  # a run that stopped early stays stopped

    def after_step(self, trainer: Trainer) -> None:
        self.improved = False
        last = trainer.step == trainer.settings.steps
        if self.every and (trainer.step % self.every == 0 or last):
            self.run(trainer)

    def run(self, trainer: Trainer) -> None:
        average = next((h for h in trainer.hooks if isinstance(h, Average)), None)
        with average.applied(trainer.model) if average else contextlib.nullcontext(), trainer.plan.arithmetic():
            self.latest = evaluate(trainer.model, trainer.objective, self.source, self.examples, self.batch)
        self.latest_step = trainer.step
        value = self.latest.get(self.metric)
        if value is None:
            raise ConfigError(f"--progress.metric: validation reports no {self.metric!r}; it reports {', '.join(self.latest)}")
        better = not math.isnan(value) and (self.best is None or (value < self.best if self.goal == "min" else value > self.best))
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_step, self.improved = value, trainer.step, True
        self._stop_if_patience_is_spent(trainer)

    def _stop_if_patience_is_spent(self, trainer: Trainer) -> None:
        if self.patience and self.waited >= self.patience:
            trainer.stop_reason = f"no better {self.metric} than {self.best} (step {self.best_step}) in {self.waited} validations"

    def state(self) -> State:
        return {}, {
            "best": self.best,
            "best_step": self.best_step,
            "waited": self.waited,
            "latest": self.latest,
            "latest_step": self.latest_step,
        }

    def load_state(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        for key, value in plain.items():
            setattr(self, key, value)


@torch.no_grad()
def evaluate(model: nn.Module, objective: Objective, source: Source, examples: int, batch: int) -> dict[str, float]:
    """Exact means over the first `examples` of a source, in evaluation mode."""
    training = model.training
    model.eval()
    means = Means(objective)
    for first in range(0, examples, batch):
        data = source.batch(first, min(batch, examples - first))
        counts = objective.counts(data)
        for index, turn in enumerate(objective.turns):
            terms = objective(model, data, turn.name)
            extra = objective.measure(model, data) if index == 0 else {}
            means.add(turn.name, Terms(terms.sums, {**terms.metrics, **extra}), counts)
    model.train(training)
    return means.read()


class Log(Hook):
    """metrics.jsonl and TensorBoard events: a line every few steps and at every validation, each step once."""

    name = "log"

    def __init__(self, run: Path, every: int, tensorboard: bool = True):
        self.run, self.every, self.tensorboard = run, every, tensorboard
        self.latest: dict[str, float] = {}
        self.seconds = 0.0
        self.mark = 0.0

    def start(self, trainer: Trainer) -> None:
        path = self.run / "metrics.jsonl"
        with files.writing(self.run):
            drop_after(path, trainer.step)
        self.lines = files.Appender(path)
        self.events: Any = None
        if self.tensorboard:
            with contextlib.suppress(ImportError):
                from weft.training.events import Events

                self.events = Events(self.run / "events", trainer.step)
        self.mark = time.perf_counter()
        self.mark_cursor = trainer.cursor

    def after_step(self, trainer: Trainer) -> None:
        validation = next((h for h in trainer.hooks if isinstance(h, Validation) and h.latest_step == trainer.step), None)
        due = trainer.step % self.every == 0 or trainer.step in (1, trainer.settings.steps)
        if not due and validation is None:
            return
        line: dict[str, Any] = {"step": trainer.step, "examples": trainer.cursor}
        if due:
            line["train"] = self.training(trainer)
        if validation is not None:
            line["validation"] = validation.latest
        self.write(line, trainer)

    def training(self, trainer: Trainer) -> dict[str, float]:
        numbers = trainer.means.read()
        trainer.means.clear()
        for turn, updater in trainer.updaters.items():
            prefix = f"{turn}_" if turn else ""
            numbers |= {f"{prefix}lr": updater.lr, f"{prefix}grad_norm": float(updater.norm)}
            if float(updater.refused):
                numbers[f"{prefix}refused_updates"] = float(updater.refused)
        now = time.perf_counter()
        rate = (trainer.cursor - self.mark_cursor) * trainer.tokens / max(now - self.mark, 1e-9)
        self.seconds += now - self.mark
        self.mark, self.mark_cursor = now, trainer.cursor
        self.latest = numbers | {"per_second": rate}
        return self.latest

    def write(self, line: dict[str, Any], trainer: Trainer) -> None:
        line["seconds"] = round(self.seconds, 3)
        self._append(self.lines, (json.dumps(line) + "\n").encode())
        if self.events:
            values = {f"{part}/{name}": value for part in ("train", "validation") for name, value in line.get(part, {}).items()}
            self._append(self.events, self.events.scalars(trainer.step, values))

    @staticmethod
    def _append(file: files.Appender, data: bytes) -> None:
        failing = file.failing
        try:
            file.append(data)
        except OSError as error:
            if not failing:
                log.warning("%s cannot be written (%s); training goes on and the lines are kept for later", file.path, error.strerror)

    def sync(self) -> None:
        """Let the log last through a power cut as the checkpoint of its step will."""
        with contextlib.suppress(OSError):
            self.lines.sync()

    def finish(self, trainer: Trainer) -> None:
        for file in (self.lines, self.events):
            try:
                if file:
                    file.close()
            except OSError as error:
                log.warning("%s: its last lines are lost (%s)", file.path, error.strerror)

    def state(self) -> State:
        return {}, {"seconds": self.seconds}

    def load_state(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        self.seconds = plain.get("seconds", 0.0)


def drop_after(path: Path, step: int) -> None:
    """Remove log lines after a step, and a last line that was cut off: the continued run writes them again."""
    if not path.exists():
        return
    kept, content = [], path.read_bytes()
    for line in content.splitlines(keepends=True):
        try:
            if line.endswith(b"\n") and json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    if b"".join(kept) != content:
        files.replace(path, b"".join(kept))


class Checkpoints(Hook):
    """Saves every so often, at every best validation, when told to stop and at the end."""

    name = "checkpoints"
    PATIENCE = 5
    """Returns to a checkpoint allowed before the trouble step is passed."""

    def __init__(self, run: Path, recipe: dict[str, Any], tokenizer: bytes | None, every: int, keep: int):
        self.run, self.recipe, self.tokenizer, self.every, self.keep = run, recipe, tokenizer, every, keep
        self.saved_step = -1
        self.trouble = (0, 0)
        self.lock = -1

    def start(self, trainer: Trainer) -> None:
        self.lock = files.lock(self.run)

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
        for hook in trainer.hooks:
            if isinstance(hook, Log):
                hook.sync()
        try:
            checkpoint.save(checkpoint.folder(self.run, trainer.step), self.content(trainer, best))
            checkpoint.mark_saved(self.run, trainer.step)
        except OSError as error:
            self.failed(trainer.step, error, final)
            return
        self.saved_step = trainer.step
        try:
            checkpoint.prune(self.run, self.keep, trainer.step)
        except OSError as error:
            log.warning("%s: old checkpoints could not be removed (%s)", self.run, error.strerror)

    def failed(self, step: int, error: OSError, final: bool) -> None:
        if not final:
            log.warning("step %d could not be saved (%s); training goes on and will try again", step, error)
            return
        before = f"step {self.saved_step}" if self.saved_step >= 0 else "the beginning"
        raise CheckpointError(
            f"{self.run}: step {step} could not be saved ({error.strerror}); mend this and repeat the command to continue from {before}"
        ) from error

    def finish(self, trainer: Trainer) -> None:
        os.close(self.lock)
        self.lock = -1

    def content(self, trainer: Trainer, best: bool) -> dict[str, bytes]:
        tensors, plain = trainer.state()
        validation = next((h for h in trainer.hooks if isinstance(h, Validation)), None)
        metrics = {"step": trainer.step, "best": best, "validation": validation.latest if validation else {}}
        content = {
            "recipe.json": checkpoint.encode(self.recipe),
            "model.safetensors": checkpoint.pack(trainer.model.state_dict()),
            "metrics.json": checkpoint.encode(metrics),
        }
        average = next((h for h in trainer.hooks if isinstance(h, Average)), None)
        if average:
            content["ema.safetensors"] = checkpoint.pack(average.average)
            tensors = {name: value for name, value in tensors.items() if not name.startswith("hooks/average/")}
        if self.tokenizer:
            content["tokenizer.json"] = self.tokenizer
        content["training.safetensors"] = checkpoint.pack(tensors)
        content["training.json"] = checkpoint.encode(plain)
        return content

    def restore(self, trainer: Trainer) -> bool:
        """Continue from the newest usable checkpoint, if the run has one."""
        if self.lock < 0:
            os.close(files.lock(self.run))
        files.sweep(self.run / "checkpoints")
        files.sweep(self.run)
        found = checkpoint.newest(self.run)
        if found is None:
            return False
        checkpoint.load_weights(trainer.model, found.tensors("model.safetensors"), str(found.path))
        tensors = found.tensors("training.safetensors")
        if "ema.safetensors" in found.files:
            tensors |= {f"hooks/average/{n}": v for n, v in found.tensors("ema.safetensors").items()}
        trainer.load_state(tensors, found.json("training.json"))
        self.saved_step = trainer.step
        return True

    def roll_back(self, trainer: Trainer) -> None:
        """Return to the last checkpoint but not to its data: the batches that led to trouble are passed over."""
        step, cursor = trainer.step, trainer.cursor
        attempts = self.trouble[1] + 1 if step <= self.trouble[0] else 1
        self.trouble = (max(step, self.trouble[0]), attempts)
        if attempts > self.PATIENCE or not self.restore(trainer):
            raise NonFiniteError(f"step {step}: a gradient was not finite, and returning to a checkpoint did not help")
        trainer.cursor = cursor
        for hook in trainer.hooks:
            if isinstance(hook, Log):
                hook.finish(trainer)
                hook.start(trainer)
            if isinstance(hook, Average):
                hook.start(trainer)
        log.warning("step %d: a gradient was not finite; returned to step %d with other data", step, trainer.step)


class Signals(Hook):
    """SIGINT and SIGTERM end the run after the current step, so that it is saved; a second one ends it at once."""

    name = "signals"

    def __init__(self) -> None:
        self.received: int | None = None
        self.previous: dict[int, Any] = {}

    def start(self, trainer: Trainer) -> None:
        def note(number: int, frame: FrameType | None) -> None:
            if self.received is not None:
                os._exit(128 + number)
            self.received = number
            trainer.stop_reason = f"received {signal.Signals(number).name}"

        with contextlib.suppress(ValueError):  # only the main thread may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, note)

    def finish(self, trainer: Trainer) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
