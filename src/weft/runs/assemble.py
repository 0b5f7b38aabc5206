"""Composes a recipe into a run: data, model, objective, trainer and hooks."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weft.core import config, registry
from weft.core.errors import ConfigError, DataError, WeftError
from weft.core.untrusted import kept
from weft.data.base import Data, DataLoader
from weft.data.text.lanes import check_lanes
from weft.data.tokenizers import base as tokenizers
from weft.models.base import need
from weft.objectives.base import Objective
from weft.planning import cost
from weft.recipes.base import Recipe, check, check_optimisers
from weft.recipes.base import load as load_recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs import embedding, kinds, record
from weft.runs.environment import keep_threads, write_description
from weft.runs.load import load_initial, read_tokenizer, settings_of, usable
from weft.runs.record import recipe_of
from weft.runs.run import Run
from weft.training import execution
from weft.training.averaging import PolyakAverage
from weft.training.checkpoint import checkpoint, files
from weft.training.checkpoint.hook import Checkpoints
from weft.training.hooks import EMA, Hook, Signals, SignalSync, Validation, evaluate
from weft.training.log import Log
from weft.training.loggers.base import Logger
from weft.training.optimizer.settings import ASGD
from weft.training.parallel import processes
from weft.training.parallel.team import SINGLE_PROCESS, Team
from weft.training.settings import Train
from weft.training.trainer import Trainer

log = logging.getLogger("weft")
FREE_TO_CHANGE = ("train.steps", "train.log:", "parallel.")
"""Settings in which a continued run may differ from its beginning."""


def assemble(recipe: Recipe, folder: Path, init: str | None = None, extra: Sequence[Hook] = (), team: Team = SINGLE_PROCESS) -> Run:
    """Build everything a recipe describes and, where the folder holds its run already, continue from there."""
    check(recipe)
    files.check_folder(folder)
    loggers: list[Logger] = [registry.find("loggers", name)() for name in recipe.train.log if name != "none"]
    initial = checkpoint.find_usable(init, usable) if init else None
    began = load_recipe(initial.json("recipe.json")) if initial else None
    with kinds.starting(recipe, began):
        data = recipe.data.build_with(read_tokenizer(initial))
    for line in data.problems.lines() if team.first else ():
        log.warning("data: %s", line)
    refuse_too_little(recipe, data.info)
    with kinds.starting(recipe, began):
        resolved = recipe.resolve(data.info)
    refuse_other_recipe(folder, resolved, init)
    model, objective = build(resolved)
    tokenizer = tokenizers.dump(data.tokenizer) if data.tokenizer else None
    if objective.needs:
        with kinds.starting(recipe, began):
            need(model, objective.needs)
    if began:
        check_model(resolved, data, model, objective, began)
    check_metric(resolved, data, model, objective)
    if team.first:
        check_cuts(resolved.train, model, objective)
    check_lanes(data.info.get("lanes", 0), resolved.train.batch)
    if initial:
        load_initial(model, initial)
    if resolved.train.embedding:
        line = embedding.initialise(model, data.tokenizer, resolved.train.embedding, resolved.train.freeze_embedding)
        if team.first:
            log.warning("embedding: %s", line)
    elif resolved.train.freeze_embedding:
        raise ConfigError("--train.freeze_embedding needs --train.embedding, whose vectors it leaves as they are")
    if team.world_size > 1:
        facts = {"recipe": config.to_dict(resolved), "data": data.info, "examples": len(data.train)}
        processes.compare(team, json.dumps(facts, default=str).encode(), tokenizer or b"")
        processes.refuse(model, objective, team)
    plan = execution.choose(resolved.train, model, objective, resolved.optim, team.world_size, team.stages)
    size = sum(p.numel() for p in model.parameters())
    train = resolved.train
    source = DataLoader(data.train, train.seed, plan.device)
    keeper = Checkpoints(folder, config.to_dict(resolved), tokenizer, train.save_every, train.keep_checkpoints)
    signals = Signals()
    hooks: list[Hook] = [SignalSync(signals)] if team.world_size > 1 else []
    hooks += averaging(resolved)
    hooks += validating(data, resolved, plan.device)
    known = cost.promised(plan.device)
    share = cost.flops_of_draw(resolved, data, objective) / (known.peak * team.world_size) if known and team.first else 0.0
    hooks += [Log(folder, train.log_every, loggers, share, config.to_dict(resolved)), *(extra if team.first else ()), keeper, signals]
    tokens = data.info.get("tokens", 1)
    trainer = Trainer(model, objective, source, train, resolved.optim, plan, hooks, tokens, team)  # type: ignore[arg-type]
    files.make_folder(folder)  # only now: a recipe that was refused leaves nothing behind
    keeper.restore(trainer)
    if trainer.step and plan.device.type == "cpu":
        keep_threads(folder, keeper.threads)
    if team.first:
        write_description(folder, resolved, trainer, data, size, init)
    return Run(folder, resolved, data, trainer, signals, size)


def refuse_too_little(recipe: Recipe, info: dict[str, Any]) -> None:
    """Refuse data that there is nothing to learn from: one example, or one class to tell apart."""
    path = getattr(recipe.data, "path", "") or registry.name_of(type(recipe.data))
    names, aim = info.get("class_names") or [], registry.name_of(type(recipe.objective))
    tells = aim in ("classification", "finetuning", "token_classification")
    if len(names) == 1 and tells:
        raise DataError(
            f"{path}: all its examples are of one class, {names[0]!r}, so there is nothing to tell apart; give it at least two, or name "
            "another column or folder"
        )
    if info.get("training_examples", info.get("training_sentences", 2)) == 1:
        raise DataError(f"{path}: holds one example to train on; give it more, at least two and better hundreds")


def averaging(recipe: Recipe) -> list[Hook]:
    """What averages the weights of a run; nothing where it asks for none."""
    if recipe.train.ema:
        return [EMA(recipe.train.ema)]
    averaged = [one for one in check_optimisers(recipe.optim) if isinstance(one, ASGD)]
    return [PolyakAverage(averaged[0].average_from, averaged[0].nonmono)] if averaged else []


def validating(data: Data, recipe: Recipe, device: torch.device) -> list[Hook]:
    """What validates a run; nothing where it asks for none or has no data for it."""
    train, goal = recipe.train, recipe.progress
    if data.validation is None or not train.eval_every:
        if train.patience:
            log.warning("--train.patience %d has no effect: nothing is validated, so the run does not stop early", train.patience)
        return []
    held = DataLoader(data.validation, train.seed, device, shuffle=False)
    at_once = max(train.micro_batch or train.batch, 64)
    return [Validation(held, train.eval_every, train.eval_examples, at_once, goal.metric, goal.goal, train.patience)]


def check_model(recipe: Recipe, data: Data, model: nn.Module, objective: Objective, began: Recipe) -> None:
    """Refuse a model to start from that is of another kind than the recipe's own, where it cannot be shown a few examples."""
    own = registry.name_of(type(find_recipe(recipe.name).model)) if recipe.name in registry.RECIPES else None
    given = registry.name_of(type(recipe.model))
    if own in (None, given):
        return
    source = DataLoader(data.train, recipe.train.seed, torch.device("cpu"), shuffle=False)
    try:
        evaluate(model, objective, source, examples=8, batch=8)
    except WeftError:
        raise
    except Exception as error:  # whatever it is that does not fit
        raise kinds.refusal(recipe, began, f"that is for models such as {own}, and this is a {given}") from error


def check_metric(recipe: Recipe, data: Data, model: nn.Module, objective: Objective) -> None:
    """Refuse a progress metric that validation does not report, as told by that of one example; what has one turn reports a loss."""
    wanted = recipe.progress.metric
    if data.validation is None or not recipe.train.eval_every or (wanted == "loss" and len(objective.turns) == 1):
        return
    held = DataLoader(data.validation, recipe.train.seed, torch.device("cpu"), shuffle=False)
    reported = evaluate(model, objective, held, examples=1, batch=1)
    if wanted not in reported:
        raise ConfigError(f"--progress.metric: validation reports no {wanted!r}{registry.nearest(wanted, list(reported))}")


def check_cuts(train: Train, model: nn.Module, objective: Objective) -> None:
    """Say where micro-batches are not the batch they are cut from, and refuse one of a single example where its spread is asked for."""
    why, micro = processes.indivisible(model, objective), train.micro_batch or train.batch
    if why and micro < train.batch:
        log.warning(
            "--train.micro_batch %d: %s without changing its gradient; each micro-batch is taken for a batch of its own", micro, why
        )
    sizes = range(min(train.batch_ramp[0], train.batch) if train.batch_ramp[1] else train.batch, train.batch + 1)
    norm = next((name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm1d)), None)
    if norm and (micro == 1 or any(size % micro == 1 for size in sizes)):
        raise ConfigError(
            f"{norm} normalises by the spread of a batch, and a single example has none: --train.batch {train.batch} in micro-batches of "
            f"{micro} leaves one alone; change one of them"
        )


def build(recipe: Recipe) -> tuple[nn.Module, Objective]:
    """Model and objective of a resolved recipe, initialised from its seed."""
    torch.manual_seed(recipe.train.seed)
    return recipe.model.build(), recipe.objective.build()


def refuse_other_recipe(folder: Path, recipe: Recipe, init: str | None) -> None:
    """A folder holds one run: a recipe that differs in more than its length, or another start, is an error that shows the difference."""
    old = recipe_of(folder)
    if old is None:
        return
    with contextlib.suppress(ConfigError):  # a recipe that cannot be read is shown as it is
        old = config.to_dict(load_recipe(old))  # settings that did not exist when it was written have their defaults
    lines = [line for line in config.difference(old, config.to_dict(recipe)) if not line.startswith(FREE_TO_CHANGE)]
    began = kept(record.written(folder / "environment.json"), record.ENVIRONMENT).get("init", init)
    if os.path.abspath(began or "") != os.path.abspath(init or ""):
        lines.append(f"init: {json.dumps(began)} -> {json.dumps(init)}")
    if lines:
        raise ConfigError(
            f"{folder} holds a run of another recipe; continue it with its own settings, or use another folder with --out. "
            "It differs in:\n  " + "\n  ".join(lines)
        )


def initial_recipe(init: str) -> Recipe:
    """The recipe of a run or checkpoint to start from."""
    return checkpoint.find_usable(init, settings_of)


def adopt(recipe: Recipe, init: str | Recipe) -> Recipe:
    """The recipe for the model of a run or checkpoint, whatever model it was written for, and shown what it is used to."""
    found = initial_recipe(init) if isinstance(init, str) else init
    model, data = found.model, recipe.data
    if type(model) is type(recipe.model):
        model = dataclasses.replace(model, **{name: getattr(recipe.model, name) for name in model.of_task})
    if type(data) is type(found.data):
        data = dataclasses.replace(data, **{name: getattr(found.data, name) for name in data.model_preprocessing})
    return dataclasses.replace(recipe, model=model, data=data)
