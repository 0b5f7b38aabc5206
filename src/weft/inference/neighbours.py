"""The words whose vectors lie nearest to a word's, by cosine."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import CapabilityError, DataError
from weft.models.base import Embeds, need


@torch.inference_mode()
def neighbours(model: nn.Module, tokenizer: Any, text: str, number: int = 10) -> dict[str, list[tuple[str, float]]]:
    """For every word of a text the nearest other words and their cosines, nearest first."""
    need(model, Embeds)
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so words cannot be looked up")
    ids = {word: look_up(tokenizer, word) for word in text.split()}
    everything = torch.arange(tokenizer.size, device=next(model.parameters()).device)
    table: Tensor = F.normalize(model.embed(everything).float(), dim=-1)  # type: ignore[operator]  # (V, D)
    found = {}
    for word, token in ids.items():
        cosine = table @ table[token]  # (V,)
        cosine[token] = -torch.inf
        best = cosine.topk(min(number, len(cosine) - 1))
        found[word] = [(tokenizer.decode([i]), round(c, 4)) for i, c in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
    return found


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
