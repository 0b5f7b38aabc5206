"""What happens around a step: averaging, validation, early stopping, logging, saving, stopping on a signal.

Hooks run in the order given. Each may keep state, which travels in the checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.core.untrusted import checked, measured, natural
from weft.data.base import Batch, DataLoader
from weft.objectives.base import Objective, Terms
from weft.training.means import Means
from weft.training.parallel.team import SINGLE_PROCESS, SumsAndMetrics, Team, copy, once, saved

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

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None: ...


WARM_UP = 8
"""Order of the polynomial by which steps count in an average that has not reached its decay."""


def share_of_newest(decay: float, step: int) -> float:
    """The share that the weights of a step, from 1, get in the average: all of it at first, then 9 / (step + 8) until 1 - decay is more.

    The steps of such a beginning count as the eighth power of their number (polynomial-decay averaging; Shamir & Zhang, 2013,
    arXiv:1212.1824), so nothing of the initial weights is in it and no bias has to be corrected.
    """
    return max(1.0 - decay, (WARM_UP + 1) / (step + WARM_UP))


class EMA(Hook):
    """Exponential moving average of the weights; validation and the checkpoint's users see the average.

    Only weights that training made count, from its first step on, and early on the decay is smaller, so that the average is never older
    than a tenth of the run: over 80 steps at 0.999 all weights would count alike, those of the first steps, which are nearly random, too.
    """

    name = "average"

    def __init__(self, decay: float):
        self.decay = decay
        self.average: dict[str, Tensor] = {}
        """What this process holds of it."""
        self.loaded: Mapping[str, Tensor] = {}

    def start(self, trainer: Trainer) -> None:
        own, team = once(trainer.model.state_dict(), trainer.team), trainer.team
        for name, value in own.items():
            if name in self.loaded:
                self.average[name] = team.shard(self.loaded[name].to(value.device), value).clone()
            elif name not in self.average:
                self.average[name] = team.to_local(value).detach().clone()
        self.loaded = {}

    @torch.no_grad()
    def after_step(self, trainer: Trainer) -> None:
        own = trainer.model.state_dict()
        current = {name: trainer.team.to_local(own[name]) for name in self.average}
        moving = [name for name, value in current.items() if value.is_floating_point()]
        share = self.share(trainer)
        torch._foreach_lerp_([self.average[n] for n in moving], [current[n] for n in moving], share)
        for name in current.keys() - set(moving):
            self.average[name].copy_(current[name])

    def share(self, trainer: Trainer) -> float:
        """Of the newest weights."""
        return share_of_newest(self.decay, trainer.step)

    @contextlib.contextmanager
    def applied(self, model: nn.Module, team: Team = SINGLE_PROCESS) -> Iterator[None]:
        """Put the average in the model's place for a while."""
        state = model.state_dict()
        held = {name: team.to_local(state[name]) for name in self.average}
        own = {name: value.clone() for name, value in held.items()}
        copy(held, self.average)
        try:
            yield
        finally:
            copy(held, own)

    def saved(self, trainer: Trainer) -> dict[str, Tensor]:
        """What this process saves of the average."""
        own = trainer.model.state_dict(keep_vars=True)
        return {n: piece for name, value in self.average.items() for n, piece in saved(name, value, own[name], trainer.team).items()}

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None:
        self.loaded = tensors


VALIDATION = {"best": measured, "best_step": natural, "waited": natural, "latest": {str: measured}, "latest_step": natural}
"""What validation saves of itself."""


class Validation(Hook):
    """Measures the objective on held-out data with exact means; draws nothing from, and leaves nothing in, training."""

    name = "validation"

    def __init__(self, source: DataLoader, every: int, examples: int, batch: int, metric: str, goal: str, patience: int = 0):
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
        average = next((h for h in trainer.hooks if isinstance(h, EMA)), None)
        weights = average.applied(trainer.model, trainer.team) if average else contextlib.nullcontext()
        with weights, trainer.plan.tf32(), trainer.plan.autocast():
            given = (trainer.model, trainer.objective, self.source, self.examples, self.batch, trainer.team)
            self.latest = trainer.team.visit(evaluate, *given)
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

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None:
        for key, value in checked(plain, VALIDATION if plain else {}).items():
            if key in VALIDATION:
                setattr(self, key, value)


@torch.no_grad()
def evaluate(
    model: nn.Module, objective: Objective, source: DataLoader, examples: int, batch: int, team: Team = SINGLE_PROCESS
) -> dict[str, float]:
    """Exact means over the first `examples` of a source, in evaluation mode."""
    training = model.training
    model.eval()
    means = Means(objective)
    for first in range(0, examples, batch):
        start, count = team.local_batch(first, min(batch, examples - first))
        data = source.batch(start, max(count, 1))  # a process without a part does what the others do, and it counts for nothing
        counts = objective.counts(data)
        for index, turn in enumerate(objective.turns):
            found = Terms(*team.evaluate(validation_step, model, objective, data, turn.name, index == 0))
            means.add(turn.name, found if count else nothing(found), counts if count else zeros(counts))
    model.train(training)
    return means.read(team.all_reduce)


def validation_step(model: nn.Module, objective: Objective, data: Batch, turn: str, measured: bool) -> SumsAndMetrics:
    """What validation sums up of a batch."""
    terms = objective(model, data, turn)
    return terms.sums, {**terms.metrics, **(objective.measure(model, data) if measured else {})}


def zeros(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(value) for name, value in tensors.items()}


def nothing(terms: Terms) -> Terms:
    return Terms(zeros(terms.sums), zeros(terms.metrics))


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
            if trainer.team.world_size == 1:
                self.stop(trainer)

        with contextlib.suppress(ValueError):  # only the main thread may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, note)

    def stop(self, trainer: Trainer) -> None:
        if self.received is not None:
            trainer.stop_reason = f"received {signal.Signals(self.received).name}"

    def finish(self, trainer: Trainer) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)


class SignalSync(Hook):
    """Comes first: a signal that one process received stops all after the same step."""

    name = "agreement"

    def __init__(self, signals: Signals):
        self.signals = signals

    def after_step(self, trainer: Trainer) -> None:
        number = trainer.team.all_reduce_max(self.signals.received or 0)
        if number:
            self.signals.received = number
            self.signals.stop(trainer)
