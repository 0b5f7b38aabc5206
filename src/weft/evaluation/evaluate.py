"""A trained model measured with its recipe's objective, on its own validation data or on other data of the same kind.

Means are exact over every example, in float32, whatever the size of the batches.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from weft.core import config, html, registry
from weft.core.errors import ConfigError, DataError
from weft.core.units import number, title
from weft.data.base import Data, DataConfig, DataLoader, Dataset, with_path
from weft.objectives.base import Objective
from weft.runs.load import Loaded, load
from weft.training import hooks
from weft.training.checkpoint import checkpoint
from weft.training.execution import tf32_products

AT_MOST = ("vocabulary", "context")
"""Facts of the data that may be smaller than what the model was built for; all others must be equal."""


@dataclass(frozen=True)
class TaskMetrics:
    """What the measure of a task found: numbers, and all that the model said, as the content of a file."""

    metrics: dict[str, float]
    content: str
    suffix: str
    """Of the file's name: .json or .tsv."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured, on what, and how long it took."""

    checkpoint: str
    data: dict[str, Any]
    examples: int
    metrics: dict[str, float]
    seconds: float
    problems: list[str]
    findings: TaskMetrics | None = None
    """What only whole answers can tell, for tasks that have a measure of their own."""
    objective: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of the objective that were changed for it."""

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {number(value)}" for name, value in self.metrics.items())
        return f"Evaluation({said}; {self.examples:,} examples, {self.checkpoint})"

    def _repr_html_(self) -> str:
        rows = [(title(name), number(value)) for name, value in self.metrics.items()]
        return html.pairs(f"{self.checkpoint} on {self.examples:,} examples", rows)


def evaluate(
    model: Loaded | str | Path,
    *metrics: str,
    data: DataConfig | dict[str, Any] | str | Path | None = None,
    settings: dict[str, Any] | None = None,
    examples: int = 0,
    batch: int = 64,
) -> Evaluation:
    """The recipe's metrics (or those named) of a model, and metrics that are computed only when named, as "fid=RUN".

    data: None for the recipe's validation data; a path for other data of the same kind; a dict of changed settings; or a
    data config. settings: those of the recipe's objective to change, such as how answers are searched for. examples: how many
    of the data, 0 for all.
    """
    if examples < 0 or batch < 1:
        raise ConfigError(f"examples must not be negative and batch at least 1, not {examples} and {batch}")
    loaded = model if isinstance(model, Loaded) else load(model)
    source = change_data(loaded.recipe.data, data)
    held = source.build_with(loaded.tokenizer)
    fit_together(loaded, held)
    if held.validation is None:
        raise DataError(f"{registry.name_of(type(source))} has no validation data; keep some with --data.validation, or name other data")
    count = min(examples or len(held.validation), len(held.validation))
    device = next(loaded.model.parameters()).device
    objective = build_objective(loaded, held, changed=data is not None, settings=settings or {}).to(device)
    begin = time.perf_counter()
    order = DataLoader(held.validation, loaded.recipe.train.seed, device, shuffle=False)
    with tf32_products(False), torch.autocast(device.type, enabled=False):
        found = hooks.evaluate(loaded.model, objective, order, count, batch)
        if objective.classes and "accuracy" in found:
            found = insert_after(found, "accuracy", majority_baseline(order, objective.classes, count, batch))
        findings = measure(loaded, objective, held.validation, order, count, batch)
        further = on_request(loaded, metrics, data)
    seconds = time.perf_counter() - begin
    own = [name for name in metrics if not requested(name)]
    chosen = choose(found | (findings.metrics if findings else {}), own) if own or not further else {}
    about = str(loaded.path), config.to_dict(source), count
    return Evaluation(*about, chosen | further, seconds, held.problems.lines(), findings, settings or {})


def majority_baseline(order: DataLoader, name: str, examples: int, batch: int) -> dict[str, float]:
    """The accuracy of always telling the commonest class of the first examples, of those whose class is known."""
    found = [order.batch(first, min(batch, examples - first))[name].flatten() for first in range(0, examples, batch)]
    classes = torch.cat(found)
    numbers = torch.bincount(classes[classes >= 0])  # UNLABELLED and IGNORE are negative
    return {"majority_class": int(numbers.max()) / int(numbers.sum())} if len(numbers) else {}


def insert_after(found: dict[str, float], name: str, more: dict[str, float]) -> dict[str, float]:
    """Further numbers behind the one of this name."""
    place = list(found).index(name) + 1
    return dict([*list(found.items())[:place], *more.items(), *list(found.items())[place:]])


def measure(loaded: Loaded, objective: Objective, data: Dataset, order: DataLoader, examples: int, batch: int) -> TaskMetrics | None:
    """What the measure registered for an objective finds on the first examples; None where it has none."""
    name = registry.name_of(type(loaded.recipe.objective))
    if name not in registry.TABLES["measures"]:
        return None
    batches = (order.batch(first, min(batch, examples - first)) for first in range(0, examples, batch))
    with torch.no_grad():
        findings: TaskMetrics | None = registry.find("measures", name)(loaded, objective, data, batches)
    return findings


def requested(name: str) -> bool:
    """Whether a metric is computed only when named: "fid=RUN", where what it needs to know stands behind the "="."""
    return name.partition("=")[0] in registry.TABLES["metrics"]


def on_request(loaded: Loaded, names: Iterable[str], data: Any) -> dict[str, float]:
    """The metrics among the names that are computed only when named."""
    found: dict[str, float] = {}
    for name, _, argument in (asked.partition("=") for asked in names if requested(asked)):
        with torch.no_grad():
            found |= registry.find("metrics", name)(loaded, data, argument)
    return found


def change_data(own: DataConfig, data: DataConfig | dict[str, Any] | str | Path | None) -> DataConfig:
    """The recipe's data settings, changed; other data given by path are used whole where the source can do that."""
    if isinstance(data, DataConfig):
        return data
    changes = {"path": str(data)} if isinstance(data, (str, Path)) else dict(data or {})
    source = with_path(own) if "path" in changes else own
    if "path" in changes:
        given = {f"validation_{name}": value for name, value in changes.items() if hasattr(source, f"validation_{name}")}
        changes = given | changes
    return config.override(source, changes)


def fit_together(loaded: Loaded, data: Data) -> None:
    """Refuse data of another size than the model was built for."""
    known, texts = getattr(loaded.tokenizer, "texts", 0), data.info.get("texts", 0)
    if known and texts and known != texts:
        kind = {1: "single texts", 2: "pairs of texts"}
        raise DataError(f"the data has {kind[texts]}, but this model was trained on {kind[known]}; name the columns with --data.text")
    for field in dataclasses.fields(loaded.recipe.model):
        mine, given = getattr(loaded.recipe.model, field.name), data.info.get(field.name)
        if given is None or mine == given or list(mine if isinstance(mine, tuple) else [mine]) == given:
            continue
        if field.name in AT_MOST and given <= mine:
            continue
        raise DataError(f"the data has {field.name} {given}, but this model was built for {mine}")


def build_objective(loaded: Loaded, data: Data, changed: bool, settings: dict[str, Any]) -> Objective:
    """The recipe's objective with the state it had in training; on other data, with that data's facts."""
    part = config.override(loaded.recipe.objective, settings)
    if changed:
        names = {f.name for f in dataclasses.fields(part)} & set(data.info)
        part = dataclasses.replace(part, **{name: data.info[name] for name in names})
    objective = part.build()
    found = checkpoint.read(loaded.path, only=("training.safetensors",))
    if "training.safetensors" in found.files:
        objective.bind(loaded.model)
        state = found.tensors("training.safetensors")
        objective.load_state_dict({k.removeprefix("objective/"): v for k, v in state.items() if k.startswith("objective/")})
    return objective


def choose(found: dict[str, float], names: Iterable[str]) -> dict[str, float]:
    """The named metrics, or all."""
    for name in names:
        if name not in found:
            raise ConfigError(f"no metric is called {name!r}{registry.nearest(name, [*found, *registry.TABLES['metrics']])}")
    return {name: found[name] for name in names} or found
