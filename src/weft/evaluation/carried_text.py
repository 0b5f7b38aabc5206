"""Language models measured over a whole text, with the state carried from its first token to its last: `weft evaluate RUN carried dynamic`.

Dynamic evaluation (Krause et al., 2018, arXiv:1709.07432): behind every few tokens, whose loss is counted first, the weights move along
its gradient, each by a size that the gradients of the training text give it, and back towards where they were. The run stays as it is.
Each takes a loaded model, other settings of its data (as `evaluate` does) and what stands behind the "=". Shapes: B lanes, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.base import DataConfig, Dataset
from weft.evaluation.evaluate import change_data
from weft.models.base import Decodes, need
from weft.nn.state import RecurrentState
from weft.runs.load import Loaded

SEGMENT = 70
"""Tokens that are read at once where nothing is learnt."""
LANES, STEP = 100, 5
"""Lanes of the training text whose gradients are measured, and tokens behind which weights move."""
RATE, DECAY, EPS = 5e-5, 2e-3, 2e-5
"""Of the authors' program: how far weights move, how far back, and what is added to the size of a gradient."""
Changes = DataConfig | dict[str, Any] | str | Path | None


def carried(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Mean loss and perplexity of the validation text, read as one."""
    if argument:
        raise ConfigError(f"carried={argument}: it needs to know nothing")
    model, text, _ = opened(loaded, data)
    total, state = 0.0, begun(model, 1)
    for ids, targets in segments(text[None], SEGMENT):
        total += loss_of(model, ids, targets, state).item()
    return metrics_of("carried", total, len(text) - 1)


def dynamic(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """As `carried`, by dynamic evaluation; argument: the rate and the decay, as 5e-5,0.002."""
    rate, decay = numbers(argument)
    model, text, train = opened(loaded, data)
    weights = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    first = [weight.detach().clone() for weight in weights]
    total, state = 0.0, begun(model, 1)
    with torch.enable_grad():
        sizes = gradient_sizes(model, weights, train)
        mean = torch.stack([size.mean() for size in sizes]).mean()
        back = [(decay * size / mean).clamp(max=1.0) for size in sizes]
        try:
            for ids, targets in segments(text[None], STEP):
                loss = loss_of(model, ids, targets, state)
                grads = torch.autograd.grad(loss / targets.numel(), weights)
                total += loss.item()
                state = RecurrentState.of({name: tensor.detach() for name, tensor in state.tensors.items()})
                with torch.no_grad():
                    for weight, grad, size, share, origin in zip(weights, grads, sizes, back, first, strict=True):
                        weight += share * (origin - weight) - rate * grad / (size + EPS)
        finally:
            with torch.no_grad():
                torch._foreach_copy_(weights, first)
    return metrics_of("dynamic", total, len(text) - 1)


def numbers(argument: str) -> tuple[float, float]:
    """The rate and the decay that were asked for."""
    parts = argument.split(",") if argument else [str(RATE), str(DECAY)]
    try:
        rate, decay = map(float, parts)
    except ValueError:
        rate = decay = math.nan
    if not (0.0 <= rate < math.inf and 0.0 <= decay < math.inf):
        raise ConfigError(f"dynamic={argument}: expected a rate and a decay of at least 0, as dynamic={RATE:g},{DECAY:g}")
    return rate, decay


def opened(loaded: Loaded, data: Changes) -> tuple[Any, Tensor, Tensor]:
    """The model, and the tokens of the validation text and of the training text, where it is."""
    need(loaded.model, Decodes)
    model: Any = loaded.model
    if not isinstance(model.new_state(), RecurrentState):
        raise ConfigError(f"carried and dynamic are for recurrent models of text, and {type(model).__name__} has no recurrent state")
    model.eval()
    device = next(model.parameters()).device
    held = change_data(loaded.recipe.data, data).build_with(loaded.tokenizer)
    texts = [tokens_of(part).to(device).long() for part in (held.validation or held.train, held.train)]
    return model, texts[0], texts[1]


def tokens_of(data: Dataset) -> Tensor:
    tokens = getattr(data, "tokens", None)
    if not isinstance(tokens, Tensor) or tokens.ndim != 1:
        raise DataError(f"{type(data).__name__} is no text that can be read from its first token to its last")
    return tokens


def begun(model: Any, rows: int) -> RecurrentState:
    state: RecurrentState = model.new_state()
    state.add_rows(rows)
    return state


def segments(lanes: Tensor, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """lanes (B, N) -> ids and targets (B, T), one segment behind the other; the last may be shorter."""
    for begin in range(0, lanes.size(1) - 1, length):
        end = min(begin + length, lanes.size(1) - 1)
        yield lanes[:, begin:end], lanes[:, begin + 1 : end + 1]


def loss_of(model: Any, ids: Tensor, targets: Tensor, state: RecurrentState) -> Tensor:
    """Summed over all targets; the state is moved on."""
    scores = model.head(model.hidden(ids, state=state)).flatten(0, 1).float()
    return F.cross_entropy(scores, targets.flatten(), reduction="sum")


def gradient_sizes(model: Any, weights: list[Any], train: Tensor) -> list[Tensor]:
    """The root of the mean square of each weight's gradient over the segments of the training text."""
    rows = min(LANES, max(1, (len(train) - 1) // STEP))
    lanes, sums, number = train[: len(train) // rows * rows].view(rows, -1), [torch.zeros_like(weight) for weight in weights], 0
    state = begun(model, rows)
    for ids, targets in segments(lanes, STEP):
        grads = torch.autograd.grad(loss_of(model, ids, targets, state) / targets.numel(), weights)
        torch._foreach_addcmul_(sums, grads, grads)
        state = RecurrentState.of({name: tensor.detach() for name, tensor in state.tensors.items()})
        number += 1
    return [(total / number).sqrt() for total in sums]


def metrics_of(name: str, total: float, tokens: int) -> dict[str, float]:
    return {f"{name}_loss": total / tokens, f"{name}_perplexity": math.exp(total / tokens)}
