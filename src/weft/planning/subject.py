"""What is planned: a recipe, registered or saved, or a preset of a model, with one micro-batch's shapes and no data.

A batch is needed only for its shapes. Objectives that read tokens, pairs or labels get made-up zeros; the others get one small
batch of the recipe's own data.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.core.untrusted import parsing, read_json
from weft.data.base import Batch, DataLoader
from weft.data.shards.shard_windows import ShardsConfig
from weft.models.base import ModelConfig
from weft.objectives.base import ObjectiveConfig
from weft.planning import scaling
from weft.recipes.base import Recipe, load
from weft.recipes.base import recipe as find_recipe
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train

OBJECTIVE_OF = {
    **dict.fromkeys(("gpt", "speedrun_gpt", "llama", "perceiver"), "next_token"),
    **dict.fromkeys(("t5", "transformer"), "seq2seq"),
    **dict.fromkeys(("vit", "swin", "mlp", "resnet", "densenet"), "classification"),
    "bert": "mlm_nsp",
}
"""What a model is pretrained with, by its registry name: the objective of a preset."""

LEARNED = ("words", "whitespace", "byte_bpe", "bpe", "wordpiece", "unigram")
Maker = Callable[[int], Batch]


@dataclass
class Subject:
    name: str
    model: ModelConfig
    objective: ObjectiveConfig
    make: Maker
    """Batch of so many examples on the current default device."""
    tokens: int
    """Tokens (or images, or rows) that count as trained on, per example."""
    batch: int
    """Examples per update."""
    total: float
    """Tokens of the whole run."""
    optim: Any = field(default_factory=AdamW)
    train: Train = field(default_factory=Train)
    """Of which only what decides the execution is read."""
    notes: list[str] = field(default_factory=list)
    text: bool = True
    """Whether what it learns from is text in pieces of words, as far as that is known."""

    @property
    def scaled(self) -> bool:
        """Whether scaling laws speak of it: they are of decoders that predict the next token of such text."""
        kinds = registry.name_of(type(self.model)), registry.name_of(type(self.objective))
        return self.text and kinds[0] in ("gpt", "speedrun_gpt", "llama") and kinds[1] == "next_token"


def presets() -> dict[str, ModelConfig]:
    """Every preset by "family/name"."""
    found: dict[str, ModelConfig] = {}
    for family, entry in registry.MODELS.items():
        module = importlib.import_module(entry.target.partition(":")[0])
        table: dict[str, ModelConfig] = getattr(module, "PRESETS", {})
        found |= {f"{family}/{name}": config for name, config in table.items() if family in OBJECTIVE_OF}
    return found


def preset(name: str) -> ModelConfig:
    """The preset of this name, alone where only one family has it."""
    known = presets()
    fitting = [whole for whole in known if name in (whole, whole.partition("/")[2])]
    if len(fitting) == 1:
        return known[fitting[0]]
    if fitting:
        raise ConfigError(f"several presets are called {name!r}; choose from: {', '.join(fitting)}")
    raise ConfigError(f"no preset is called {name!r}{registry.nearest(name, [w.removeprefix('gpt/') for w in known])}")


def subject(name: str, model: str = "", batch: int = 0, context: int = 0, vocabulary: int = 0) -> Subject:
    """A recipe, a preset, or a recipe with the model of a preset; sizes that are given come before its own."""
    recipe = named(name, model)
    return of_recipe(recipe, batch, context, vocabulary) if recipe else of_preset(model or name, batch, context, vocabulary)


def named(name: str, model: str = "") -> Recipe | None:
    """The recipe of this name, of a run's folder or of a recipe.json, with the model of a preset in the place of its own.

    None for a preset alone.
    """
    if name in registry.RECIPES:
        recipe = find_recipe(name)
    elif file := saved(name):
        recipe = read(file)
    elif name and name not in presets() and Path(name).exists():
        raise ConfigError(f"{name} holds no recipe.json; name a run, a recipe (weft list recipes) or a preset")
    else:
        if name and (model or ("/" in name and name not in presets())):
            registry.entry("recipes", name)  # says which name is near
        return None
    return dataclasses.replace(recipe, model=preset(model)) if model else recipe


def saved(name: str) -> Path | None:
    """The file of a saved recipe: itself, or in the folder of a run or a checkpoint."""
    return next((path for path in (Path(name), Path(name, "recipe.json")) if name and path.suffix == ".json" and path.is_file()), None)


def read(file: Path) -> Recipe:
    with parsing(file, ConfigError, " is not a recipe; name a run, a recipe (weft list recipes) or a preset"):
        return load(read_json(file, finite=False))


def of_preset(name: str, batch: int = 0, context: int = 0, vocabulary: int = 0, changed: ModelConfig | None = None) -> Subject:
    """A preset, or what became of it by changing its settings."""
    config = sized(changed or preset(name), context, vocabulary)
    family = registry.name_of(type(config)) or ""
    objective: ObjectiveConfig = registry.find("objectives", OBJECTIVE_OF[family])()
    if (longest := context or getattr(config, "context", 0)) and hasattr(objective, "special_tokens"):
        objective = dataclasses.replace(objective, vocabulary=getattr(config, "vocabulary", 0), special_tokens=5, mask=4)  # type: ignore[call-arg]
    tokens = longest or getattr(config, "context", 0) or 1
    if hasattr(config, "image") or not hasattr(config, "vocabulary"):
        tokens = 1
    elif not getattr(config, "context", 0):
        tokens = context or 512
    size = scaling.parameters(config)
    examples = batch or (divisible(scaling.batch_tokens(size) / tokens) if tokens > 1 else 1024)
    released = next((m.tokens for m in scaling.RELEASED if m.preset == name and m.tokens), 0.0)
    total = (released or scaling.optimal_tokens(size)) if tokens > 1 else 0.0
    return Subject(name, config, objective, made_up(config, objective, tokens), tokens, examples, total, optim=AdamW())


def divisible(examples: float) -> int:
    """The number nearest to this that many devices can share: a power of two, or three times one."""
    return min((times << n for times in (1, 3) for n in range(4, 24)), key=lambda number: abs(number - examples))


def of_recipe(recipe: Recipe, batch: int = 0, context: int = 0, vocabulary: int = 0) -> Subject:
    notes: list[str] = []
    facts, data = learn_facts(recipe, context, vocabulary, notes)
    if data is None:
        recipe = dataclasses.replace(recipe, model=sized(recipe.model, context, vocabulary))
    resolved = recipe.resolve(facts)
    config, objective = sized(resolved.model, context, vocabulary), resolved.objective
    tokens = int(facts.get("tokens", facts.get("context", 1)) or 1)
    make = made_up(config, objective, tokens) if data is None else drawn(data, largest(data))
    examples = batch or recipe.train.batch
    optim = next(iter(recipe.optim.values())) if isinstance(recipe.optim, dict) else recipe.optim
    total = float(recipe.train.steps * examples * tokens)
    if recipe.train.precision in ("fp32", "tf32"):
        notes.append(f"memory and time are those of bf16, not of --train.precision {recipe.train.precision}")
    return Subject(recipe.name, config, objective, make, tokens, examples, total, optim, recipe.train, notes, in_pieces(recipe.data))


def in_pieces(data: Any) -> bool:
    """Whether data are text in pieces of words; shards may be, as they do not say."""
    return registry.name_of(type(data)) == "shards" or getattr(data, "tokenizer", "") in ("byte_bpe", "bpe", "wordpiece", "unigram")


def learn_facts(recipe: Recipe, context: int, vocabulary: int, notes: list[str]) -> tuple[dict[str, Any], Any]:
    """What the sizes depend on, and the data where a batch of them is needed. Learned vocabularies are taken as large as asked for."""
    data: Any = recipe.data
    objective = registry.name_of(type(recipe.objective))
    longest = context or getattr(data, "context", 0) or getattr(recipe.model, "context", 0)
    if objective == "next_token" and longest < 1:
        raise ConfigError(f"--data.context must be at least 1, not {longest}")
    facts = {"context": longest, "tokens": longest, "bytes_per_token": 1.0}
    known = vocabulary or getattr(recipe.model, "vocabulary", 0)
    if objective == "next_token" and not known and getattr(data, "tokenizer", "") in LEARNED:
        known = getattr(data, "vocabulary", 0) or 10_000
    if objective == "next_token" and known:
        return {**facts, "vocabulary": known}, None
    try:
        built = data.build()
    except DataError as error:
        if named_by_hand(recipe):
            raise
        if objective != "next_token":
            where = "name them with --data.path or put them below $WEFT_DATA, or plan a preset of the model, as weft plan bert/base does"
            raise ConfigError(f"{recipe.name}: what a batch is like follows from its data, and they are not here; {where}") from error
        return {**facts, "vocabulary": assumed(data, notes)}, None
    if objective == "next_token":
        return {**facts, **built.info, **({"context": context, "tokens": context} if context else {})}, None
    return built.info, built


def named_by_hand(recipe: Recipe) -> bool:
    """Whether the data are others than the recipe's own, so that they ought to be there."""
    own = find_recipe(recipe.name).data if recipe.name in registry.RECIPES else recipe.data
    return bool(getattr(recipe.data, "path", None) != getattr(own, "path", None))


def assumed(data: Any, notes: list[str]) -> int:
    """The vocabulary of data that are not here, with a note that says so."""
    size, like = (50_257, "GPT-2's, as shards hold subwords") if isinstance(data, ShardsConfig) else (256, "for characters")
    notes.append(f"the recipe's data are not here: a vocabulary of {size:,} is assumed, {like} (--vocabulary says another)")
    return size


def sized(config: Any, context: int, vocabulary: int) -> Any:
    """The configuration with another context or vocabulary, where it has such a field."""
    for name, value in (("context", context), ("vocabulary", vocabulary)):
        if value and not hasattr(config, name):
            raise ConfigError(f"--{name}: {type(config).__name__} has none")
        config = dataclasses.replace(config, **{name: value}) if value else config
    return config


def largest(data: Any) -> int | None:
    """The example with the most numbers, where not all are of one shape: what memory has to suffice for."""
    shapes = data.train.shapes()
    numbers = (
        {example: sum(tensor.numel() for tensor in drawn(data, example)(1).values()) for example, _ in shapes} if len(shapes) > 1 else {}
    )
    return max(numbers, key=lambda example: numbers[example], default=None)


def drawn(data: Any, example: int | None = None) -> Maker:
    """Batches with the shapes of the data's own, or of this example, which may itself be a batch of several rows."""
    if example is None:
        two = DataLoader(data.train, 0, torch.device("cpu")).batch(0, 2)
    else:
        keys = torch.zeros(2, dtype=torch.int64)
        two = {**data.train.batch(torch.tensor([example, example]), keys), "key": keys}
    shapes = {name: (len(tensor) // 2, tuple(tensor.shape[1:]), tensor.dtype) for name, tensor in two.items()}
    return lambda examples: {name: torch.zeros((examples * rows, *shape), dtype=kind) for name, (rows, shape, kind) in shapes.items()}


def made_up(config: Any, objective: Any, tokens: int) -> Maker:
    """Batches of zeros for objectives whose batches are known: tokens, pairs of texts, sentences, labelled inputs."""
    kind = registry.name_of(type(objective))

    def whole(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64)

    def make(n: int) -> Batch:
        if kind == "next_token":
            return {"ids": whole(n, tokens), "targets": whole(n, tokens), "key": whole(n)}
        if kind in ("seq2seq", "scheduled_sampling", "minimum_risk", "policy_gradient"):
            both = {"source": whole(n, tokens), "target": whole(n, tokens + 1)}
            return both | {"source_length": whole(n), "target_length": whole(n), "key": whole(n)}
        if kind == "mlm_nsp":
            return {"ids": whole(n, tokens), "segments": whole(n, tokens), "lengths": whole(n), "pair": whole(n), "key": whole(n)}
        shape = getattr(config, "image", None) or (config.features,)
        return {objective.inputs[0]: torch.zeros(n, *shape), "label": whole(n), "key": whole(n)}

    return make
