"""The longest way of a gradient between two tokens of n, by architecture (Vaswani et al., 2017, arXiv:1706.03762, table 1).

How many operations stand between the first token and the last, which must be gone through one after the other to learn how one bears on the
other: n - 1 steps of a recurrent network; ⌈(n - 1) / (k - 1)⌉ layers of convolutions of k tokens that look back (ConvS2S: Gehring et al.,
2017, arXiv:1705.03122); ⌈log_k n⌉ layers where each spreads its taps k times as far as the one before (ByteNet: Kalchbrenner et al., 2016,
arXiv:1610.10099, which doubles them); 1 layer of self-attention. Measured: layers are stacked, or steps made, until the last output has a
gradient with respect to the first input; and the norm of that gradient, in double precision, with the weights that layers begin with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.language.gpt import GPTConfig
from weft.nn.recurrent import RecurrentLayer
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Numbers n of tokens."""
    kernel: int = 3
    """Tokens k that a convolution sees."""
    width: int = 16
    """Of the states."""
    seed: int = 0
    """Of weights and inputs."""


class CausalConvolution(nn.Module):
    """A convolution that looks back, with a gate: v * sigmoid(g)."""

    def __init__(self, width: int, kernel: int, dilation: int = 1):
        super().__init__()
        self.back = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(width, 2 * width, kernel, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """x (T, D) -> (T, D)."""
        return F.glu(self.convolution(F.pad(x.mT, (self.back, 0))[None])[0].mT, dim=-1)


def recurrent(settings: Settings, length: int) -> tuple[int, float]:
    """Steps of a tanh network that the last output's gradient goes through on its way to the first input, and its norm there."""
    x = inputs(settings, length)
    layer, state, passed = RecurrentLayer("rnn", settings.width, settings.width).double(), None, list[Tensor]()
    for step in range(length):
        _, state = layer(x[None, step : step + 1], None, state)
        passed.append(state["h"])
    *before, last = passed
    found = torch.autograd.grad(last.sum(), before, retain_graph=True)
    return sum(bool(each.any()) for each in found), gradient(last[0], x)


def stacked(settings: Settings, length: int, make: Callable[[int], Layer]) -> tuple[int, float]:
    """Layers until the last output depends on the first input, and the norm of the gradient there."""
    x = hidden = inputs(settings, length)
    for number in range(length):
        hidden = make(number)(hidden)
        if reaches(hidden[-1], x):
            return number + 1, gradient(hidden[-1], x)
    raise AssertionError("as many layers as tokens connect all of them")


def inputs(settings: Settings, length: int) -> Tensor:
    """Noise (T, D), from which layers made next draw on."""
    torch.manual_seed(settings.seed)
    return torch.randn(length, settings.width, dtype=torch.double, requires_grad=True)


def gradient(output: Tensor, x: Tensor) -> float:
    """Norm of the Jacobian of an output (D,) with respect to the first input."""
    rows = [torch.autograd.grad(one, x, retain_graph=True)[0][0] for one in output]
    return float(torch.stack(rows).norm())


def reaches(output: Tensor, x: Tensor) -> bool:
    return bool(torch.autograd.grad(output.sum(), x, retain_graph=True)[0][0].any())


def attention(settings: Settings, length: int) -> Layer:
    """A block of a Transformer."""
    config = GPTConfig(vocabulary=1, context=length, layers=1, heads=1, width=settings.width)
    block = config.build().double().blocks[0]
    return lambda x: block(x[None])[0]  # type: ignore[no-any-return]


def study(settings: Settings) -> Finding:
    """Measure the four architectures, beside their formulas."""
    k = settings.kernel
    if not settings.lengths or min(settings.lengths) < 2 or k < 2 or settings.width < 1:
        raise ConfigError("expected lengths and a kernel of at least 2, and a width of at least 1")
    kinds: dict[str, tuple[str, Callable[[int], int], Callable[[int], tuple[int, float]]]] = {
        "recurrent": ("n - 1", lambda n: n - 1, lambda n: recurrent(settings, n)),
        "ConvS2S": (
            "⌈(n - 1) / (k - 1)⌉",
            lambda n: math.ceil((n - 1) / (k - 1)),
            lambda n: stacked(settings, n, lambda _: CausalConvolution(settings.width, k).double()),
        ),
        "ByteNet": (
            "⌈log_k n⌉",
            lambda n: next(m for m in range(n) if k**m >= n),
            lambda n: stacked(settings, n, lambda number: CausalConvolution(settings.width, k, k**number).double()),
        ),
        "Transformer": ("1", lambda n: 1, lambda n: stacked(settings, n, lambda _: attention(settings, n))),
    }
    rows, paths, gradients, wrong = [], [], [], []
    for number, (name, (formula, expected, measure)) in enumerate(kinds.items()):
        found = {length: measure(length) for length in settings.lengths}
        wrong += [f"{name} at {length}" for length, (path, _) in found.items() if path != expected(length)]
        paths.append(Curve(name, [(float(length), float(path)) for length, (path, _) in found.items()], f"c{number}"))
        gradients.append(Curve(name, [(float(length), max(norm, 1e-30)) for length, (_, norm) in found.items()], f"c{number}"))
        lengths = (f"{found[length][0]} ({expected(length)})" for length in settings.lengths)
        rows.append((name, formula, *lengths, f"{found[settings.lengths[-1]][1]:.1e}"))
    figure = chart("operations between the first token and the last, by n", paths, tall=True, log=True, across="n, tokens")
    figure += chart("norm of the gradient over that way, by n", gradients, tall=True, log=True, across="n, tokens")
    last = settings.lengths[-1]
    head = ("architecture", "formula", *(f"n = {length}: measured (formula)" for length in settings.lengths), f"gradient at {last}")
    agree = "as the formulas say" if not wrong else f"but for {', '.join(wrong)} as the formulas say"
    ways = ", ".join(f"{row[0]} {row[-2].split()[0]}" for row in rows)
    claim = f"Between the first and the last of {last} tokens stand so many operations, {agree}, with k = {k}: {ways}."
    return Finding("Path lengths", claim, head, tuple(rows), figure)
