"""A recipe: the complete, printable description of a training run. It holds settings only, never modules."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

from weft import config, registry
from weft.config import Config
from weft.data.base import DataConfig
from weft.models.base import ModelConfig
from weft.objectives.base import ObjectiveConfig
from weft.training.settings import Train


@dataclass(frozen=True, kw_only=True)
class Progress(Config):
    """The validation number that says whether a run gets better."""

    metric: str = "loss"
    """Its name in the validation report."""
    goal: Literal["min", "max"] = "min"
    """Whether smaller or larger is better."""


@dataclass(frozen=True, kw_only=True)
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

    def resolve(self, info: dict[str, Any]) -> Recipe:
        """Fill every model and objective field that is empty (0) and named like a fact of the data."""
        return dataclasses.replace(self, model=_fill(self.model, info), objective=_fill(self.objective, info))


def _fill(part: Any, info: dict[str, Any]) -> Any:
    empty = {f.name for f in dataclasses.fields(part) if getattr(part, f.name) in (0, 0.0, ()) and not isinstance(getattr(part, f.name), bool)}
    return dataclasses.replace(part, **{name: info[name] for name in empty if name in info})


def recipe(name: str, changes: dict[str, Any] | None = None) -> Recipe:
    """A registered recipe, with dotted names changed: `recipe("gpt/text", {"model.width": 512})`."""
    make: Callable[[], Recipe] = registry.find("recipes", name)
    return config.override(dataclasses.replace(make(), name=name), changes or {})


def load(data: dict[str, Any]) -> Recipe:
    """A recipe from its JSON form."""
    return config.from_dict(data, Recipe)


class _Module(ModuleType):
    """`weft.recipe("gpt/text")` works, although importing this module binds `weft.recipe` to it."""

    def __call__(self, name: str, changes: dict[str, Any] | None = None) -> Recipe:
        return recipe(name, changes)


sys.modules[__name__].__class__ = _Module
