"""What a bottleneck of m latents saves over a GPT of L blocks on l tokens: multiply-adds by count and by law, and time.

Attention multiplies each query with each key, once for the scores and once for the mixture: 2 D multiply-adds a pair. A GPT
has L l² pairs, a Perceiver with a learned basis 2 l m + (L - 2) m², with the last positions as queries l m + (L - 1) m².
Pairs hidden by the causal mask are counted too; a kernel may skip them. Everything else is linear layers, whose cost follows
the number of positions: L l against l + (L - 1) m for the learned basis. So half the length saves three quarters of the
attention products but only half of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from weft.config import Config
from weft.errors import ConfigError
from weft.models.base import ModelConfig
from weft.models.gpt import GPTConfig
from weft.models.perceiver import PerceiverConfig
from weft.report.svg import Curve, chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    lengths: tuple[int, ...] = (128, 256, 512, 1024)
    """Sequence lengths."""
    bottlenecks: tuple[int, ...] = (32, 64, 128, 256)
    """Numbers of latents; one above a length is left out there."""
    queries: Literal["learned", "last"] = "learned"
    """What the latents are: a learned basis, or the last positions (Perceiver AR)."""
    layers: int = 4
    """Number of blocks L of either model."""
    heads: int = 8
    """Attention heads per block."""
    width: int = 256
    """Size D of the residual stream."""
    repeats: int = 4
    """Steps timed of each model, of which the fastest counts."""


@dataclass(frozen=True)
class Cost:
    attention: int
    """Multiply-adds of the scores and the mixtures, counted."""
    law: int
    """The same by the law."""
    linear: int
    """Multiply-adds of the linear layers, counted."""
    seconds: float
    """Forward and backward pass of one sequence."""

    @property
    def together(self) -> int:
        return self.attention + self.linear


Case = tuple[int, int]
"""(length, latents); 0 latents is the GPT."""
Found = dict[Case, Cost]
VOCABULARY = 256


def model(settings: Settings, case: Case) -> ModelConfig:
    length, latents = case
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "context": length}
    sizes |= {"layers": settings.layers, "heads": settings.heads, "width": settings.width}
    return PerceiverConfig(**sizes, bottleneck=latents, queries=settings.queries) if latents else GPTConfig(**sizes, tied=False)


def law(settings: Settings, case: Case) -> int:
    """Multiply-adds of the attention products, by the law."""
    (length, latents), layers = case, settings.layers
    if not latents:
        pairs = layers * length**2
    elif settings.queries == "learned":
        pairs = 2 * length * latents + (layers - 2) * latents**2
    else:
        pairs = length * latents + (layers - 1) * latents**2
    return 2 * settings.width * pairs


def count(config: ModelConfig, length: int) -> tuple[int, int]:
    """Multiply-adds of one sequence's forward pass, in attention and in linear layers, as PyTorch counts them."""
    # tensors without values cost nothing; the counter does not know the CPU's fused kernel, only the products it stands for
    with FakeTensorMode(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        config.build()(torch.zeros(1, length, dtype=torch.int64))
    found, aten = counter.get_flop_counts()["Global"], torch.ops.aten
    return found[aten.bmm] // 2, (found[aten.addmm] + found[aten.mm]) // 2  # a multiply-add is two operations


def step(network: nn.Module, ids: Tensor) -> float:
    """Seconds of a forward and backward pass; ids (1, T)."""
    start = time.perf_counter()
    F.cross_entropy(network(ids)[0], ids[0]).backward()
    return time.perf_counter() - start


def measure(settings: Settings, cases: list[Case]) -> dict[Case, float]:
    """The fastest of a few steps of each model, in turns, so that a disturbance does not meet one model alone."""
    networks = {case: model(settings, case).build() for case in cases}
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(settings.repeats + 1):  # the first is for warming up
        for case, network in networks.items():
            best[case] = min(best[case], step(network, torch.ones(1, case[0], dtype=torch.int64)))
    return best


def study(settings: Settings) -> Finding:
    """Count and time every combination of length and bottleneck."""
    if not settings.lengths or min(settings.lengths) < 1 or not settings.bottlenecks or min(settings.bottlenecks) < 1:
        raise ConfigError("--lengths and --bottlenecks need at least one number each, none below 1")
    cases = [(length, latents) for length in sorted(set(settings.lengths)) for latents in (0, *sorted(set(settings.bottlenecks)))]
    cases = [(length, latents) for length, latents in cases if latents <= length]
    seconds = measure(settings, cases)
    counted = {case: count(model(settings, case), case[0]) for case in cases}
    return describe(settings, {case: Cost(first, law(settings, case), second, seconds[case]) for case, (first, second) in counted.items()})


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def compare(part: Cost, whole: Cost) -> str:
    """What is left of a cost."""
    return (
        f"attention products {share(part.attention, whole.attention)}, linear layers {share(part.linear, whole.linear)}, "
        f"together {share(part.together, whole.together)}, step time {share(part.seconds, whole.seconds)}"
    )


def conclusion(settings: Settings, found: Found) -> str:
    """What the numbers say, in words."""
    formula = "2 ℓ m + (L − 2) m²" if settings.queries == "learned" else "ℓ m + (L − 1) m²"
    wrong = [case for case, cost in found.items() if cost.attention != cost.law]
    agrees = f"not in {len(wrong)} of {len(found)} cases" if wrong else f"exactly, in all {len(found)} cases"
    text = f"Attention multiplies L ℓ² pairs in a GPT and {formula} in a Perceiver; the count agrees {agrees}."
    lengths = [length for length, latents in found if not latents]
    halves = [(long, long // 2) for long in lengths if long % 2 == 0 and long // 2 in lengths]
    if halves:
        text += " Half the length leaves 25 % of the attention products, but not of the model. What is left of a GPT: "
        ends = dict.fromkeys((halves[0], halves[-1]))
        text += "; ".join(f"from ℓ = {long:,} to {short:,} {compare(found[short, 0], found[long, 0])}" for long, short in ends) + "."
    latents = reference(settings)
    ends = dict.fromkeys(length for length in (lengths[0], lengths[-1]) if (length, latents) in found)
    if ends:
        text += f" What a Perceiver with m = {latents} needs of what a GPT does: "
        text += "; ".join(f"at ℓ = {length:,} {compare(found[length, latents], found[length, 0])}" for length in ends) + "."
    return text


def reference(settings: Settings) -> int:
    """The bottleneck told in words: the largest that is at most half of every length, or else the smallest."""
    return max((m for m in settings.bottlenecks if 2 * m <= min(settings.lengths)), default=min(settings.bottlenecks))


def describe(settings: Settings, found: Found) -> Finding:
    """The figures and the table of every cost."""
    lengths, widths = sorted({length for length, _ in found}), sorted({latents for _, latents in found})
    names = {0: "GPT"} | {latents: f"Perceiver, m = {latents}" for latents in widths if latents}

    def by_length(value: Callable[[Cost], float]) -> list[Curve]:
        rows = {latents: [(float(n), value(found[n, latents])) for n in lengths if (n, latents) in found] for latents in widths}
        return [Curve(names[latents], points, f"c{i % 8}") for i, (latents, points) in enumerate(rows.items())]

    longest = lengths[-1]
    whole, parts = found[longest, 0], {m: cost for (n, m), cost in found.items() if n == longest and m}
    left: dict[str, Callable[[Cost], float]] = {
        "attention products": lambda cost: cost.attention / whole.attention,
        "linear layers": lambda cost: cost.linear / whole.linear,
        "together": lambda cost: cost.together / whole.together,
        "step time": lambda cost: cost.seconds / whole.seconds,
    }
    curves = [Curve(name, [(m, 100 * value(cost)) for m, cost in parts.items()], f"c{i}") for i, (name, value) in enumerate(left.items())]
    figure = chart("attention products (million multiply-adds), by length ℓ", by_length(lambda cost: cost.attention / 1e6), tall=True)
    figure += chart("step time (ms), by length ℓ", by_length(lambda cost: 1e3 * cost.seconds), tall=True)
    figure += chart(f"% of a GPT's cost at ℓ = {longest:,}, by latents m", curves, tall=True)
    head = ("length ℓ", "latents m", "attention", "by the law", "linear", "together", "of a GPT", "step", "of a GPT")
    body = tuple(row(case, cost, found[case[0], 0]) for case, cost in found.items())
    size = f"{settings.layers} blocks, width {settings.width}, one sequence, {torch.get_num_threads()} CPU threads"
    return Finding("Cost of a Perceiver", f"{conclusion(settings, found)} ({size}; costs in million multiply-adds.)", head, body, figure)


def row(case: Case, cost: Cost, whole: Cost) -> tuple[str, ...]:
    numbers = (f"{value / 1e6:,.1f}" for value in (cost.attention, cost.law, cost.linear, cost.together))
    time = (f"{1e3 * cost.seconds:.1f} ms", share(cost.seconds, whole.seconds))
    return (f"{case[0]:,}", f"{case[1]}" if case[1] else "GPT", *numbers, share(cost.together, whole.together), *time)
