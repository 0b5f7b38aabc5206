"""The one training loop. It knows no model, no data set and no particular objective.

A step takes the objective's turns in order. Each turn updates only its own parameters from exact averages: counts are
taken over all micro-batches before any backward pass, so cutting a batch differently cannot change the gradient.
Everything random is a function of (seed, step, turn), so a continued run is the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError, NonFiniteError
from weft.data.base import Batch, DataLoader
from weft.objectives.base import Counts, Objective, Terms, Turn
from weft.training import execution, own_updates
from weft.training.captured import Captured
from weft.training.checkpoint.tensors import below
from weft.training.execution import ExecutionPlan
from weft.training.hooks import Hook
from weft.training.means import Means
from weft.training.optimizer.bf16_weights import BF16Weights
from weft.training.optimizer.settings import OptimConfig, copies_itself
from weft.training.optimizer.updater import Updater
from weft.training.parallel.team import SINGLE_PROCESS, Team
from weft.training.settings import Train

TurnFunction = Callable[[Batch, Counts], tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]]


def sum_of(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum()


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        source: DataLoader,
        settings: Train,
        optim: OptimConfig | dict[str, OptimConfig],
        plan: ExecutionPlan,
        hooks: Sequence[Hook] = (),
        tokens: int = 1,
        team: Team | None = None,
    ):
        execution.apply(plan, model, objective)
        objective.bind(model)
        self.model, self.objective = model.to(plan.device), objective.to(plan.device)
        self.source, self.settings, self.plan, self.hooks, self.tokens = source, settings, plan, list(hooks), tokens
        self.team = team or SINGLE_PROCESS
        self.team.prepare(self.model, self.objective)
        self.step, self.cursor = 0, 0
        self.stop_reason = ""
        self.means = Means(objective)
        self.bf16_weights = BF16Weights(self.model) if plan.fused_casts else None
        self.updaters = {turn.name: self._updater(turn, optim) for turn in objective.turns}
        self.examples = self._compiled(self._examples) if plan.graphs else self._examples
        self.functions = {turn.name: self._compiled(self._function(turn)) for turn in objective.turns}
        self.updates = {turn.name: self._update(turn) for turn in objective.turns}

    # -- a step ---------------------------------------------------------------------------------------------------------

    def run_step(self) -> None:
        """One step: each turn updates only its own parameters, from exact averages."""
        if not self.model.training:
            self.model.train()
        self.step += 1
        cuts: list[tuple[int, int]] = []
        for index, turn in enumerate(self.objective.turns):
            if turn.fresh or not cuts:
                cuts = self.cut()
            self.updaters[turn.name].set_rate(*self.position(turn))
            self.freeze_all_but(turn)
            random.seed_torch(random.seed_of(self.settings.seed, "dropout", self.step, index, *self.team.seed_suffix), self.plan.device)
            with self.plan.tf32():
                self.updates[turn.name]([self.source.draw(first, count, index) for first, count in cuts])

    def cut(self) -> list[tuple[int, int]]:
        """This process's draws of the next batch as micro-batches: (first, count)."""
        size = self.batch_size(self.cursor)
        cuts = self.team.micro_batches(self.cursor, size, self.settings.micro_batch)
        self.cursor += size
        return cuts

    def batch_size(self, cursor: int) -> int:
        """Examples in the batch that starts at draw `cursor`."""
        start, over = self.settings.batch_ramp
        if not over or cursor >= over:
            return self.settings.batch
        return start + (self.settings.batch - start) * cursor // over

    def freeze_all_but(self, turn: Turn) -> None:
        if len(self.objective.turns) > 1:
            mine = {id(p) for p in self.updaters[turn.name].parameters}
            for parameter in self.model.parameters():
                parameter.requires_grad_(id(parameter) in mine)

    def turn(self, turn: Turn, drawn: list[Batch]) -> None:
        """All device work of one turn; captured as a graph where the plan says so."""
        updater = self.updaters[turn.name]
        if self.objective.updates_model:
            own_updates.run(self, turn, drawn)
            return
        micro = [self.examples(batch) for batch in drawn]
        updater.zero_grad()
        counts = self.team.all_reduce({name: sum_of([own[name] for _, own in micro]) for name in micro[0][1]})
        found = self.team.forward_backward(self.functions[turn.name], [batch for batch, _ in micro], counts)
        with self.bf16_weights.in_place() if self.bf16_weights else nullcontext():
            for (sums, metrics), (_, own) in zip(found, micro, strict=True):
                self.means.add(turn.name, Terms(sums, metrics), own)
        updater.step()
        if type(self.objective).after_update is not Objective.after_update:
            with torch.no_grad():
                self.team.visit(self.objective.after_update, self.model, turn.name)

    def total(self, sums: dict[str, Tensor], counts: dict[str, Tensor]) -> Tensor:
        """Sum over terms of weight * sum / count; a term nobody counted is nothing."""
        weights = self.objective.weights
        parts = [weights.get(name, 1.0) * value / counts[name].clamp(min=1e-12) for name, value in sums.items()]
        return torch.stack(parts).sum()

    # -- a run ----------------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Train to the last step, or until a hook stops the run."""
        started: list[Hook] = []
        if self.bf16_weights:
            self.bf16_weights.refresh()
        try:
            for hook in reversed(self.hooks):  # the last ones hold the folder and the signals, and let go of them last
                hook.start(self)
                started.insert(0, hook)
            while self.step < self.settings.steps and not self.stop_reason:
                self.run_step()
                if (not self.plan.graphs or self.step % self.settings.log_every == 0) and self.rolled_back():
                    continue
                for hook in self.hooks:
                    hook.after_step(self)
            for hook in self.hooks:
                hook.complete(self)
        finally:
            for hook in started:
                hook.finish(self)

    def position(self, turn: Turn) -> tuple[float, float]:
        """Where the run is and where it ends, in the unit of the turn's schedule."""
        if self.updaters[turn.name].config.schedule.unit == "steps":
            return self.step, self.settings.steps
        return self.cursor * self.tokens, self.end * self.tokens

    @cached_property
    def end(self) -> int:
        """Draws of the whole run."""
        batches = self.settings.steps * (sum(turn.fresh for turn in self.objective.turns[1:]) + 1)
        cursor = 0
        while batches and cursor < self.settings.batch_ramp[1]:
            cursor += self.batch_size(cursor)
            batches -= 1
        return cursor + batches * self.settings.batch

    def rolled_back(self) -> bool:
        """Whether a refused update sent the run back to a checkpoint; raises where it should stop. This waits for the device."""
        policy = self.settings.nonfinite
        if policy == "skip" or not any(float(updater.refused) for updater in self.updaters.values()):
            return False
        if policy == "rollback" and (keeper := next((h for h in self.hooks if hasattr(h, "roll_back")), None)):
            keeper.roll_back(self)
            return True
        raise NonFiniteError(
            f"step {self.step}: a gradient was not finite; the update was not made. Lower the learning rate, "
            "clip with --optim.clip_norm 1, or go on with --train.nonfinite skip or rollback"
        )

    # -- parts ----------------------------------------------------------------------------------------------------------

    def _updater(self, turn: Turn, optim: OptimConfig | dict[str, OptimConfig]) -> Updater:
        if isinstance(optim, dict) and turn.name not in optim:
            raise ConfigError(f"optim: no optimiser for the turn {turn.name!r}; it has {', '.join(optim)}")
        config = optim[turn.name] if isinstance(optim, dict) else optim
        own_updates.check(self.objective, config)
        modules = [(name, self.model.get_submodule(name)) for name in turn.modules]
        others = {id(p) for t in self.objective.turns if t is not turn for m in t.modules for p in self.model.get_submodule(m).parameters()}
        alone = not any(id(p) in others for _, module in modules for p in module.parameters())
        if self.bf16_weights and not copies_itself(config):
            without = "l1, l2, clip_value, scale_parameter and eps_inside_sqrt"
            raise ConfigError(f"--train.fused_casts on needs Adam or AdamW without {without}; leave it away")
        bf16_weights = self.bf16_weights.copies if self.bf16_weights else None
        return Updater(config, modules, halt=self.settings.nonfinite != "skip", alone=alone, team=self.team, bf16_weights=bf16_weights)

    def _examples(self, drawn: Batch) -> tuple[Batch, Counts]:
        batch = self.source.examples(drawn)
        return batch, self.objective.counts(batch)

    def _function(self, turn: Turn) -> TurnFunction:
        def function(batch: Batch, counts: Counts) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
            with self.plan.autocast():
                terms = self.objective(self.model, batch, turn.name)
            return self.total(terms.sums, counts), terms.sums, terms.metrics

        return function

    def _compiled(self, function: Any) -> Any:
        """The function, compiled where the plan says so. Made for the shapes it is given: nothing here changes them often."""
        options: Any = execution.COMPILER if self.plan.device.type == "cuda" else None
        return torch.compile(function, dynamic=False, options=options) if self.plan.compile else function

    def _update(self, turn: Turn) -> Callable[[list[Batch]], None]:
        def update(micro: list[Batch]) -> None:
            self.turn(turn, micro)

        return Captured(update) if self.plan.graphs else update

    # -- state ----------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the weights that the rest of the run depends on, as tensors (those that this process saves) and as JSON."""
        tensors = {f"objective/{name}": value for name, value in self.objective.state_dict().items()}
        tensors |= {f"means/{name}": value for name, value in self.team.all_reduce(self.means.state_tensors()).items()}
        tensors = tensors if self.team.is_saver() else {}
        refused = {turn: float(updater.refused) for turn, updater in self.updaters.items()}
        plain: dict[str, Any] = {"step": self.step, "cursor": self.cursor, "refused": refused, "hooks": {}}
        for turn, updater in self.updaters.items():
            tensors |= {f"optim/{turn}/{name}": value for name, value in updater.state_tensors().items()}
        for hook in self.hooks:
            hook_tensors, plain["hooks"][hook.name] = hook.state()
            tensors |= {f"hooks/{hook.name}/{name}": value for name, value in hook_tensors.items() if self.team.is_saver()}
        return tensors, plain

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None:
        self.step, self.cursor = plain["step"], plain["cursor"]
        if self.bf16_weights:
            self.bf16_weights.refresh()
        self.objective.load_state_dict(dict(below(tensors, "objective/")))
        self.means.load_state_tensors(below(tensors, "means/"), self.plan.device)
        if self.team.dp_rank:  # the first has the sums of all
            self.means.clear()
        for turn, updater in self.updaters.items():
            updater.load_state_tensors(below(tensors, f"optim/{turn}/"))
            updater.refused.fill_(plain.get("refused", {}).get(turn, 0.0))
        for hook in self.hooks:
            hook.load_state(below(tensors, f"hooks/{hook.name}/"), plain["hooks"].get(hook.name, {}))
