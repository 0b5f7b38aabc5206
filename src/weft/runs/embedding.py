"""Word vectors as the first rows of a model's token embedding, matched by word; those that were found may stay as they are."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import CapabilityError, ConfigError
from weft.runs.load import load


@torch.no_grad()
def initialise(model: nn.Module, tokenizer: Any, run: str, freeze: bool) -> str:
    """Give the tokens that the vectors of a run know by name their vectors, and say how many; freeze: these rows get no gradient."""
    table = token_embedding(model, tokenizer)
    loaded = load(run, "cpu")
    from weft.inference.neighbours import word_table  # only where an embedding is asked for

    words, vectors = word_table(loaded.model, loaded.tokenizer)
    width = vectors.size(1)
    if table.weight.size(1) != width:
        raise ConfigError(
            f"--train.embedding {run}: its vectors have {width} dimensions, and the model's embedding {table.weight.size(1)}; make them "
            f"equal (--model.width {width}, or what this model calls it)"
        )
    place = {word: number for number, word in enumerate(words)}
    names = spelled(tokenizer)
    found = torch.tensor([place.get(name, place.get(name.lower(), -1)) for name in names])
    known = F.pad(found >= 0, (0, len(table.weight) - len(names)))
    if not known.any():
        raise ConfigError(f"--train.embedding {run}: none of the model's {len(names):,} tokens is one of its {len(words):,} words")
    table.weight[known] = vectors[found[found >= 0]].to(table.weight)
    if freeze:
        table.weight.register_hook(Masked(known))  # type: ignore[no-untyped-call]
    return f"{int(known.sum()):,} of {len(names):,} tokens begin with the vectors of {run}" + (", which stay as they are" if freeze else "")


class Masked:
    """A gradient (V, D) without those rows that are frozen."""

    def __init__(self, frozen: Tensor):
        self.frozen = frozen

    def __call__(self, gradient: Tensor) -> Tensor:
        return gradient.masked_fill(self.frozen.to(gradient.device)[:, None], 0.0)


def token_embedding(model: nn.Module, tokenizer: Any) -> nn.Embedding:
    """The table with a row for each token."""
    size = getattr(getattr(model, "config", None), "vocabulary", 0)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings == size and tokenizer is not None:
            return module
    raise CapabilityError(f"--train.embedding: {type(model).__name__} has no embedding of tokens that could begin with word vectors")


def spelled(tokenizer: Any) -> list[str]:
    """The word that each token is."""
    inner = getattr(tokenizer, "tokens", tokenizer)
    words: list[str] = getattr(inner, "words", None) or [inner.decode([number]) for number in range(inner.size)]
    return words
