"""Continuing a text token by token, over a context that slides when it is full.

Shapes: B batch, T time, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft import random
from weft.errors import CapabilityError, ConfigError, DataError
from weft.generation.pick import check, pick
from weft.models.base import Scores, need, offers


@dataclass(frozen=True)
class Generation:
    """A text that a model continued."""

    prompt: str
    text: str
    """What was added to the prompt."""
    tokens: int
    """Number of tokens added."""
    stop: str
    """Why it ended: "length" or "stop text"."""
    seed: int

    def __str__(self) -> str:
        return self.prompt + self.text


def generate(
    model: nn.Module,
    tokenizer: Any,
    prompt: str = "",
    *,
    n: int = 1,
    max_new_tokens: int = 200,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    stop: str = "",
) -> list[Generation]:
    """n continuations of a prompt, each a function of (prompt, seed, its number) alone."""
    need_continuing(model, tokenizer)
    check(temperature, top_k, top_p)
    if n < 1 or max_new_tokens < 1:
        raise ConfigError(f"n and max_new_tokens must be at least 1, not {n} and {max_new_tokens}")
    device = next(model.parameters()).device
    start = torch.from_numpy(encode_prompt(tokenizer, prompt).astype(np.int64)).to(device)  # (T,)
    ids = start.repeat(n, 1)  # (B, T)
    keys = random.keys(random.seed_of(seed, "generate"), torch.arange(n)).to(device)
    for position in range(max_new_tokens):
        logits = next_logits(model, ids)[:, : tokenizer.size]
        chosen = pick(logits, random.fold(keys, position), temperature, top_k, top_p)
        ids = torch.cat([ids, chosen.unsqueeze(1)], dim=1)
        if stop and all(stop in tokenizer.decode(row) for row in ids[:, len(start) :].tolist()):
            break
    return [finish(row, tokenizer, prompt, stop, seed) for row in ids[:, len(start) :].tolist()]


def can_continue(model: nn.Module, tokenizer: Any) -> bool:
    """Whether a model can continue a text: it scores the next token from those before it, and its tokens are known."""
    return offers(model, Scores) and getattr(model, "causal", True) and tokenizer is not None


def need_continuing(model: nn.Module, tokenizer: Any) -> None:
    """Say what is missing where a model cannot continue a text."""
    need(model, Scores)
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so text cannot be turned into tokens")
    if not can_continue(model, tokenizer):
        raise CapabilityError(f"{type(model).__name__} reads a text from both sides, so it cannot continue one")


def encode_prompt(tokenizer: Any, prompt: str) -> np.ndarray:
    """Tokens of the prompt; a model without a prompt starts after a line break, or after token 0 where it knows none."""
    try:
        ids: np.ndarray = tokenizer.encode(prompt or "\n")
    except DataError:
        if prompt:
            raise
        ids = np.zeros(1, dtype=np.int64)
    return ids if len(ids) else np.zeros(1, dtype=np.int64)


@torch.inference_mode()
def next_logits(model: Any, ids: Tensor) -> Tensor:
    """ids (B, T) -> logits (B, V) of what follows, seen through the last `context` tokens."""
    context = getattr(getattr(model, "config", None), "context", 0)
    hidden = model.hidden(ids[:, -context:] if context else ids)
    logits: Tensor = model.head(hidden[:, -1])
    return logits


def finish(ids: list[int], tokenizer: Any, prompt: str, stop: str, seed: int) -> Generation:
    """Cut what came after the stop text, and say why the text ended."""
    text = tokenizer.decode(ids)
    if stop and stop in text:
        used = next(length for length in range(1, len(ids) + 1) if stop in tokenizer.decode(ids[:length]))
        return Generation(prompt, text[: text.index(stop)], used, "stop text", seed)
    return Generation(prompt, text, len(ids), "length", seed)
