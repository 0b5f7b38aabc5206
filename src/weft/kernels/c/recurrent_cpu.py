"""A recurrent layer over all its steps on a CPU, as one operation with a backward pass of our own.

The products of its inputs and the gradients of its weights are large products over all steps (`products.c`); between them the steps are in
`recurrent.c`, where each thread takes rows of its own through all of them. Under autocast to bf16 what products read is kept in bf16, else
in fp32; states and gates are in fp32. Shapes: B batch, T time, M = B T, D inputs, H width, R outputs (the projection, or H), G gates.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from weft.kernels.c import compiler, passes
from weft.kernels.c.gpt_block_cpu import kept_type
from weft.kernels.implementation import Implementation, install
from weft.kernels.known import PLAIN_TENSORS
from weft.kernels.spec import RecurrentSpec
from weft.kernels.usage import UsageSpec
from weft.nn.recurrent import GATES, WITH_CELL, RecurrentLayer

CELLS = ("rnn", "lstm", "peephole", "coupled", "gru", "cho_gru")
"""In the order of recurrent_cells.h."""
NUMBERS = ("cell", "B", "T", "D", "H", "R", "G", "threads")
LIMITS = ("cell_clip", "projection_clip")
TENSORS = (
    *("order", "lengths", "x", "weight_ih", "weight_hh", "weight_hr", "peephole", "bias_ih", "bias_hh", "h0", "c0"),
    *("gates", "out", "c", "more", "h_last", "c_last"),
    *("dout", "dh", "dc", "dgates", "dproducts", "dprojected", "bias_grads", "peephole_grads", "space"),
)


PASSES = ("recurrent_forward", "recurrent_backward", "recurrent_room")
SMALL = 1 << 15
"""Weights that one thread reads before another has begun."""


class Layer(ctypes.Structure):
    """What `recurrent.c` is told, by the names that it has there; NULL for a tensor that a cell has not."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in NUMBERS),
        *((name, ctypes.c_float) for name in LIMITS),
        *((name, ctypes.c_void_p) for name in TENSORS),
    ]


@cache
def functions_for(kept: torch.dtype) -> Any:
    """Those in C that keep what products read in a type; None without a compiler, or for another type."""
    if kept not in passes.DEFINED or passes.passes_for(kept) is None:
        return None
    steps, step = (compiler.load(Path(__file__).with_name(name), passes.DEFINED[kept]) for name in ("recurrent.c", "recurrent_step.c"))
    if steps is None or step is None:
        return None
    found = {"recurrent_step": step.recurrent_step, **{name: getattr(steps, name) for name in PASSES}}
    found["recurrent_room"].restype = ctypes.c_int64
    return found


class CPURecurrent(Implementation):
    name, file, slot, where = "C recurrence", "kernels/c/recurrent_cpu.py", "forward", ""

    def refuses(self, spec: RecurrentSpec, use: UsageSpec) -> str:
        reasons = {
            "it is for a CPU": use.machine.device != "cpu",
            "the step is compiled": use.compiled,
            f"the cell is {spec.cell}": spec.cell not in CELLS,
            "weights are not in fp32": spec.dtypes != {"float32"},
            "weights do not lie row after row": not spec.contiguous,
            "processes share out the weights": not spec.plain_tensors,
            f"products are in {use.precision}": use.precision not in ("fp32", "tf32", "bf16"),
            "no C compiler is found": not functions_for(torch.bfloat16 if use.precision == "bf16" else torch.float32),
        }
        return next((why for why, holds in reasons.items() if holds), "")

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, forward)


def forward(
    layer: RecurrentLayer,
    x: Tensor,
    lengths: Tensor | None = None,
    state: Mapping[str, Tensor] | None = None,
    *,
    weight_hh: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`RecurrentLayer.forward`."""
    weight = layer.weight_hh if weight_hh is None else weight_hh
    if not serves(layer, x, weight):
        return RecurrentLayer.forward(layer, x, lengths, state, weight_hh=weight_hh)
    first = layer.first_state(x, state)
    peepholes = (layer.peephole_i, layer.peephole_f, layer.peephole_o) if layer.cell == "peephole" else (None,) * 3
    settings = Settings(layer.cell, layer.cell_clip, layer.projection_clip if layer.projection else None, kept_type())
    tensors = Inputs(
        x,
        layer.weight_ih,
        weight,
        layer.bias_ih,
        layer.bias_hh,
        layer.weight_hr if layer.projection else None,
        *peepholes,
        *first,
        *(None,) * (2 - len(first)),
    )
    learns = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    if x.size(1) == 1 and lengths is None and not learns and x.dtype == settings.kept == torch.float32:
        out, *last = step(settings, tensors)
    else:
        out, *last = _Recurrent.apply(lengths, settings, *tensors)  # type: ignore[no-untyped-call]
    return out, {name: tensor for name, tensor in zip(("h", "c"), last, strict=True) if tensor is not None}


def serves(layer: RecurrentLayer, x: Tensor, weight_hh: Tensor) -> bool:
    """Whether a call can be served: x (B, T, D) and weights on a CPU, in fp32 or under autocast to bf16."""
    tensors = (x, weight_hh, *layer.parameters())
    return (
        not torch.compiler.is_compiling()
        and x.numel() > 0
        and all(type(one) in PLAIN_TENSORS and one.device.type == "cpu" for one in tensors)
        and all(one.dtype == torch.float32 for one in tensors[1:])
        and functions_for(kept_type()) is not None
    )


class Settings(NamedTuple):
    cell: str
    cell_clip: float | None
    projection_clip: float | None
    kept: torch.dtype


class Inputs(NamedTuple):
    """What a layer computes with, or the gradients of it; None for what a cell has not."""

    x: Any
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    weight_hr: Any
    peephole_i: Any
    peephole_f: Any
    peephole_o: Any
    h0: Any
    c0: Any


def step(settings: Settings, given: Inputs) -> tuple[Tensor, Tensor, Tensor | None]:
    """A single step of which nothing is learnt, x (B, 1, D) -> (B, 1, R), and the state."""
    (b, _, d), h, r = given.x.shape, given.weight_hh.size(0) // GATES[settings.cell], given.h0.size(1)
    gates, more, out = torch.empty(b, GATES[settings.cell] * h), torch.empty(b, h), torch.empty(b, r)
    c_last = None if given.c0 is None else torch.empty(b, h)
    held = {**operands(given, settings.cell), "gates": gates, "more": more, "out": out, "c_last": c_last, "x": given.x.contiguous()}
    threads = 1 if given.weight_ih.numel() + given.weight_hh.numel() < SMALL else torch.get_num_threads()
    run("recurrent_step", settings, (b, 1, d, h, r, GATES[settings.cell], threads), held)
    return out[:, None], out, c_last


def operands(given: Inputs, cell: str) -> dict[str, Tensor | None]:
    """What each pass reads."""
    peephole = torch.stack([given.peephole_i, given.peephole_f, given.peephole_o]) if cell == "peephole" else None
    named = {name: getattr(given, name) for name in ("weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh", "h0", "c0")}
    return {"peephole": peephole, **{name: None if tensor is None else tensor.contiguous() for name, tensor in named.items()}}


class _Recurrent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Tensor | None, settings: Settings, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        given = Inputs(*tensors)
        x = given.x.contiguous()
        (b, t, d), h, r = given.x.shape, given.weight_hh.size(0) // GATES[settings.cell], given.h0.size(1)
        c = passes.passes_for(settings.kept)
        assert c is not None
        bias = given.bias_ih + given.bias_hh
        if settings.cell == "gru":
            bias[2 * h :] = given.bias_ih[2 * h :]
        new = given.h0.new_empty if lengths is None else given.h0.new_zeros
        more = settings.cell in ("gru", "cho_gru") or given.weight_hr is not None
        held = {
            **operands(given, settings.cell),
            **lengths_and_order(lengths, b, t),
            "gates": c.product(as_rows(x, settings.kept), given.weight_ih.t(), bias)[0],
            "out": new(b, t, r),
            "c": given.h0.new_empty(b, t, h) if settings.cell in WITH_CELL else None,
            "more": new(b, t, h) if more else None,
        }
        firsts = (("h_last", given.h0), ("c_last", given.c0))
        last = {name: None if first is None else first.clone(memory_format=torch.contiguous_format) for name, first in firsts}
        ctx.shape = (b, t, d, h, r, GATES[settings.cell], min(b, torch.get_num_threads()))
        run("recurrent_forward", settings, ctx.shape, held | last)
        ctx.names = [name for name, tensor in held.items() if tensor is not None]
        ctx.settings, ctx.padded, ctx.passes = settings, lengths is not None, c
        ctx.save_for_backward(x, *(held[name] for name in ctx.names))
        ctx.set_materialize_grads(False)
        return held["out"], last["h_last"], last["c_last"]

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, dout: Tensor | None, dh: Tensor | None, dc: Tensor | None) -> tuple[Any, ...]:
        x, *saved = ctx.saved_tensors
        held: dict[str, Any] = dict(zip(ctx.names, saved, strict=True))
        (b, t, _, h, r, g, _), settings, out, h0 = ctx.shape, ctx.settings, held["out"], held["h0"]
        new = partial(torch.zeros if ctx.padded else torch.empty, dtype=settings.kept)
        grads = {
            "dout": torch.zeros_like(out) if dout is None else dout.float().contiguous(),
            "dh": torch.zeros_like(h0) if dh is None else dh.clone(memory_format=torch.contiguous_format),
            "dgates": new(b * t, g * h),
            "dproducts": new(b * t, g * h) if settings.cell == "gru" else None,
            "dprojected": new(b * t, r) if "weight_hr" in held else None,
            "bias_grads": out.new_empty(g + 1, h),
            "peephole_grads": out.new_empty(3, h),
        }
        if "c0" in held:
            grads["dc"] = torch.zeros_like(held["c0"]) if dc is None else dc.clone(memory_format=torch.contiguous_format)
        run("recurrent_backward", settings, ctx.shape, held | grads)
        return None, None, *gradients(ctx.passes, ctx.needs_input_grad[2:], settings.cell, x, held, grads)


def gradients(c: passes.Passes, wanted: Any, cell: str, x: Tensor, held: dict[str, Any], grads: dict[str, Any]) -> Inputs:
    """Those of what a layer computes with, from the gradients of its gates (M, G H)."""
    want, dgates, h = Inputs(*wanted), grads["dgates"], held["gates"].size(1) // GATES[cell]
    dweight_hh = None
    if want.weight_hh:
        before = torch.cat([held["h0"][:, None], held["out"][:, :-1]], 1).view(-1, held["out"].size(2))
        if cell == "cho_gru":
            inner = c.rows_product(dgates[:, 2 * h :].contiguous(), held["more"].view(-1, h))
            dweight_hh = torch.cat([c.rows_product(dgates[:, : 2 * h].contiguous(), before), inner])
        else:
            dweight_hh = c.rows_product(dgates if cell != "gru" else grads["dproducts"], before)
    bias, inner_bias = grads["bias_grads"][:-1].view(-1), grads["bias_grads"][-1]
    return Inputs(
        x=c.product(dgates, held["weight_ih"])[0].view_as(x).to(x.dtype) if want.x else None,
        weight_ih=c.rows_product(dgates, as_rows(x, c.kept)) if want.weight_ih else None,
        weight_hh=dweight_hh,
        bias_ih=bias,
        bias_hh=torch.cat([bias[: 2 * h], inner_bias]) if cell == "gru" else bias,
        weight_hr=c.rows_product(grads["dprojected"], held["more"].view(-1, h)) if want.weight_hr else None,
        peephole_i=grads["peephole_grads"][0] if cell == "peephole" else None,
        peephole_f=grads["peephole_grads"][1] if cell == "peephole" else None,
        peephole_o=grads["peephole_grads"][2] if cell == "peephole" else None,
        h0=grads["dh"],
        c0=grads.get("dc"),
    )


def as_rows(x: Tensor, kept: torch.dtype) -> Tensor:
    """x (B, T, D) as (M, D), in a type that products read."""
    rows = x.view(-1, x.size(2))
    return rows if rows.dtype in (torch.float32, kept) else rows.float()


def lengths_and_order(lengths: Tensor | None, b: int, t: int) -> dict[str, Tensor]:
    """Lengths (B,), all T where none are given, and rows (B,) by their lengths, the longest first."""
    if lengths is None:
        return {"lengths": torch.full((b,), t), "order": torch.arange(b)}
    lengths = lengths.to("cpu", torch.int64).contiguous()
    return {"lengths": lengths, "order": lengths.argsort(descending=True, stable=True)}


def run(name: str, settings: Settings, shape: tuple[int, ...], tensors: Mapping[str, Tensor | None]) -> None:
    """Call a function in C, with B, T, D, H, R, G and the number of threads; what it writes is among the tensors."""
    c, limits = functions_for(settings.kept), (settings.cell_clip, settings.projection_clip)
    places = {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}
    layer = Layer(CELLS.index(settings.cell), *shape, *(float("inf") if limit is None else limit for limit in limits), **places)
    if name in PASSES:
        space = torch.empty(c["recurrent_room"](ctypes.byref(layer), ctypes.c_int64(name == "recurrent_backward")))
        layer.space = space.data_ptr()
    c[name](ctypes.byref(layer))
