"""What a foreign model tells of an example: the names of its classes (id2label of config.json), or a number in its own units."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from weft.core.errors import CheckpointError
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.annotated.tagged import TaggedConfig, TagTokenizer
from weft.data.tokenizers.base import ClassNames, Tokenizer
from weft.recipes.base import Recipe


def count(config: dict[str, Any]) -> int:
    """As many classes as there are labels; a model without a head says none, and then they count 2."""
    return len(config.get("id2label") or ()) or config.get("num_labels", 2)


def class_names(config: dict[str, Any]) -> ClassNames | None:
    """The names that config.json gives to the classes; None where it gives none, or only numbers them."""
    named = config.get("id2label")
    if not named:
        return None
    by_number = {str(number): name for number, name in named.items()} if isinstance(named, dict) else {}
    names = [by_number.get(str(number)) for number in range(len(named))]
    if not all(isinstance(name, str) for name in names):
        raise CheckpointError("config.json: id2label does not give a name to each number from 0 on")
    if names == [f"LABEL_{number}" for number in range(len(names))]:
        return None
    return ClassNames([str(name) for name in names])


def labels(tokenizer: Tokenizer | None, classes: int) -> dict[str, Any]:
    """What config.json says of the classes, where a run knows all of them by name."""
    names = getattr(tokenizer, "names", getattr(tokenizer, "classes", []))
    if not isinstance(tokenizer, (ClassNames, LabelledTokenizer)) or not names or len(names) != classes:
        return {}
    return {"id2label": dict(enumerate(names)), "label2id": {name: place for place, name in enumerate(names)}}


def labelled(recipe: Recipe, tokens: Tokenizer, config: dict[str, Any]) -> Tokenizer:
    """Foreign tokens with what is told of them, as our recipe for such a model keeps both; classes without a name are numbered."""
    if not isinstance(recipe.data, (LabelledTextsConfig, TaggedConfig)):
        return tokens
    if isinstance(recipe.data, LabelledTextsConfig) and recipe.data.number:
        return LabelledTokenizer(tokens, [])
    named = class_names(config)
    names = named.names if named else [str(number) for number in range(count(config))]
    return TagTokenizer(tokens, names) if isinstance(recipe.data, TaggedConfig) else LabelledTokenizer(tokens, names)


def fitted(recipe: Recipe) -> Recipe:
    """The recipe with sequences that its model can read, and numbers counted in units, not in deviations."""
    data: Any = recipe.data
    if hasattr(data, "context"):
        data = dataclasses.replace(data, context=min(data.context, recipe.model.context))  # type: ignore[attr-defined]
    objective: Any = recipe.objective
    if hasattr(objective, "scale"):
        objective = dataclasses.replace(objective, scale=1.0)
    return dataclasses.replace(recipe, data=data, objective=objective)


def in_units(tensors: dict[str, Tensor], tokenizer: Tokenizer | None) -> dict[str, Tensor]:
    """A head that tells numbers as deviations from a mean, made to tell them in their own units: others keep neither."""
    if not isinstance(tokenizer, LabelledTokenizer) or tokenizer.classes or "head.bias" not in tensors:
        return tensors
    weight, bias = (tensors[f"head.{part}"] * tokenizer.deviation for part in ("weight", "bias"))
    return {**tensors, "head.weight": weight, "head.bias": bias + tokenizer.mean}
