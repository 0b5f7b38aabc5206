"""What each setting of a run's execution may be where nobody asks, and why: by the device, the model, the objective and the optimiser."""

from __future__ import annotations

import importlib.util

from torch import nn

from weft.core.errors import ConfigError
from weft.objectives.base import Objective
from weft.training.optimizer.settings import OptimConfig, copies_itself
from weft.training.settings import Train

Options = list[tuple[bool, str, str]]
"""What a choice may be: a condition, the value, and why; the first whose condition holds."""


def resolve(asked: str, options: Options) -> tuple[str, str]:
    """What was asked for, or the first option whose condition holds; and why."""
    return (asked, "asked for") if asked != "auto" else next((value, why) for condition, value, why in options if condition)


def of_precision(gpu: bool, size: int, bf16: bool, refused: str) -> Options:
    """size: number of parameters; bf16: whether the device has instructions for it."""
    return [
        (bool(refused), "fp32", refused),
        (not bf16, "fp32", "no bf16 instructions on this device"),
        (not gpu and size < 100_000, "fp32", f"{size:,} parameters are too few to gain from bf16"),
        (True, "bf16", "matrix products are about twice as fast; weights and sums stay fp32"),
    ]


def of_compile(gpu: bool, steps: int, stages: int, refused: str) -> Options:
    return [
        (bool(refused), "off", refused),
        (stages > 1, "off", "a stage leaves the objective in its middle"),
        (not gpu, "off", "on a CPU it costs 11 to 18 s and gained nothing where measured"),
        (importlib.util.find_spec("triton") is None, "off", "triton is not installed"),
        (steps < 500, "off", f"{steps} steps are too few to repay it"),
        (True, "on", "fuses the small operations of a step"),
    ]


def of_graphs(gpu: bool, processes: int, refused: str) -> Options:
    return [
        (not gpu, "off", "only a GPU has them"),
        (processes > 1, "off", "several processes add up their gradients within an update"),
        (bool(refused), "off", refused),
        (True, "on", "one launch per update instead of hundreds"),
    ]


def of_attention(gpu: bool, cudnn: bool, precision: str) -> Options:
    """cudnn: whether cuDNN's kernel is the fastest here, and may be taken."""
    return [
        (cudnn, "cudnn", "the fastest fused kernel on Hopper and later"),
        (gpu, "fused", "one kernel that never writes the scores"),
        (precision == "bf16", "explicit", "PyTorch's fused CPU kernel is several times slower than matrix products in bf16"),
        (True, "fused", "PyTorch's fused CPU kernel is as fast as matrix products in fp32"),
    ]


def of_blocks(gpu: bool, precision: str, tiles: bool, processes: int, objective: Objective) -> Options:
    """tiles: whether this is a CPU that multiplies whole tiles of bf16."""
    return [
        (tiles and precision == "bf16", "plain", "PyTorch multiplies by this CPU's matrix tiles, the C kernels do not"),
        (not objective.compile and not gpu, "plain", "the objective takes a second derivative"),
        (processes > 1, "plain", "several processes share out their weights"),
        (gpu and precision != "bf16", "plain", "matmuls are not in bf16"),
        (gpu and importlib.util.find_spec("triton") is None, "plain", "Triton is not installed"),
        (True, "fused", "by kernels of our own where these serve"),
    ]


def of_fused_casts(never_fused: str, cross_entropy: str) -> Options:
    return [
        (bool(never_fused), "off", never_fused),
        (cross_entropy != "chunked", "off", "the casts of a small model's matrices take no time"),
        (True, "on", "Adam itself reads bf16 gradients of matrices and writes their bf16 copies, which spares a pass for each"),
    ]


def never_fused(settings: Train, gpu: bool, precision: str, objective: Objective, optim: object, processes: int) -> str:
    """Why Adam cannot hold bf16 copies of the matrices; nothing where it can."""
    reasons = {
        "it needs a GPU and Triton": not gpu or importlib.util.find_spec("triton") is None,
        "matmuls are not in bf16": precision != "bf16",
        "bf16 gradients should not be added up over micro-batches": 0 < settings.micro_batch < settings.batch,
        "it does not know several processes": processes > 1,
        "it is for Adam and AdamW without l1, l2, clip_value, scale_parameter and eps_inside_sqrt": not isinstance(optim, OptimConfig)
        or not copies_itself(optim),
        "the objective has several turns or changes weights itself": len(objective.turns) > 1
        or type(objective).after_update is not Objective.after_update,
    }
    return next((why for why, holds in reasons.items() if holds), "")


LARGE = 4096
"""From which vocabulary on logits are made in chunks."""


def of_cross_entropy(gpu: bool, model: nn.Module, objective: Objective) -> Options:
    refused, vocabulary = never_chunked(model, objective), head_size(model)
    return [
        (bool(refused), "whole", refused),
        (not gpu, "whole", "memory is no limit on a CPU"),
        (vocabulary < LARGE, "whole", f"a vocabulary of {vocabulary:,} is small"),
        (True, "chunked", "the logits of a batch would be its largest tensor by far"),
    ]


def of_activations(size: int, memory: float) -> Options:
    """By the parameters, and the bytes of a GPU's memory; 0 on a CPU."""
    share = 16 * size / memory if memory else 0.0
    costly = f"weights and optimiser take {100 * share:.0f} % of the memory, so what is cheap is computed again"
    return [(share > 1 / 8, "selective", costly), (True, "none", "nothing is computed twice")]


def never_chunked(model: nn.Module, objective: Objective) -> str:
    """Why logits cannot be made in chunks, from the matrix of the head; nothing where they can."""
    if not hasattr(objective, "logits_backend"):
        return "the objective has no head over a vocabulary"
    from weft.kernels import select

    return select.head_refused(getattr(model, "head", None))


def head_size(model: nn.Module) -> int:
    """Rows of a head over a vocabulary; 0 where there is none."""
    return getattr(getattr(model, "head", None), "out_features", 0)


REFUSALS = {
    "autocast": ("precision", "bf16", "takes small differences of large numbers", "refuses bf16"),
    "compile": ("compile", "on", "takes a second derivative", "refuses to be compiled"),
    "capture": ("cuda_graphs", "on", "decides things on the host", "refuses CUDA graphs"),
}
"""What an objective, a model or a part of one forbids by an attribute that is False: the setting, its value, and how it is said of each."""


def refused(model: nn.Module, objective: Objective, what: str, traced: frozenset[int] = frozenset()) -> str:
    """Why a step must not be run in bf16 (autocast), compiled, or captured in a CUDA graph (capture); nothing where it may. traced: ids of
    layers that can be compiled though they say no."""
    _, _, of_objective, of_model = REFUSALS[what]
    if getattr(objective, what) is False:
        return f"the objective {of_objective}"
    may = traced if what == "compile" else frozenset()
    refusing = (module for module in model.modules() if getattr(module, what, True) is False and id(module) not in may)
    return next((f"{type(module).__name__} {of_model}" for module in refusing), "")


def check_refusals(settings: Train, model: nn.Module, objective: Objective, traced: frozenset[int] = frozenset()) -> None:
    """Raise where a setting asks for what the model or the objective forbids."""
    for what, (setting, value, *_) in REFUSALS.items():
        if getattr(settings, setting) == value and (why := refused(model, objective, what, traced)):
            raise ConfigError(f"--train.{setting} {value} cannot be had: {why}; leave it out")
