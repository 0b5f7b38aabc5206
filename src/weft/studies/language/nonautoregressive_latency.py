"""How long a target takes, by its length: token by token, each of which waits for the one before, or all tokens at once.

A decoder that goes token by token makes N passes for N tokens, so its time grows with N; one that makes all at once makes as many
passes as it is told, whatever N. A pass over more tokens is more work, but as long as a device has idle arithmetic left, not more
time: on a GPU one pass stays flat far beyond the length of a sentence, on a CPU core it grows with the work. Weights are random,
since they do not change the time; both models have the same size, the same source and exactly the wanted length.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.inference.beam_models import translate
from weft.inference.mask_predict import refine
from weft.models.language.nonautoregressive import NonAutoregressiveConfig
from weft.models.language.transformer import TransformerConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training.execution import select_device

VOCABULARY, START, END, NEVER = 8000, 1, 2, -1
"""NEVER is no token, so a search that ends there goes on to the wanted length."""
ONE_BY_ONE = "token by token"


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Numbers of tokens of source and target."""
    iterations: tuple[int, ...] = (1, 4, 10)
    """Passes in which all tokens are made at once."""
    layers: int = 4
    """Number of blocks of encoder and decoder."""
    heads: int = 8
    """Attention heads per block."""
    width: int = 512
    """Size D of the states."""
    ffn_width: int = 1024
    """Width of the feed-forward layer."""
    batch: int = 1
    """Sources translated together."""
    repeats: int = 3
    """Times that each is measured, of which the fastest counts."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


Row = dict[tuple[str, int], float]
"""Seconds by the way a target is made and its length."""


def ways(settings: Settings, length: int) -> dict[str, Callable[[], object]]:
    """Functions that each make a target of a length."""
    device = select_device(settings.device)
    sizes = {name: getattr(settings, name) for name in ("layers", "heads", "width", "ffn_width")}
    torch.manual_seed(0)
    serial = TransformerConfig(vocabulary=VOCABULARY, context=length + 2, norm="pre", **sizes).build().to(device).eval()
    parallel = NonAutoregressiveConfig(vocabulary=VOCABULARY, context=length + 2, **sizes).build().to(device).eval()
    source = torch.randint(3, VOCABULARY, (settings.batch, length), device=device)
    lengths = torch.full((settings.batch,), length, device=device)

    @torch.inference_mode()
    def at_once(iterations: int) -> object:
        return refine(parallel, parallel.encode(source, lengths), lengths, lengths, START, END, iterations)[0].tolist()

    found: dict[str, Callable[[], object]] = {
        ONE_BY_ONE: lambda: translate(serial, source, lengths, START, NEVER, beams=1, length_penalty=0.0, longest=length)
    }
    return found | {named(number): lambda number=number: at_once(number) for number in settings.iterations}


def named(iterations: int) -> str:
    return "in one pass" if iterations == 1 else f"in {iterations} passes"


def measure(settings: Settings) -> Row:
    """The fastest of a few times; the first, which warms up, does not count."""
    found: Row = {}
    for length in sorted(set(settings.lengths)):
        makers = ways(settings, length)
        for turn in range(settings.repeats + 1):
            for way, make in makers.items():
                start = time.perf_counter()
                make()  # ends with reading the tokens, so the device is waited for
                if turn:
                    found[way, length] = min(found.get((way, length), float("inf")), time.perf_counter() - start)
    return found


def study(settings: Settings) -> Finding:
    """Time every way at every length."""
    for name in ("lengths", "iterations"):
        if not getattr(settings, name) or min(getattr(settings, name)) < 1:
            raise ConfigError(f"--{name} needs at least one number, none below 1")
    for name in ("batch", "repeats"):
        if getattr(settings, name) < 1:
            raise ConfigError(f"--{name} must be at least 1, not {getattr(settings, name)}")
    return describe(settings, measure(settings))


def describe(settings: Settings, found: Row) -> Finding:
    """The figure and the table of every time."""
    lengths = sorted({length for _, length in found})
    names = [ONE_BY_ONE, *(named(number) for number in dict.fromkeys(settings.iterations))]
    lines = [Curve(way, [(float(length), 1e3 * found[way, length]) for length in lengths], f"c{i % 8}") for i, way in enumerate(names)]
    figure = chart("milliseconds for a target, by its tokens", lines, tall=True, across="tokens")
    head = ("tokens", *names, *(f"{way}: times as fast" for way in names[1:]))
    rows = []
    for length in lengths:
        slow = found[ONE_BY_ONE, length]
        times = [f"{1e3 * found[way, length]:.1f} ms" for way in names]
        rows.append((f"{length:,}", *times, *(f"{slow / found[way, length]:.1f}" for way in names[1:])))
    return Finding("Targets made at once", conclusion(settings, found, lengths, names), head, tuple(rows), figure)


def threads() -> str:
    number = torch.get_num_threads()
    return f"{number} CPU thread{'s' * (number > 1)}"


def conclusion(settings: Settings, found: Row, lengths: list[int], names: list[str]) -> str:
    """What the numbers say, in words."""
    low, high = lengths[0], lengths[-1]
    grown = {way: found[way, high] / found[way, low] for way in names}
    text = f"A target of {high:,} tokens takes {grown[ONE_BY_ONE]:.1f} times as long as one of {low:,} token by token, and "
    text += f"{grown[names[1]]:.1f} times {names[1]}, which is then {found[ONE_BY_ONE, high] / found[names[1], high]:.0f} times as fast."
    device = select_device(settings.device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else threads()
    size = f"{settings.layers} + {settings.layers} blocks of width {settings.width}, fp32, batch {settings.batch}"
    return f"{text} ({size}, on {where}; encoding the source is included.)"
