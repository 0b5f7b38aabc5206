"""How compute, size, data and loss hang together: PF-days, growth of the GPTs, compute-optimal sizes.

C training compute in FLOP, N parameters, D tokens; C = 6 N D. Kaplan et al., 2020, arXiv:2001.08361; Brown et al., 2020,
arXiv:2005.14165 (table D.1 and section 3.1); Hoffmann et al., 2022, arXiv:2203.15556.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig

PF_DAY = 1e15 * 86400
YEAR = 365.25 * 86400
V100 = 28e12
"""FLOP/s that one V100 reached for GPT-3, as its readers assume."""


@dataclass(frozen=True)
class Released:
    preset: str
    year: int
    printed: float
    """Parameters as the paper rounds them."""
    tokens: float
    """Tokens trained on; 0 where the paper does not say."""
    batch: float = 0.0
    """Tokens in a batch."""


RELEASED = (
    Released("gpt1", 2018, 117e6, 0.0),
    Released("gpt2-xl", 2019, 1.5e9, 0.0),
    Released("gpt3-125m", 2020, 125e6, 300e9, 0.5e6),
    Released("gpt3-350m", 2020, 350e6, 300e9, 0.5e6),
    Released("gpt3-760m", 2020, 760e6, 300e9, 0.5e6),
    Released("gpt3-1.3b", 2020, 1.3e9, 300e9, 1e6),
    Released("gpt3-2.7b", 2020, 2.7e9, 300e9, 1e6),
    Released("gpt3-6.7b", 2020, 6.7e9, 300e9, 2e6),
    Released("gpt3-13b", 2020, 13e9, 300e9, 2e6),
    Released("gpt3-175b", 2020, 175e9, 300e9, 3.2e6),
)


def parameters(config: ModelConfig) -> int:
    """How many numbers a model learns, without making any; of a deep one by what each layer adds to the first two."""
    layers = getattr(config, "layers", 0)
    if not isinstance(layers, int) or layers <= 2:
        return built(config)
    try:
        one, two = (built(dataclasses.replace(config, layers=n)) for n in (1, 2))  # type: ignore[call-arg]
    except ConfigError:  # a model that has a kind of layer only once, such as a Perceiver
        return built(config)
    return one + (layers - 1) * (two - one)


def built(config: ModelConfig) -> int:
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in config.build().parameters())
    except (RuntimeError, OverflowError) as error:  # bytes that 64 bits cannot count
        raise ConfigError(f"the sizes of {type(config).__name__} are too large to be counted; take smaller ones with --model") from error


def compute(size: float, tokens: float) -> float:
    """FLOP of a training run by the convention of the GPT-3 paper: six for each parameter and token."""
    return 6.0 * size * tokens


def pf_days(flop: float) -> float:
    return flop / PF_DAY


def v100_years(flop: float) -> float:
    return flop / V100 / YEAR


def growth() -> list[dict[str, float | str]]:
    """Parameters of every released GPT, counted from its configuration, and how many times GPT-1's they are."""
    from weft.models.language.gpt import PRESETS  # a plan of another model does without

    first = RELEASED[0]
    least = parameters(PRESETS[first.preset])
    rows: list[dict[str, float | str]] = []
    for model in RELEASED:
        size, config = parameters(PRESETS[model.preset]), PRESETS[model.preset]
        flop = compute(size, model.tokens)
        row: dict[str, float | str] = {"model": model.preset, "year": model.year, "layers": config.layers, "width": config.width}
        row |= {"heads": config.heads, "context": config.context, "parameters": size, "printed": model.printed}
        row |= {"times": size / least, "times_printed": model.printed / first.printed}
        rows.append(row | {"tokens": model.tokens, "flop": flop, "pf_days": pf_days(flop), "v100_years": v100_years(flop)})
    return rows


def batch_tokens(size: float) -> float:
    """Tokens in a batch for a model of this size: those of the GPT-3 nearest to it."""
    return min((m for m in RELEASED if m.batch), key=lambda m: abs(m.printed / size - 1) + abs(size / m.printed - 1)).batch


def chinchilla_loss(size: float, tokens: float) -> float:
    """Nats per token, L = E + A / N^0.34 + B / D^0.28 (Hoffmann et al., approach 3)."""
    return 1.69 + 406.4 / math.pow(size, 0.34) + 410.7 / math.pow(tokens, 0.28)


def kaplan_loss(flop: float) -> float:
    """Nats per token at the best size for this compute, L = (3.1e8 PF-days / C)^0.050 (Kaplan et al.)."""
    return math.pow(3.1e8 / pf_days(flop), 0.050)


def chinchilla_optimum(flop: float) -> tuple[float, float]:
    """(N, D) of least loss for this compute: about 20 tokens for each parameter."""
    size = math.sqrt(flop / (6 * 20))
    return size, flop / (6 * size)


def kaplan_optimum(flop: float) -> tuple[float, float]:
    """(N, D) as Kaplan et al. have it: N = 1.3e9 C^0.73 for C in PF-days, so most of the compute goes into size."""
    size = 1.3e9 * pf_days(flop) ** 0.73
    return size, flop / (6 * size)


def optimal_tokens(size: float) -> float:
    """Tokens for which this size is Chinchilla's optimum."""
    return 20.0 * size
