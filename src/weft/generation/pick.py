"""Choosing the next token from its logits.

Each sequence draws with its own key, so what it says does not depend on the sequences beside it.
Shapes: B batch, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from weft import random
from weft.errors import ConfigError


def check(temperature: float, top_k: int, top_p: float) -> None:
    """Refuse settings that choose nothing."""
    if temperature < 0:
        raise ConfigError(f"temperature must be 0 (the likeliest token) or more, not {temperature}")
    if top_k < 0:
        raise ConfigError(f"top_k must be 0 (all tokens) or more, not {top_k}")
    if not 0 < top_p <= 1:
        raise ConfigError(f"top_p must be above 0 and at most 1, not {top_p}")


def pick(logits: Tensor, key: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """logits (B, V), key (B,) -> ids (B,): the likeliest at temperature 0, else a draw among the top_k and the nucleus top_p.

    The nucleus is the smallest set of likeliest tokens whose probability reaches top_p (Holtzman et al., 2019, arXiv:1904.09751).
    """
    if temperature == 0:
        return logits.argmax(-1)
    chances, order = (logits.float() / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)  # (B, V)
    kept = chances.cumsum(-1) - chances < top_p
    if top_k:
        kept[:, top_k:] = False
    sums = (chances * kept).cumsum(-1)
    place = (sums <= random.uniform(key).unsqueeze(-1) * sums[:, -1:]).sum(-1)  # (B,) how many lie below the drawn point
    place = place.minimum(kept.sum(-1) - 1)
    return order.gather(-1, place.unsqueeze(-1)).squeeze(-1)
