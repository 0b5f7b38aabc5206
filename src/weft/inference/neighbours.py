"""The words whose vectors lie nearest to a word's, by cosine."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import CapabilityError, CheckpointError, DataError
from weft.models.base import Embeds, need


@torch.inference_mode()
def neighbours(model: nn.Module, tokenizer: Any, text: str, number: int = 10) -> dict[str, list[tuple[str, float]]]:
    """For every word of a text the nearest other words and their cosines, nearest first."""
    words, vectors = word_table(model, tokenizer)
    index = {word: place for place, word in enumerate(words)}
    wanted = {word: vector_of(model, tokenizer, word) for word in text.split()}
    table = F.normalize(vectors, dim=-1)
    found = {}
    for word, vector in wanted.items():
        cosine = table @ F.normalize(vector, dim=-1)  # (V,)
        own = index.get(word, index.get(word.lower()))
        if own is not None:
            cosine[own] = -torch.inf
        best = cosine.topk(min(number, len(cosine) - (own is not None)))
        found[word] = [(words[i], round(c, 4)) for i, c in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
    return found


@torch.inference_mode()
def word_table(model: nn.Module, tokenizer: Any) -> tuple[list[str], Tensor]:
    """The words that a model has a vector for, and the vectors (V, D) float32; without the token of unknown words."""
    need(model, Embeds)
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so words cannot be looked up")
    words = getattr(tokenizer, "words", None) or [tokenizer.decode([number]) for number in range(tokenizer.size)]
    first = int(words[0] == getattr(tokenizer, "UNKNOWN", None))
    ids = torch.arange(first, tokenizer.size, device=next(model.parameters()).device)
    return words[first:], model.embed(ids).float()  # type: ignore[operator]


@torch.inference_mode()
def vector_of(model: Any, tokenizer: Any, word: str) -> Tensor:
    """The vector of a word (D,); of one that has none from its n-grams of characters, where the model has those."""
    device = next(model.parameters()).device
    vector: Tensor
    if not getattr(model.config, "ngrams", 0) or has_vector(tokenizer, word):
        vector = model.embed(torch.tensor(look_up(tokenizer, word), device=device))
        return vector.float()
    rows = tokenizer.subwords(word)
    if not rows:
        raise DataError(f"{word!r} is not among the {tokenizer.size:,} words this model has a vector for, and has no n-grams it knows")
    if max(rows) >= model.config.ngrams:
        raise CheckpointError(f"the tokenizer tells of n-gram {max(rows):,}, and the model has {model.config.ngrams:,}")
    vector = model.embed_ngrams(torch.tensor(rows, device=device))
    return vector.float()


def known_words(tokenizer: Any, number: int) -> list[str]:
    """A few words that can be looked up, from the middle of the vocabulary, which is ordered by frequency."""
    words = (tokenizer.decode([tokenizer.size * place // (4 * number)]) for place in range(1, 4 * number))
    return [word for word in words if word.isalpha() and len(word) > 3 and has_vector(tokenizer, word)][:number]


def has_vector(tokenizer: Any, word: str) -> bool:
    try:
        look_up(tokenizer, word)
    except DataError:
        return False
    return True


def look_up(tokenizer: Any, word: str) -> int:
    """The token of a word, as written or in lower case."""
    for form in (word, word.lower()):
        ids = list(tokenizer.encode(form))
        if len(ids) == 1 and tokenizer.decode([int(ids[0])]) == form:
            return int(ids[0])
    raise DataError(f"{word!r} is not among the {tokenizer.size:,} words this model has a vector for")
