"""Composes a recipe into a run: data, model, objective, trainer and hooks, in a folder that can be continued."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft import __version__, config, registry
from weft.data import tokenizers
from weft.data.base import Data, Source
from weft.errors import CapabilityError, ConfigError, WeftError
from weft.generation import answer, decode, grid
from weft.models.base import need
from weft.objectives.base import Objective
from weft.parallel import processes
from weft.planning import cost
from weft.recipes.base import Recipe, check
from weft.recipes.base import load as load_recipe
from weft.recipes.base import recipe as find_recipe
from weft.report import html, read, samples
from weft.report.read import recipe_of as recipe_of
from weft.training import checkpoint, execution, files
from weft.training.hooks import Agreement, Average, Hook, Signals, Validation, evaluate
from weft.training.keeping import Checkpoints
from weft.training.log import Log
from weft.training.settings import Train
from weft.training.team import ALONE, Team
from weft.training.trainer import Trainer

log = logging.getLogger("weft")
FREE_TO_CHANGE = ("train.steps", "parallel.")
"""Settings in which a continued run may differ from its beginning."""


@dataclass
class Run:
    """A trainer and what it was made of."""

    folder: Path
    recipe: Recipe
    data: Data
    trainer: Trainer
    signals: Signals
    size: int
    """Parameters of the whole model, of which this process may hold a part."""
    cost: dict[str, Any] = field(default_factory=dict)
    """FLOPs, MFU and energy, once it has ended."""

    @property
    def validation(self) -> Validation | None:
        return next((h for h in self.trainer.hooks if isinstance(h, Validation)), None)


def assemble(recipe: Recipe, folder: Path, init: str | None = None, extra: Sequence[Hook] = (), team: Team = ALONE) -> Run:
    """Build everything a recipe describes and, where the folder holds its run already, continue from there."""
    check(recipe)
    files.check_folder(folder)
    initial = checkpoint.find(init) if init else None
    data = recipe.data.build_with(read_tokenizer(initial))
    for line in data.problems.lines() if team.first else ():
        log.warning("data: %s", line)
    resolved = recipe.resolve(data.info)
    refuse_other_recipe(folder, resolved, init)
    model, objective = build(resolved)
    tokenizer = tokenizers.dump(data.tokenizer) if data.tokenizer else None
    if objective.needs:
        need(model, objective.needs)
    if initial:
        check_model(resolved, data, model, objective)
    check_metric(resolved, data, model, objective)
    if team.first:
        check_cuts(resolved.train, model, objective)
    if initial:
        load_initial(model, initial)
    if team.processes > 1:
        facts = {"recipe": config.to_dict(resolved), "data": data.info, "examples": len(data.train)}
        processes.compare(team, json.dumps(facts, default=str).encode(), tokenizer or b"")
        processes.refuse(model, objective, team)
    plan = execution.choose(resolved.train, model, objective, resolved.optim, team.processes, team.stages)
    size = sum(p.numel() for p in model.parameters())
    train = resolved.train
    source = Source(data.train, train.seed, plan.device)
    keeper = Checkpoints(folder, config.to_dict(resolved), tokenizer, train.save_every, train.keep)
    signals = Signals()
    hooks: list[Hook] = [Agreement(signals)] if team.processes > 1 else []
    hooks += [Average(train.ema)] if train.ema else []
    hooks += validating(data, resolved, plan.device)
    known = cost.promised(plan.device)
    share = cost.flops_of_draw(resolved, data, objective) / (known.peak * team.processes) if known and team.first else 0.0
    hooks += [Log(folder, train.log_every, share=share), *(extra if team.first else ()), keeper, signals]
    tokens = data.info.get("tokens", 1)
    trainer = Trainer(model, objective, source, train, resolved.optim, plan, hooks, tokens, team)  # type: ignore[arg-type]
    files.make_folder(folder)  # only now: a recipe that was refused leaves nothing behind
    keeper.restore(trainer)
    if team.first:
        write_description(folder, resolved, trainer, data, size, init)
    return Run(folder, resolved, data, trainer, signals, size)


def validating(data: Data, recipe: Recipe, device: torch.device) -> list[Hook]:
    """What validates a run; nothing where it asks for none or has no data for it."""
    train, goal = recipe.train, recipe.progress
    if data.validation is None or not train.eval_every:
        if train.patience:
            log.warning("--train.patience %d has no effect: nothing is validated, so the run does not stop early", train.patience)
        return []
    held = Source(data.validation, train.seed, device, shuffle=False)
    at_once = max(train.micro or train.batch, 64)
    return [Validation(held, train.eval_every, train.eval_examples, at_once, goal.metric, goal.goal, train.patience)]


def check_model(recipe: Recipe, data: Data, model: nn.Module, objective: Objective) -> None:
    """Refuse a model to start from that is of another kind than the recipe's own, where it cannot be shown a few examples."""
    own = registry.name_of(type(find_recipe(recipe.name).model)) if recipe.name in registry.RECIPES else None
    given = registry.name_of(type(recipe.model))
    if own in (None, given):
        return
    source = Source(data.train, recipe.train.seed, torch.device("cpu"), shuffle=False)
    try:
        evaluate(model, objective, source, examples=8, batch=8)
    except WeftError:
        raise
    except Exception as error:  # whatever it is that does not fit
        raise CapabilityError(
            f"--init: {recipe.name} is for models such as {own}, and cannot train this {given}; name another, or leave it out"
        ) from error


def check_metric(recipe: Recipe, data: Data, model: nn.Module, objective: Objective) -> None:
    """Refuse a progress metric that validation does not report, as told by that of one example; what has one turn reports a loss."""
    wanted = recipe.progress.metric
    if data.validation is None or not recipe.train.eval_every or (wanted == "loss" and len(objective.turns) == 1):
        return
    held = Source(data.validation, recipe.train.seed, torch.device("cpu"), shuffle=False)
    reported = evaluate(model, objective, held, examples=1, batch=1)
    if wanted not in reported:
        raise ConfigError(f"--progress.metric: validation reports no {wanted!r}{registry.nearest(wanted, list(reported))}")


def check_cuts(train: Train, model: nn.Module, objective: Objective) -> None:
    """Say where micro-batches are not the batch they are cut from, and refuse one of a single example where its spread is asked for."""
    why, micro = processes.indivisible(model, objective), train.micro or train.batch
    if why and micro < train.batch:
        log.warning("--train.micro %d: %s without changing its gradient; each micro-batch is taken for a batch of its own", micro, why)
    sizes = range(min(train.ramp[0], train.batch) if train.ramp[1] else train.batch, train.batch + 1)
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
    began = read.written(folder / "environment.json").get("init", init)
    if os.path.abspath(began or "") != os.path.abspath(init or ""):
        lines.append(f"init: {json.dumps(began)} -> {json.dumps(init)}")
    if lines:
        raise ConfigError(
            f"{folder} holds a run of another recipe; continue it with its own settings, or use another folder with --out. "
            "It differs in:\n  " + "\n  ".join(lines)
        )


def adopt(recipe: Recipe, init: str) -> Recipe:
    """The recipe for the model of a run or checkpoint, whatever model it was written for, and shown what it is used to."""
    found = load_recipe(checkpoint.find(init).json("recipe.json"))
    model, data = found.model, recipe.data
    if type(model) is type(recipe.model):
        model = dataclasses.replace(model, **{name: getattr(recipe.model, name) for name in model.of_task})
    if type(data) is type(found.data):
        data = dataclasses.replace(data, **{name: getattr(found.data, name) for name in data.of_model})
    return dataclasses.replace(recipe, model=model, data=data)


def load_initial(model: nn.Module, found: checkpoint.Checkpoint) -> None:
    """Weights of a checkpoint into a model; the average, where it has one. The head of another task, and new tokens, start afresh."""
    tensors = found.tensors("ema.safetensors" if "ema.safetensors" in found.files else "model.safetensors")
    mine: Any = model.config
    theirs: Any = load_recipe(found.json("recipe.json")).model
    own = model.state_dict()
    if any(getattr(mine, name) != getattr(theirs, name) for name in mine.of_task):
        parts: tuple[str, ...] = model.task_parts  # type: ignore[assignment]
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(parts)}
        tensors |= {name: own[name] for name in own if name.startswith(parts)}
    tables = getattr(model, "token_tables", ())
    if tables and getattr(theirs, "vocabulary", mine.vocabulary) < mine.vocabulary:
        tensors |= {name: lengthened(tensors[name], own[name]) for name in tables if name in tensors}
    checkpoint.load_weights(model, tensors, str(found.path))


def lengthened(old: Tensor, new: Tensor) -> Tensor:
    """A table with the rows of an old one, then those that a new and longer one has beyond; tables of another width stay as they are."""
    return torch.cat([old, new[len(old) :]]) if old.shape[1:] == new.shape[1:] else old


def read_tokenizer(found: checkpoint.Checkpoint | None) -> Any:
    return tokenizers.load(found.files["tokenizer.json"]) if found and "tokenizer.json" in found.files else None


def write_description(folder: Path, recipe: Recipe, trainer: Trainer, data: Data, size: int, init: str | None) -> None:
    """recipe.json, and what else one wants to know of a run afterwards; says where a run goes on with other data."""
    facts = {
        "parameters": size,
        "init": init,
        "plan": trainer.plan.lines(),
        "data": data.info,
        "problems": data.problems.lines(),
        "shares": data.train.shares(trainer.end, recipe.train.seed),
        "examples": trainer.source.mark(),
        "versions": {"weft": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "machine": machine(),
    }
    if trainer.step and read.written(folder / "environment.json").get("examples", facts["examples"]) != facts["examples"]:
        log.warning("%s: the data have changed since the run began; it goes on with what they are now (--out begins another)", folder)
    with files.writing(folder):
        files.replace(folder / "recipe.json", checkpoint.encode(config.to_dict(recipe)))
        files.replace(folder / "environment.json", checkpoint.encode(facts))


def machine() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {torch.get_num_threads()} threads"


def processor() -> str:
    """What a processor calls itself, where Linux tells it; with its family and model, as under a hypervisor many have one name."""
    about = Path("/proc/cpuinfo")
    first = about.read_text().partition("\n\n")[0] if about.is_file() else ""
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "model name" not in told:
        return platform.processor() or platform.machine()
    number = f", family {told['cpu family']} model {told['model']}" if "cpu family" in told and "model" in told else ""
    return told["model name"] + number


def default_folder(recipe: Recipe) -> Path:
    return Path("runs") / (recipe.name.replace("/", "-") or "unnamed")


def train(recipe: Recipe | str, out: str | Path | None = None, init: str | None = None, extra: Sequence[Hook] = ()) -> Run:
    """Train a recipe, or the one of a name, in a folder; the same call again continues where it stopped."""
    recipe = find_recipe(recipe) if isinstance(recipe, str) else recipe
    with processes.joined(recipe.parallel, recipe.train) as team:
        run = assemble(recipe, Path(out) if out else default_folder(recipe), init, extra, team)
        fit(run)
    return run


def fit(run: Run) -> None:
    """Train to the end and write the run's report, unless a signal asks for haste."""
    run.trainer.fit()
    if run.signals.received is None and run.trainer.team.first:
        try:
            run.cost = write_cost(run)
            html.write(run.folder, samples.draw(load(run.folder)))
        except Exception as error:  # a page must not spoil a finished run
            log.warning("%s: the report could not be written (%s)", run.folder, error)


def write_cost(run: Run) -> dict[str, Any]:
    """cost.json: FLOPs of the whole run, their share of the peak at its usual speed, and its energy."""
    trainer, told = run.trainer, read.read(run.folder)
    rates = sorted(rate for _, rate in told.points("train", "per_second")) or [0.0]
    flops = cost.flops_of_draw(run.recipe, run.data, trainer.objective)
    machine = cost.machine(trainer.plan.device, trainer.team.processes, trainer.plan.precision)
    usual = rates[len(rates) // 2] / trainer.tokens
    found = cost.facts(flops, trainer.cursor, usual, told.seconds, machine, trainer.team.processes)
    files.replace(run.folder / "cost.json", checkpoint.encode(found))
    return found


@dataclass
class Loaded:
    """A trained model with what it needs to be used."""

    path: Path
    recipe: Recipe
    model: nn.Module
    tokenizer: Any
    metrics: dict[str, Any]
    chat_template: str = ""
    """How messages become a prompt, where the model came with a template (in jinja2's language)."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return self.model(*arguments, **settings)

    def generate(self, prompt: str = "", **settings: Any) -> decode.Generation:
        """One continuation of a prompt; max_new_tokens, temperature, top_k, top_p, seed and stop as in generation.decode."""
        return decode.generate(self.model, self.tokenizer, prompt, n=1, **settings)[0]

    def sample(self, n: int = 64, seed: int = 0, label: int | None = None) -> Tensor:
        """n examples (N, ...) of a model that draws them, of one class where a label is given: those of `weft sample`."""
        return grid.draw(self.model, n, seed, label)

    def answer(self, text: str, **settings: Any) -> list[answer.Answered]:
        """The best answers of a model that turns one text into another, best first; settings as in generation.answer."""
        return answer.best_answers(self.model, self.tokenizer, [text], **settings)[0]


def load(name: str | Path, device: str = "auto") -> Loaded:
    """The model of a run (its best checkpoint if it was validated, else its last), in evaluation mode."""
    found = checkpoint.find(name)
    recipe = load_recipe(found.json("recipe.json"))
    model = recipe.model.build()
    load_initial(model, found)
    model = model.to(execution.pick_device(device)).eval()
    template = found.files.get("chat_template.jinja", b"").decode()
    return Loaded(found.path, recipe, model, read_tokenizer(found), found.json("metrics.json"), template)
