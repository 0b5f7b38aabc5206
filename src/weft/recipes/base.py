"""A recipe: the complete, printable description of a training run. It holds settings only, never modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.core import config, html, registry, renamed
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataConfig
from weft.models.base import ModelConfig
from weft.objectives.base import ObjectiveConfig
from weft.training.optimizer.settings import OptimConfig
from weft.training.settings import Parallel, Train

ROOMY = ("vocabulary", "context", "classes")
"""Facts of the data of which a model may be built for more."""
GOALS = {
    **dict.fromkeys(("loss", "perplexity", "bits_per_byte", "bits_per_dim", "error", "rmse", "mae"), "min"),
    **dict.fromkeys(("accuracy", "f1", "matthews", "pearson", "r2", "token_bleu"), "max"),
}
"""What is better of metrics of which nobody wants the other."""


@dataclass(frozen=True, kw_only=True)
class Progress(Config):
    """The validation number that says whether a run gets better."""

    metric: str = "loss"
    """Its name in the validation report."""
    goal: Literal["min", "max"] = "min"
    """Whether smaller or larger is better."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe(Config):
    name: str = ""
    """Registry name it was made from."""
    data: DataConfig
    model: ModelConfig
    objective: ObjectiveConfig
    optim: object
    """One optimiser's settings, or a mapping from turn to settings."""
    train: Train = field(default_factory=Train)
    progress: Progress = field(default_factory=Progress)
    parallel: Parallel = field(default_factory=Parallel)

    def resolve(self, info: dict[str, Any]) -> Recipe:
        """Fill every model and objective field that is empty (0) and named like a fact of the data."""
        model = _grow(_fill(self.model, info), info)
        _refuse_longer(model, self.data, info)
        resolved = dataclasses.replace(self, model=model, objective=_fill(self.objective, info))
        _refuse_misfits("model", resolved.model, info)
        _refuse_misfits("objective", resolved.objective, info)
        return resolved

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {kind}" for name, kind, _ in self._parts() if kind)
        return f"Recipe({self.name or 'unnamed'}: {parts}; {self.train.steps:,} steps of {self.train.batch})"

    def _repr_html_(self) -> str:
        return html.pairs(self.name or "a recipe", [(f"{name}: {kind}".rstrip(": "), said) for name, kind, said in self._parts()])

    def _parts(self) -> list[tuple[str, str, str]]:
        """Each part with its kind, and its settings in one line."""
        found = []
        for name, part in config.to_dict(self).items():
            if isinstance(part, dict):
                settings = {key: value for key, value in part.items() if key != "type"}
                found.append((name, str(part.get("type", "")), ", ".join(f"{key} {value}" for key, value in settings.items())))
        return found


def _fill(part: Any, info: dict[str, Any]) -> Any:
    held = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    empty = [name for name, value in held.items() if value in (0, 0.0, ()) and not isinstance(value, bool)]
    return dataclasses.replace(part, **{name: info[name] for name in empty if name in info})


def _grow(model: Any, info: dict[str, Any]) -> Any:
    """A model that has all tokens of the data but those that the data adds, as finetuning adds special tokens, gets these too."""
    has, wanted = getattr(model, "vocabulary", 0), info.get("vocabulary", 0)
    return dataclasses.replace(model, vocabulary=wanted) if wanted - info.get("added_tokens", 0) <= has < wanted else model


def _refuse_longer(model: Any, data: DataConfig, info: dict[str, Any]) -> None:
    """A model that was trained with a context keeps it, so it is the data that must be made shorter."""
    has, wanted = getattr(model, "context", 0), info.get("context", 0)
    flag = "context" if hasattr(data, "context") else "max_length"
    most = getattr(data, flag, 0) - (wanted - has)
    if 0 < has < wanted and most > 0:
        raise ConfigError(
            f"the model has a context of {has} tokens, but --data.{flag} {getattr(data, flag)} makes sequences of up to {wanted}; lower it "
            f"to {most}, or take a model with a longer context"
        )


def _refuse_misfits(place: str, part: Any, info: dict[str, Any]) -> None:
    """A part that was told its sizes must have room for what the data has, and the same shape; measured facts are its own affair."""
    for field_ in dataclasses.fields(part):
        mine, given = getattr(part, field_.name), info.get(field_.name)
        if given is None or isinstance(given, float) or mine == given:
            continue
        if field_.name not in ROOMY or mine < given:
            raise ConfigError(f"--{place}.{field_.name} is {mine}, but the data has {given}; leave it out to take it from the data")


def check(recipe: Recipe) -> None:
    """Refuse settings that cannot work, before anything is read or built."""
    optims = check_optimisers(recipe.optim)
    for part in (recipe.data, recipe.model, recipe.objective, *optims):
        if registry.name_of(type(part)) is None:
            kind = f"{type(part).__module__}:{type(part).__qualname__}"
            raise ConfigError(f"{kind} has no registry name, so no checkpoint could name it; give it one with registry.add()")
    mix, aim = getattr(recipe.data, "mixup", 0), registry.name_of(type(recipe.objective))
    if mix and not recipe.objective.mixes:
        raise ConfigError(f"--data.mixup {mix}: images of two classes are for the objective classification, not for {aim}; leave it out")
    wanted, goal = recipe.progress.metric, recipe.progress.goal
    if GOALS.get(wanted, goal) != goal:
        raise ConfigError(f"--progress.goal {goal} would keep the worst {wanted}; say --progress.goal {GOALS[wanted]} with it")
    check_training(recipe.train)


def check_optimisers(optim: Any) -> list[OptimConfig]:
    """The optimisers of a recipe, one or one for each turn."""
    places = {f"optim.{turn}": part for turn, part in optim.items()} if isinstance(optim, dict) else {"optim": optim}
    for place, part in places.items():
        if not isinstance(part, OptimConfig):
            raise ConfigError(f"--{place}: {type(part).__name__} is not an optimiser")
        part.check(place)
    return list(places.values())


def check_training(train: Train) -> None:
    """Refuse lengths, sizes and shares that cannot be."""
    if not abs(train.seed) < 1 << 63:
        raise ConfigError(f"--train.seed must fit 64 bits, not {train.seed}")
    for name in ("steps", "batch", "log_every", "keep_checkpoints"):
        if getattr(train, name) < 1:
            raise ConfigError(f"--train.{name} must be at least 1, not {getattr(train, name)}")
    for name in ("micro_batch", "eval_every", "eval_examples", "save_every", "patience"):
        if getattr(train, name) < 0:
            raise ConfigError(f"--train.{name} must not be negative, not {getattr(train, name)}")
    start, over = train.batch_ramp
    if over < 0 or (over and not 1 <= start <= train.batch):
        raise ConfigError(f"--train.batch_ramp must start between 1 and --train.batch {train.batch} examples, not {start} {over}")
    if not 0.0 <= train.ema < 1.0:
        raise ConfigError(f"--train.ema must be at least 0 and below 1, not {train.ema}")


def recipe(name: str, changes: dict[str, Any] | None = None) -> Recipe:
    """A registered recipe, with dotted names changed: `recipe("gpt/text", {"model.width": 512})`."""
    make: Callable[[], Recipe] = registry.find("recipes", name)
    return config.override(dataclasses.replace(make(), name=name), changes or {})


def load(data: dict[str, Any]) -> Recipe:
    """A recipe from its JSON form."""
    return config.from_dict(renamed.recipe(data), Recipe)
