"""What a run costs: the FLOPs of its steps, the share they make of what its machine could do, and an estimate of the energy it takes.

FLOPs are counted from the shapes of the first examples, as those of a plan are, but for what a kernel computes a second time, which MFU
leaves out (Chowdhery et al., 2022, arXiv:2204.02311, appendix B): for a GPT this is about 6 N + 12 L D T a token.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from weft.core import config
from weft.core.units import duration
from weft.data.base import Data
from weft.objectives.base import Objective
from weft.planning import devices
from weft.planning.footprint import counts_of
from weft.planning.subject import Subject, drawn
from weft.recipes.base import Recipe

GPU_WATTS = 500.0
"""Of a GPU that no plan knows, with its share of the machine."""
THREAD_WATTS = 15.0
"""Of a core of a CPU, with its share of the machine."""
SIDE = {"cpu": 1024, "cuda": 4096}
"""Of the matrices whose product tells what a machine can do."""


@dataclass(frozen=True)
class Machine:
    """All devices of a run together."""

    peak: float
    """FLOP/s of matrix products."""
    promised: bool
    """Whether the peak is what the maker promises; otherwise a product was timed."""
    watts: float


def machine(device: torch.device, processes: int = 1, precision: str = "bf16") -> Machine:
    """What a process's device can do, times the processes."""
    if known := promised(device):
        return Machine(known.peak * processes, True, known.watts * processes)
    watts = GPU_WATTS if device.type == "cuda" else THREAD_WATTS * torch.get_num_threads()
    return Machine(timed_product(device.type, precision) * processes, False, watts * processes)


def promised(device: torch.device) -> devices.Device | None:
    """What plans know of a GPU; the makers' figures are of those that are no cards for a slot."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((known for word, known in devices.DEVICES.items() if word.upper() in name and "PCI" not in name.upper()), None)


@cache
def timed_product(device: str, precision: str) -> float:
    """FLOP/s of the fastest of a few large products."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    side, taken = SIDE[device], []
    factor = torch.linspace(-1.0, 1.0, side * side, device=device).view(side, side).to(kind)
    for _ in range(8):
        begun = time.perf_counter()
        float((factor @ factor)[0, 0])  # waits for the device
        taken.append(time.perf_counter() - begun)
    return 2.0 * side**3 / min(taken)


def flops_of_draw(recipe: Recipe, data: Data, objective: Objective) -> float:
    """FLOPs that a resolved recipe spends on each example it draws, forward and backward; 0 where they cannot be counted."""
    batches = 1 + sum(turn.fresh for turn in objective.turns[1:])
    try:
        return flops_of_example(recipe, data) / batches
    except Exception:  # whatever a model or its objective asks of numbers that are not there
        return 0.0


COUNTED: dict[str, float] = {}
"""What was counted before, as a program may train a model more than once."""


def flops_of_example(recipe: Recipe, data: Data) -> float:
    """The mean over all examples; where not all have one shape, of the commonest, in proportion to the numbers in each."""
    shapes = data.train.shapes()
    if len(shapes) == 1:
        return flops_of_shape(recipe, data, None)
    size = {example: sum(tensor.numel() for tensor in drawn(data, example)(1).values()) for example, _ in shapes}
    commonest = max(shapes, key=lambda shape: shape[1])[0]
    mean = sum(size[example] * number for example, number in shapes) / sum(number for _, number in shapes)
    return flops_of_shape(recipe, data, commonest) * mean / size[commonest]


def flops_of_shape(recipe: Recipe, data: Data, example: int | None) -> float:
    """Of examples of the shape that this one has, or the first ones."""
    tokens, make = int(data.info.get("tokens", 1)), drawn(data, example)
    subject = Subject(recipe.name, recipe.model, recipe.objective, make, tokens, recipe.train.batch, 0.0, train=recipe.train)
    shapes = {name: tuple(tensor.shape) for name, tensor in subject.make(1).items()}
    of = json.dumps([config.to_dict(recipe.model), config.to_dict(recipe.objective), shapes], sort_keys=True, default=str)
    if of not in COUNTED:
        COUNTED[of] = counts_of(subject).useful * tokens
    return COUNTED[of]


def facts(flops: float, draws: int, rate: float, seconds: float, machine: Machine, processes: int) -> dict[str, Any]:
    """The cost of a run of so many draws, made at a rate of so many a second, in so many seconds; as plain values."""
    return {
        "flops_per_example": flops,
        "flops": flops * draws,
        "flops_per_second": flops * rate,
        "mfu": flops * rate / machine.peak,
        "peak_flops_per_second": machine.peak,
        "peak": "promised" if machine.promised else "measured",
        "seconds": seconds,
        **devices.energy(machine.watts / processes, seconds / 3600 * processes),
        "watts": machine.watts,
        "pue": devices.PUE,
        "carbon_kg_per_kwh": devices.CARBON,
    }


def lines(cost: dict[str, Any]) -> list[str]:
    """What a cost says to people; nothing where it is not known."""
    if not cost:
        return []
    of = "the maker's figure" if cost["peak"] == "promised" else "what large products reach here"
    rate, peak = (of_second(cost[name]) for name in ("flops_per_second", "peak_flops_per_second"))
    return [
        f"compute: {cost['flops']:.3g} FLOP, {rate}, MFU {100 * cost['mfu']:.1f} % of {peak}, {of}"
        if cost["flops"]
        else "compute: no matrix products were counted",
        f"energy: about {cost['kwh']:.2g} kWh, {cost['co2_kg']:.2g} kg CO2 ({cost['watts']:,.0f} W for {duration(cost['seconds'])}, "
        f"PUE {cost['pue']}, {cost['carbon_kg_per_kwh']} kg CO2 per kWh)",
    ]


def of_second(rate: float) -> str:
    """12.3 GFLOP/s."""
    size, word = next(((size, word) for size, word in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")) if rate >= size), (1.0, ""))
    return f"{rate / size:.3g} {word}FLOP/s"
