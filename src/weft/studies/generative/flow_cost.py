"""What a flow costs as the number d of dimensions grows: its determinant, its density and its samples.

The determinant of a Jacobian without structure takes d³ operations, that of a triangular one d. An autoregressive flow (MAF) has its
density in one pass and a sample in d; the inverse one (IAF) a sample in one pass and the density of anything else in d; couplings
(RealNVP) take one pass either way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.generative.iaf import IAFConfig
from weft.models.generative.maf import MAFConfig
from weft.models.generative.realnvp import RealNVPConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

Seconds = dict[str, dict[int, float]]


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    dimensions: tuple[int, ...] = (16, 32, 64, 128, 256)
    """Numbers of dimensions of the flows."""
    determinants: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """Sizes of the Jacobians."""
    batch: int = 32
    """Examples at once."""
    hidden: int = 128
    """Width of the networks' hidden layer, whatever d is."""
    repeats: int = 3
    """Runs of each, of which the fastest counts."""


def fastest(action: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run; one before them is for warming up."""
    action()
    times = []
    for _ in range(max(1, repeats)):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def determinants(settings: Settings) -> Seconds:
    """log |det| of one matrix: by elimination, and where it is triangular from its diagonal."""
    found: Seconds = {"any Jacobian, d³": {}, "triangular, d": {}}
    for size in sorted(settings.determinants):
        matrix = torch.randn(size, size, generator=torch.Generator().manual_seed(0)) + 4 * torch.eye(size)
        found["any Jacobian, d³"][size] = fastest(lambda matrix=matrix: torch.linalg.slogdet(matrix), settings.repeats)  # type: ignore[misc]
        found["triangular, d"][size] = fastest(lambda matrix=matrix: matrix.diagonal().abs().log().sum(), settings.repeats)  # type: ignore[misc]
    return found


def flows(settings: Settings) -> Seconds:
    """Density of given points and samples of each flow."""
    found: Seconds = {}
    kinds = {"MAF": MAFConfig, "IAF": IAFConfig, "RealNVP": RealNVPConfig}
    for size in sorted(settings.dimensions):
        x, key = torch.randn(settings.batch, size, generator=torch.Generator().manual_seed(0)), torch.arange(settings.batch)
        for name, kind in kinds.items():
            flow = kind(features=size, layers=2, hidden=(settings.hidden,)).build().eval()
            density, samples = timed(flow, x, key, settings.repeats)
            found.setdefault(f"{name} density", {})[size] = density
            found.setdefault(f"{name} samples", {})[size] = samples
    return found


@torch.no_grad()
def timed(flow: Any, x: Tensor, key: Tensor, repeats: int) -> tuple[float, float]:
    return fastest(lambda: flow.log_prob(x), repeats), fastest(lambda: flow.sample(key), repeats)


PASSES = {
    "MAF density": "1",
    "MAF samples": "d",
    "IAF density": "d (1 for its own samples)",
    "IAF samples": "1",
    "RealNVP density": "1",
    "RealNVP samples": "1",
}


def study(settings: Settings) -> Finding:
    """Time determinants and flows over the dimensions."""
    sizes = (*settings.dimensions, *settings.determinants, settings.batch, settings.hidden)
    if not settings.dimensions or not settings.determinants or min(sizes) < 1:
        raise ConfigError("--dimensions and --determinants need at least one number each, and nothing may be below 1")
    jacobians, times = determinants(settings), flows(settings)
    figure = drawn("milliseconds of log |det| of one Jacobian, by its size d", jacobians)
    figure += drawn(f"milliseconds for {settings.batch} examples, by dimensions d", times)
    first, last = min(settings.dimensions), max(settings.dimensions)
    rows = [row(name, own, "") for name, own in jacobians.items()] + [row(name, own, PASSES[name]) for name, own in times.items()]
    grown = {name: own[last] / own[first] for name, own in times.items()}
    claim = (
        f"From d = {first} to {last}, {last / first:.0f} times as many dimensions, MAF's samples take {grown['MAF samples']:.0f} times "
        f"as long and its density {grown['MAF density']:.1f} times; IAF's density {grown['IAF density']:.0f} times and its samples "
        f"{grown['IAF samples']:.1f} times. A triangular determinant of size {max(settings.determinants)} takes "
        f"{1e6 * jacobians['triangular, d'][max(settings.determinants)]:.0f} µs, any other "
        f"{1e6 * jacobians['any Jacobian, d³'][max(settings.determinants)]:.0f} µs."
    )
    head = ("what", "passes", "smallest d", "largest d", "ratio")
    return Finding("Cost of flows", claim, head, tuple(rows), figure)


def row(name: str, own: dict[int, float], passes: str) -> tuple[str, ...]:
    low, high = min(own), max(own)
    return (name, passes, f"{1e3 * own[low]:.3f} ms at {low}", f"{1e3 * own[high]:.3f} ms at {high}", f"{own[high] / own[low]:.1f}")


def drawn(title: str, times: Seconds) -> str:
    curves = [Curve(name, [(float(d), 1e3 * s) for d, s in own.items()], f"c{i % 8}") for i, (name, own) in enumerate(times.items())]
    return chart(title, curves, tall=True, across="d", log=True)
