"""A trained model, with what it needs to be used; and weights to start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.core import html
from weft.core.errors import CheckpointError
from weft.core.units import number, title
from weft.core.untrusted import parsing
from weft.data.tokenizers import base as tokenizers
from weft.kernels.usage import has_layers_with_kernels
from weft.models import bounded
from weft.recipes.base import Recipe
from weft.recipes.base import load as load_recipe
from weft.training import execution
from weft.training.checkpoint import checkpoint
from weft.visual import grids
from weft.visual.sheet import Sheet

if TYPE_CHECKING:
    from weft.inference import generate, translate
    from weft.inference.predict.find import What


@dataclass(repr=False)
class Loaded:
    """A trained model with what it needs to be used."""

    path: Path
    recipe: Recipe
    model: Any
    """The module; who uses it names the capability that it must have (weft.models.base)."""
    tokenizer: Any
    metrics: dict[str, Any]
    chat_template: str = ""
    """How messages become a prompt, where the model came with a template (in jinja2's language)."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return self.model(*arguments, **settings)

    def facts(self) -> list[tuple[str, str]]:
        """What one wants to know of a model first."""
        held = self.metrics.get("validation") or {}
        size = sum(parameter.numel() for parameter in self.model.parameters())
        return [
            ("checkpoint", str(self.path)),
            ("recipe", self.recipe.name),
            ("parameters", f"{size:,}"),
            ("step", f"{self.metrics['step']:,}" if "step" in self.metrics else ""),
            *((f"validation {title(name)}", number(value)) for name, value in held.items() if isinstance(value, float)),
        ]

    def __repr__(self) -> str:
        return f"Loaded({type(self.model).__name__}: {', '.join(f'{name} {value}' for name, value in self.facts() if value)})"

    def _repr_html_(self) -> str:
        return html.pairs(type(self.model).__name__, self.facts())

    def generate(self, prompt: str = "", **settings: Any) -> generate.Generation:
        """One continuation of a prompt; max_new_tokens, temperature, top_k, top_p, seed and stop as in inference.generate."""
        from weft.inference import generate

        return generate.generate(self.model, self.tokenizer, prompt, n=1, **settings)[0]

    def sample(self, n: int = 64, seed: int = 0, label: int | None = None) -> Tensor:
        """n examples (N, ...) of a model that draws them, of one class where a label is given: those of `weft sample`."""
        return grids.draw(self.model, n, seed, label)

    def draw(self, n: int = 64, seed: int = 0, label: int | None = None) -> Sheet:
        """The same examples as one picture, which a notebook shows and `save` writes."""
        return Sheet(self.sample(n, seed, label))

    def answer(self, text: str, **settings: Any) -> list[translate.Seq2SeqOutput]:
        """The best answers of a model that turns one text into another, best first; settings as in inference.translate."""
        from weft.inference import translate

        return translate.best_answers(self.model, self.tokenizer, [text], **settings)[0]

    def predict(self, rows: Iterable[Any], what: What = "auto", columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What the model tells of each row, in their order, as `weft predict` does; {"error": why} where it can tell nothing.

        rows: texts, pairs of texts, image files, or mappings from column to value.
        """
        from weft.inference.predict.find import find
        from weft.inference.predict.run import predict_rows

        return predict_rows(find(self, what), rows, columns)


def predict(model: Loaded | str | Path, rows: Iterable[Any], what: What = "auto", columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What a model, or that of a run, tells of each row: see `Loaded.predict`."""
    return (model if isinstance(model, Loaded) else load(model)).predict(rows, what, columns)


def load(name: str | Path, device: str = "auto") -> Loaded:
    """The model of a run (its best checkpoint if it was validated, else its last), in evaluation mode."""
    where = execution.select_device(device)
    loaded = checkpoint.find_usable(name, opened)
    loaded.model = loaded.model.to(where).eval()
    if has_layers_with_kernels(loaded.model):
        from weft.kernels import select

        select.for_evaluation(loaded.model, where)
    return loaded


def opened(found: checkpoint.Checkpoint) -> Loaded:
    """The model of a checkpoint with what it needs; a CheckpointError where its parts do not belong together."""
    recipe, tokenizer = settings_of(found), read_tokenizer(found)
    refuse_larger(found, recipe, tokenizer)
    with parsing(found.path, CheckpointError):
        model = recipe.model.build()
        load_initial(model, found)
        template = bytes(found.files.get("chat_template.jinja", b"")).decode()
    return Loaded(found.path, recipe, model, tokenizer, found.json("metrics.json"), template)


def weights_of(found: checkpoint.Checkpoint) -> Mapping[str, Tensor]:
    """The weights of a checkpoint; the average, where it has one."""
    return found.lazy("ema.safetensors" if "ema.safetensors" in found.files else "model.safetensors")


def settings_of(found: checkpoint.Checkpoint) -> Recipe:
    """The recipe of a checkpoint, refused where its model could not have the weights of the checkpoint."""
    with parsing(f"{found.path}: recipe.json", CheckpointError):
        recipe = load_recipe(found.json("recipe.json"))
    bounded.check(recipe.model, weights_of(found), str(found.path))
    return recipe


def usable(found: checkpoint.Checkpoint) -> checkpoint.Checkpoint:
    """A checkpoint whose model and tokenizer can be read."""
    refuse_larger(found, settings_of(found), read_tokenizer(found))
    return found


def refuse_larger(found: checkpoint.Checkpoint, recipe: Recipe, tokenizer: Any) -> None:
    """Refuse a tokenizer with tokens that the model has not."""
    most = getattr(recipe.model, "vocabulary", 0)
    if most and (size := getattr(tokenizer, "size", 0)) > most:
        raise CheckpointError(f"{found.path}: its tokenizer has {size:,} tokens, and its model only {most:,}")


def load_initial(model: nn.Module, found: checkpoint.Checkpoint) -> None:
    """Weights of a checkpoint into a model; the average, where it has one. The head of another task, and new tokens, start afresh."""
    tensors = dict(weights_of(found))
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
    """The tokenizer, or the names of classes, of a checkpoint; None where it has none."""
    if not found or "tokenizer.json" not in found.files:
        return None
    with parsing(f"{found.path}: tokenizer.json", CheckpointError):
        return tokenizers.load(found.files["tokenizer.json"])
