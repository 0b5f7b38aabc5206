"""How a run is executed: device, precision, compilation, captured graphs and kernels, chosen in one place and explained."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from weft.core.errors import ConfigError
from weft.kernels.usage import Machine, UsageSpec, has_layers_with_kernels
from weft.objectives.base import Objective
from weft.training import execution_options as options
from weft.training.settings import Train

if TYPE_CHECKING:
    from weft.kernels.select import Choice


@dataclass
class ExecutionPlan:
    device: torch.device
    precision: str
    compile: bool
    graphs: bool
    attention: str
    blocks: str
    cross_entropy: str
    activations: str
    fused_casts: bool
    deterministic: bool
    reasons: dict[str, str] = field(default_factory=dict)
    use: UsageSpec = field(default_factory=UsageSpec)
    """How the model is used, as its kernels are asked."""
    kernels: list[Choice] = field(default_factory=list)
    """What computes each kind of block and attention."""

    def line(self) -> str:
        """What was chosen, in a few words; `lines` says why."""
        names = dict.fromkeys(name for one in self.kernels for name in one.chosen)
        also = {"compiled": self.compile, "CUDA graphs": self.graphs, "chunked cross-entropy": self.cross_entropy == "chunked"}
        also |= {f"{self.activations} activation checkpointing": self.activations != "none", "fused casts": self.fused_casts}
        kernels = [f"kernels {' and '.join(names)}"] if names else ["plain layers"] if self.kernels else []
        return ", ".join([str(self.device), self.precision, *(word for word, chosen in also.items() if chosen), *kernels])

    def lines(self) -> list[str]:
        """Every choice and its reason."""
        chosen = {
            "device": str(self.device),
            "precision": self.precision,
            "compile": "on" if self.compile else "off",
            "cuda_graphs": "on" if self.graphs else "off",
            "cross_entropy": self.cross_entropy,
            "activation_checkpointing": self.activations,
            "fused_casts": "on" if self.fused_casts else "off",
        }
        lines = [f"{name} {value}: {self.reasons[name]}" for name, value in chosen.items()]
        kernel_lines = [f"{one.what} {one.line()}" for one in self.kernels]
        kernel_lines = [f"{line} ({self.reasons['attention']})" if line.startswith("attention") else line for line in kernel_lines]
        return [*lines[:4], *kernel_lines, *lines[4:]]

    def table(self) -> list[dict[str, str]]:
        """Every implementation for every kind of block and attention, and why it was refused."""
        return [row for one in self.kernels for row in one.table()]

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Run matrix products in the chosen precision."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            yield

    def tf32(self) -> contextlib.AbstractContextManager[None]:
        """What holds around a whole step, backward pass included: whether products of fp32 matrices may be rounded."""
        return tf32_products(self.precision != "fp32")


@contextlib.contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Let a GPU round the factors of fp32 products to 10 bits (TF32), or forbid it, whatever holds outside."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = allowed
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


COMPILER: dict[str, Any] = {"combo_kernels": True}
"""Options of the compiler on a GPU. Many weights are cast and many biases summed: combined, these tiny kernels cost a tenth less of a
small model's step."""


def select_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"{name!r} is not a device; use auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"weft does not run on {name!r}; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"{name!r} was asked for, but this machine has no usable GPU; use cpu or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"there is no device {name!r}; this machine has {torch.cuda.device_count()} GPUs, counted from 0")
    return device


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bf16 matrices by instruction; without it bf16 is emulated and slower than fp32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or cpu_has_tiles())


def cpu_has_tiles() -> bool:
    """Whether this CPU multiplies whole tiles of bf16 by instruction, several times as fast as vectors (AMX)."""
    return bool(torch.cpu._is_amx_tile_supported())


def choose(
    settings: Train, model: nn.Module, objective: Objective, optim: object = None, processes: int = 1, stages: int = 1
) -> ExecutionPlan:
    """Decide from (device, model, objective) what the settings leave open, and say why; on the optimiser only the update depends."""
    device = select_device(settings.device)
    gpu = device.type == "cuda"
    traced = traced_layers(settings, model, objective, device)
    options.check_refusals(settings, model, objective, traced)
    size = sum(p.numel() for p in model.parameters())
    reasons = {"device": "asked for" if settings.device != "auto" else "a GPU is present" if gpu else "no GPU is present"}

    def decide(name: str, among: options.Options) -> str:
        value, reasons[name] = options.resolve(getattr(settings, name), among)
        return value

    bf16 = torch.cuda.is_bf16_supported() if gpu else cpu_has_bf16()
    hopper = gpu and torch.cuda.get_device_capability(device) >= (9, 0)
    tiles = not gpu and cpu_has_tiles()
    precision = decide("precision", options.of_precision(gpu, size, bf16, options.refused(model, objective, "autocast")))
    why = options.refused(model, objective, "compile", traced if precision == "bf16" else frozenset())
    compiled = decide("compile", options.of_compile(gpu, settings.steps, stages, why))
    graphs = decide("cuda_graphs", options.of_graphs(gpu, processes, options.refused(model, objective, "capture")))
    attention = decide("attention", options.of_attention(gpu, hopper and not settings.deterministic, precision))
    blocks = decide("block_kernels", options.of_blocks(gpu, precision, tiles, processes, objective))
    cross_entropy = decide("cross_entropy", options.of_cross_entropy(gpu, model, objective))
    memory = torch.cuda.get_device_properties(device).total_memory if gpu else 0
    activations = decide("activation_checkpointing", options.of_activations(size, memory))
    why = options.never_fused(settings, gpu, precision, objective, optim, processes)
    casts = decide("fused_casts", options.of_fused_casts(why, cross_entropy))
    # what was asked for and cannot be had
    if casts == "on" and why:
        casts, reasons["fused_casts"] = "off", f"on was asked for, but {why}"
    if cross_entropy == "chunked" and (why := options.never_chunked(model, objective)):
        cross_entropy, reasons["cross_entropy"] = "whole", f"chunked was asked for, but {why}"
    if graphs == "on" and not gpu:
        graphs, reasons["cuda_graphs"] = "off", "on was asked for, but only a GPU has them"
    if attention == "cudnn" and not gpu:
        attention, reasons["attention"] = "fused", "cudnn was asked for, but it needs a GPU"
    plain = settings.block_kernels == "plain"
    second = "" if objective.compile else "the objective takes a second derivative"
    use = UsageSpec(
        machine=Machine.of(device),
        precision=precision,
        attention=attention,
        attention_asked=settings.attention == attention,
        compiled=compiled == "on",
        no_blocks="" if blocks == "fused" else "plain was asked for" if plain else reasons["block_kernels"],
        plain_recurrence="plain was asked for" if plain else second,
        checkpointing=activations,  # type: ignore[arg-type]
    )
    choices = (attention, blocks, cross_entropy, activations, casts == "on")
    kernels = choose_kernels(model, use)
    return ExecutionPlan(device, precision, compiled == "on", graphs == "on", *choices, settings.deterministic, reasons, use, kernels)


def choose_kernels(model: nn.Module, use: UsageSpec, install: bool = False) -> list[Choice]:
    """What computes each kind of block and attention of a model, which is put into their place where it is to be installed."""
    if not has_layers_with_kernels(model):
        return []
    from weft.kernels import select

    return select.install_chosen(model, use) if install else select.choose(model, use)


def traced_layers(settings: Train, model: nn.Module, objective: Objective, device: torch.device) -> frozenset[int]:
    """Ids of the layers that only loops over steps keep from being compiled, where a kernel takes the place of these, in bf16."""
    if device.type != "cuda" or settings.block_kernels == "plain" or not objective.compile or not has_layers_with_kernels(model):
        return frozenset()
    from weft.kernels import select

    return select.traced(model, UsageSpec(machine=Machine.of(device), precision="bf16"))


def keep_memory() -> None:
    """Let the C library keep freed memory instead of returning it and faulting it in again each step: up to a seventh of a CPU step."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        libc = ctypes.CDLL("libc.so.6")
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 1 << 30)
        libc.mallopt(m_trim_threshold, (1 << 31) - 1)


def apply(plan: ExecutionPlan, model: nn.Module, objective: Objective | None = None) -> None:
    """Set what is global, and tell the layers and the objective that offer a choice."""
    if plan.device.type == "cpu":
        keep_memory()
    if plan.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # else every new tensor is written over, which costs a quarter of a small step
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if torch.are_deterministic_algorithms_enabled() != plan.deterministic:  # setting it imports the compiler, 1.5 s
        torch.use_deterministic_algorithms(plan.deterministic)
    plan.kernels = choose_kernels(model, plan.use, install=True)
    if hasattr(objective, "logits_backend"):
        setattr(objective, "logits_backend", plan.cross_entropy)  # noqa: B010
