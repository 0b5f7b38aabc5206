"""What a bottleneck of m latents saves over a GPT of L blocks on l tokens: multiply-adds by count and by law, and time.

Attention multiplies each query with each key, once for the scores and once for the mixture: 2 D multiply-adds a pair. A GPT
has L l² pairs, a Perceiver with a learned basis 2 l m + (L - 2) m², with the last positions as queries l m + (L - 1) m².
Pairs hidden by the causal mask are counted too; a kernel may skip them. Everything else is linear layers, whose cost follows
the number of positions: L l against l + (L - 1) m for the learned basis. So half the length saves three quarters of the
attention products but only half of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.base import ModelConfig
from weft.models.language.gpt import GPTConfig
from weft.models.language.perceiver import PerceiverConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.runs.record import Points
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
    repeats: int = 2
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
Row = dict[Case, Cost]
VOCABULARY = 256
STEPS = 64
"""Points drawn of a law."""


def model(settings: Settings, case: Case) -> ModelConfig:
    length, latents = case
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "context": length}
    sizes |= {"layers": settings.layers, "heads": settings.heads, "width": settings.width}
    return PerceiverConfig(**sizes, latents=latents, queries=settings.queries) if latents else GPTConfig(**sizes, tie_embeddings=False)


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
    torch.autograd.backward(F.cross_entropy(network(ids)[0], ids[0]))
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


def saved(part: float, whole: float) -> str:
    return share(whole - part, whole)


def conclusion(settings: Settings, found: Row) -> str:
    """What the numbers say, in words."""
    formula = "2 ℓ m + (L − 2) m²" if settings.queries == "learned" else "ℓ m + (L − 1) m²"
    wrong = [case for case, cost in found.items() if cost.attention != cost.law]
    agrees = f"differs in {len(wrong)} of {len(found)} cases" if wrong else f"agrees exactly in all {len(found)} cases"
    text = f"Attention multiplies L ℓ² pairs in a GPT and {formula} in a Perceiver; the count {agrees}."
    gpt = {length: cost for (length, latents), cost in found.items() if not latents}
    halves = [(whole, gpt[long // 2], long) for long, whole in gpt.items() if long % 2 == 0 and long // 2 in gpt]
    if halves:
        whole, half, _ = halves[0]
        text += f" Half the length saves {saved(half.attention, whole.attention)} of these products but only "
        text += f"{saved(half.linear, whole.linear)} of the linear layers: of a whole GPT "
        text += listed(f"{saved(half.together, whole.together)} at ℓ = {long:,}" for whole, half, long in halves) + "."
    latents = reference(settings)
    both = [(found[length, latents], whole, length) for length, whole in gpt.items() if (length, latents) in found]
    if both:
        needs = [(share(own.together, whole.together), share(own.seconds, whole.seconds), length) for own, whole, length in ends(both)]
        text += f" With m = {latents} a Perceiver needs of a GPT's multiply-adds "
        text += listed(f"{work} at ℓ = {length:,} ({time} of its step time)" for work, time, length in needs) + "."
    return text


def ends(items: list[Any]) -> list[Any]:
    """The first and the last, or the only one."""
    return items[:1] + items[1:][-1:]


def listed(parts: Iterable[str]) -> str:
    """ "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def reference(settings: Settings) -> int:
    """The bottleneck told in words: the largest that is at most half of every length, or else the smallest."""
    return max((m for m in settings.bottlenecks if 2 * m <= min(settings.lengths)), default=min(settings.bottlenecks))


def describe(settings: Settings, found: Row) -> Finding:
    """The figures and the table of every cost."""
    lengths, latents = sorted({length for length, _ in found}), sorted({m for _, m in found})
    longest = lengths[-1]
    names = {m: f"m = {m}" if m else "GPT" for m in latents}
    fine = [longest * i // STEPS for i in range(1, STEPS + 1)]
    laws = {names[m]: [(float(n), law(settings, (n, m)) / 1e6) for n in fine if n >= max(m, 1)] for m in latents}
    times = {names[m]: [(float(n), 1e3 * found[n, m].seconds) for n in lengths if (n, m) in found] for m in latents}
    whole, own = found[longest, 0], {m: found[longest, m] for m in latents if m and (longest, m) in found}
    left = {
        "attention products": [(float(m), 100 * cost.attention / whole.attention) for m, cost in own.items()],
        "linear layers": [(float(m), 100 * cost.linear / whole.linear) for m, cost in own.items()],
        "together": [(float(m), 100 * cost.together / whole.together) for m, cost in own.items()],
        "step time": [(float(m), 100 * cost.seconds / whole.seconds) for m, cost in own.items()],
    }
    figure = chart("million attention multiply-adds by the law, by length ℓ", curves(laws), tall=True, across="ℓ")
    figure += chart("step time (ms), by length ℓ", curves(times), tall=True, across="ℓ")
    figure += chart(f"% of a GPT's cost at ℓ = {longest:,}, by latents m", curves(left), tall=True, across="m")
    head = ("length ℓ", "latents m", "attention", "by the law", "linear layers", "together", "of a GPT", "step", "of a GPT")
    body = tuple(row(case, cost, found[case[0], 0]) for case, cost in found.items())
    threads = torch.get_num_threads()
    size = f"{settings.layers} blocks of width {settings.width}; the table counts million multiply-adds of one sequence forward, and "
    size += f"a step is forward and backward on {threads} CPU thread{'s' * (threads > 1)}"
    return Finding("Cost of a Perceiver", f"{conclusion(settings, found)} ({size}.)", head, body, figure)


def curves(lines: dict[str, Points]) -> list[Curve]:
    return [Curve(name, points, f"c{i % 8}") for i, (name, points) in enumerate(lines.items())]


def row(case: Case, cost: Cost, whole: Cost) -> tuple[str, ...]:
    numbers = (f"{value / 1e6:,.1f}" for value in (cost.attention, cost.law, cost.linear, cost.together))
    time = (f"{1e3 * cost.seconds:.1f} ms", share(cost.seconds, whole.seconds))
    return (f"{case[0]:,}", f"{case[1]}" if case[1] else "GPT", *numbers, share(cost.together, whole.together), *time)
