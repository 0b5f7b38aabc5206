"""How a run is executed: device, precision, compilation, captured graphs and kernels, chosen in one place and explained."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from weft.core.cuda_graph import capturing
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.kernels.usage import Machine, UsageSpec, has_layers_with_kernels
from weft.objectives.base import Objective
from weft.training.optimizer.settings import OptimConfig, copies_itself
from weft.training.settings import Train

if TYPE_CHECKING:
    from weft.kernels.select import Choice

Options = list[tuple[bool, str, str]]
"""What a choice may be: a condition, the value, and why; the first whose condition holds."""


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
    check_refusals(settings, model, objective, traced)
    size = sum(p.numel() for p in model.parameters())
    reasons = {"device": "asked for" if settings.device != "auto" else "a GPU is present" if gpu else "no GPU is present"}

    def decide(name: str, asked: str, options: Options) -> str:
        value, reasons[name] = resolve(asked, options)
        return value

    bf16 = torch.cuda.is_bf16_supported() if gpu else cpu_has_bf16()
    precision = decide(
        "precision",
        settings.precision,
        [
            (bool(why := refused(model, objective, "autocast")), "fp32", why),
            (not bf16, "fp32", "no bf16 instructions on this device"),
            (not gpu and size < 100_000, "fp32", f"{size:,} parameters are too few to gain from bf16"),
            (True, "bf16", "matrix products are about twice as fast; weights and sums stay fp32"),
        ],
    )
    compiled = decide(
        "compile",
        settings.compile,
        [
            (bool(why := refused(model, objective, "compile", traced if precision == "bf16" else frozenset())), "off", why),
            (stages > 1, "off", "a stage leaves the objective in its middle"),
            (not gpu, "off", "on a CPU it costs 11 to 18 s and gained nothing where measured"),
            (importlib.util.find_spec("triton") is None, "off", "triton is not installed"),
            (settings.steps < 500, "off", f"{settings.steps} steps are too few to repay it"),
            (True, "on", "fuses the small operations of a step"),
        ],
    )
    graphs = decide(
        "cuda_graphs",
        settings.cuda_graphs,
        [
            (not gpu, "off", "only a GPU has them"),
            (processes > 1, "off", "several processes add up their gradients within an update"),
            (bool(why := refused(model, objective, "capture")), "off", why),
            (True, "on", "one launch per update instead of hundreds"),
        ],
    )
    hopper = gpu and torch.cuda.get_device_capability(device) >= (9, 0)
    attention = decide(
        "attention",
        settings.attention,
        [
            (hopper and not settings.deterministic, "cudnn", "the fastest fused kernel on Hopper and later"),
            (gpu, "fused", "one kernel that never writes the scores"),
            (precision == "bf16", "explicit", "PyTorch's fused CPU kernel is several times slower than matrix products in bf16"),
            (True, "fused", "PyTorch's fused CPU kernel is as fast as matrix products in fp32"),
        ],
    )
    blocks = decide(
        "block_kernels",
        settings.block_kernels,
        [
            (
                not gpu and precision == "bf16" and cpu_has_tiles(),
                "plain",
                "PyTorch multiplies by this CPU's matrix tiles, the C kernels do not",
            ),
            (not objective.compile and not gpu, "plain", "the objective takes a second derivative"),
            (processes > 1, "plain", "several processes share out their weights"),
            (gpu and precision != "bf16", "plain", "matmuls are not in bf16"),
            (gpu and importlib.util.find_spec("triton") is None, "plain", "Triton is not installed"),
            (True, "fused", "by kernels of our own where these serve"),
        ],
    )
    cross_entropy = decide("cross_entropy", settings.cross_entropy, of_cross_entropy(gpu, model, objective))
    memory = torch.cuda.get_device_properties(device).total_memory if gpu else 0
    activations = decide("activation_checkpointing", settings.activation_checkpointing, of_activations(size, memory))
    why = never_fused(settings, gpu, precision, objective, optim, processes)
    casts = decide("fused_casts", settings.fused_casts, of_fused_casts(why, cross_entropy))
    if casts == "on" and why:
        casts, reasons["fused_casts"] = "off", f"on was asked for, but {why}"
    if cross_entropy == "chunked" and (why := never_chunked(model, objective)):
        cross_entropy, reasons["cross_entropy"] = "whole", f"chunked was asked for, but {why}"
    if graphs == "on" and not gpu:
        graphs, reasons["cuda_graphs"] = "off", "on was asked for, but only a GPU has them"
    if attention == "cudnn" and not gpu:
        attention, reasons["attention"] = "fused", "cudnn was asked for, but it needs a GPU"
    choices = (attention, blocks, cross_entropy, activations, casts == "on")
    use = UsageSpec(
        machine=Machine.of(device),
        precision=precision,
        attention=attention,
        attention_asked=settings.attention == attention,
        compiled=compiled == "on",
        no_blocks=""
        if blocks == "fused"
        else f"plain was {reasons['block_kernels']}"
        if settings.block_kernels == "plain"
        else reasons["block_kernels"],
        plain_recurrence="plain was asked for"
        if settings.block_kernels == "plain"
        else ""
        if objective.compile
        else "the objective takes a second derivative",
        checkpointing=activations,  # type: ignore[arg-type]
    )
    kernels = choose_kernels(model, use)
    return ExecutionPlan(device, precision, compiled == "on", graphs == "on", *choices, settings.deterministic, reasons, use, kernels)


def choose_kernels(model: nn.Module, use: UsageSpec, install: bool = False) -> list[Choice]:
    """What computes each kind of block and attention of a model, which is put into their place where it is to be installed."""
    if not has_layers_with_kernels(model):
        return []
    from weft.kernels import select

    return select.install_chosen(model, use) if install else select.choose(model, use)


REFUSALS = {
    "autocast": ("precision", "bf16", "takes small differences of large numbers", "refuses bf16"),
    "compile": ("compile", "on", "takes a second derivative", "refuses to be compiled"),
    "capture": ("cuda_graphs", "on", "decides things on the host", "refuses CUDA graphs"),
}
"""What an objective, a model or a part of one forbids by an attribute that is False: the setting, its value, and how it is said of each."""


def traced_layers(settings: Train, model: nn.Module, objective: Objective, device: torch.device) -> frozenset[int]:
    """Ids of the layers that only loops over steps keep from being compiled, where a kernel takes the place of these, in bf16."""
    if device.type != "cuda" or settings.block_kernels == "plain" or not objective.compile or not has_layers_with_kernels(model):
        return frozenset()
    from weft.kernels import select

    return select.traced(model, UsageSpec(machine=Machine.of(device), precision="bf16"))


def refused(model: nn.Module, objective: Objective, what: str, traced: frozenset[int] = frozenset()) -> str:
    """Why a step must not be run in bf16 (autocast), compiled, or captured in a CUDA graph (capture); nothing where it may. traced: ids of
    layers that can be compiled though they say no."""
    _, _, of_objective, of_model = REFUSALS[what]
    if getattr(objective, what) is False:
        return f"the objective {of_objective}"
    return next(
        (
            f"{type(module).__name__} {of_model}"
            for module in model.modules()
            if getattr(module, what, True) is False and id(module) not in (traced if what == "compile" else ())
        ),
        "",
    )


def check_refusals(settings: Train, model: nn.Module, objective: Objective, traced: frozenset[int] = frozenset()) -> None:
    """Raise where a setting asks for what the model or the objective forbids."""
    for what, (setting, value, *_) in REFUSALS.items():
        if getattr(settings, setting) == value and (why := refused(model, objective, what, traced)):
            raise ConfigError(f"--train.{setting} {value} cannot be had: {why}; leave it out")


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


def resolve(asked: str, options: Options) -> tuple[str, str]:
    """What was asked for, or the first option whose condition holds; and why."""
    return (asked, "asked for") if asked != "auto" else next((value, why) for condition, value, why in options if condition)


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


class Captured:
    """Replays a function of micro-batches as one CUDA graph, once its shapes have been seen a few times.

    The first calls run for real on a side stream, as a capture must find every allocation made and every kernel compiled.
    """

    WARM_UP = 3

    def __init__(self, function: Callable[[list[Batch]], None]):
        self.function = function
        self.inputs: dict[Any, list[Batch]] = {}
        self.calls: dict[Any, int] = {}
        self.graphs: dict[Any, torch.cuda.CUDAGraph] = {}
        self.side: torch.cuda.Stream | None = None

    def __call__(self, micro: list[Batch]) -> None:
        shape = tuple((name, tuple(t.shape)) for batch in micro for name, t in batch.items())
        if shape not in self.inputs:
            self.inputs[shape] = [
                {name: torch.empty_like(t, memory_format=torch.contiguous_format) for name, t in b.items()} for b in micro
            ]
        inputs = self.inputs[shape]
        for held, given in zip(inputs, micro, strict=True):
            for name, tensor in held.items():
                tensor.copy_(given[name])
        self.calls[shape] = self.calls.get(shape, 0) + 1
        if self.calls[shape] <= self.WARM_UP:
            self._warm_up(inputs)
            return
        if shape not in self.graphs:
            self.graphs[shape] = self._capture(inputs)
        self.graphs[shape].replay()

    def _warm_up(self, inputs: list[Batch]) -> None:
        side = self.side = self.side or torch.cuda.Stream()  # type: ignore[no-untyped-call]  # another would find none of its memory
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.function(inputs)
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self, inputs: list[Batch]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with capturing(graph):
            self.function(inputs)
        return graph
