"""A recurrent layer over all its steps on a Hopper GPU, as one kernel a pass (`recurrent.cu`), for every cell of `nn.recurrent`.

Products of the inputs, and the gradients of weights, are large products over all steps in bf16; between them the kernel takes all steps,
with states and sums in fp32. The passes are operations of their own, which PyTorch's compiler takes as they are and CUDA graphs capture.
Shapes: B rows, T steps, D inputs, H width, G gates, P the size of a gate where products read it, a multiple of 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.kernels.cuda import layer_norm_lstm
from weft.kernels.cuda.recurrent_launch import CELLS, MOST_ROWS, PIECE, cut, run
from weft.kernels.implementation import Implementation, install
from weft.kernels.known import PLAIN_TENSORS
from weft.kernels.library_recurrent import ROUTINES, library_forward
from weft.kernels.spec import RecurrentSpec
from weft.kernels.usage import UsageSpec
from weft.nn.recurrent import GATES, WITH_CELL, RecurrentLayer

PROVEN: frozenset[str] = frozenset()
"""Cells whose tests have passed on a GPU; others are not chosen, but can be installed to be tested and measured."""


class CUDARecurrent(Implementation):
    name, file, slot, where = "CUDA recurrence", "kernels/cuda/recurrent.py", "forward", "in bf16"
    traced = True

    def refuses(self, spec: RecurrentSpec, use: UsageSpec) -> str:
        return self.cannot(spec, use) or ("" if spec.cell in PROVEN else f"its {spec.cell} was not yet tested on a GPU")

    def cannot(self, spec: RecurrentSpec, use: UsageSpec) -> str:
        reasons = {
            "it is for a GPU": use.machine.device != "cuda",
            "it is for a Hopper GPU": not use.machine.hopper,
            "other processes use the GPU, and its blocks wait for one another": use.machine.side_by_side,
            "it is for many steps": use.mode == "decode",
            f"the cell is {spec.cell}": spec.cell not in CELLS,
            "it has a projection": spec.projection,
            "it is clipped": spec.clipped,
            "products are not in bf16": use.precision != "bf16",
            "weights are not in fp32": spec.dtypes != {"float32"},
            "weights do not lie row after row": not spec.contiguous,
            "processes share out the weights": not spec.plain_tensors,
        }
        if why := next((why for why, holds in reasons.items() if holds), ""):
            return why
        fits = all(cut(spec.cell, spec.width, backward, MOST_ROWS, use.machine) for backward in (False, True))
        return "" if fits else f"a width of {spec.width} does not fit into shared memory"

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
        other = library_forward if layer.cell in ROUTINES else RecurrentLayer.forward
        return other(layer, x, lengths, state, weight_hh=weight_hh)
    outputs, last = over_steps(layer, x, lengths, layer.first_state(x, state), weight)
    return outputs, dict(zip(layer.state_shapes, last, strict=True))


def serves(layer: RecurrentLayer, x: Tensor, weight_hh: Tensor) -> bool:
    """Whether a call can be served: x (B, T, D) and weights on a GPU, in fp32, under autocast to bf16."""
    tensors = (weight_hh, *layer.parameters())
    return (
        x.is_cuda
        and 0 < len(x) <= MOST_ROWS
        and x.numel() > 0
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
        and all(one.dtype == torch.float32 and one.device == x.device for one in tensors)
        and (torch.compiler.is_compiling() or all(type(one) in PLAIN_TENSORS for one in tensors))
    )


def over_steps(layer: RecurrentLayer, x: Tensor, lengths: Tensor | None, first: tuple[Tensor, ...], weight: Tensor) -> Any:
    """-> outputs (B, T, H) and the last state."""
    lengths = None if lengths is None else lengths.to(x.device, torch.int64)
    if layer.cell == "layer_norm":
        return layer_norm_lstm.over_steps(layer, x, lengths, first, weight)
    cell, h = layer.cell, layer.width
    place = -(-h // PIECE) * PIECE
    bias, inner_bias = layer.bias_ih + layer.bias_hh, layer.bias_hh[:0]
    if cell == "gru":  # the bias of n's product of h stands behind a gate
        bias, inner_bias = torch.cat([bias[: 2 * h], layer.bias_ih[2 * h :]]), layer.bias_hh[2 * h :]
    peephole = torch.cat([layer.peephole_i, layer.peephole_f, layer.peephole_o]) if cell == "peephole" else bias[:0]
    c0 = first[1] if cell in WITH_CELL else bias[:0]
    with torch.autocast(x.device.type, enabled=False):
        filled = F.pad(layer.weight_ih.bfloat16().view(GATES[cell], h, -1), (0, 0, 0, place - h)).flatten(0, 1)  # (G P, D)
        products = F.linear(x.bfloat16(), filled)
        found = recurrent_forward(products, weight, bias, inner_bias, peephole, first[0], c0, lengths, cell)
    return found[0], found[1 : 1 + len(first)]


Outputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("weft::recurrent", mutates_args=())
def recurrent_forward(
    products: Tensor, weight: Tensor, bias: Tensor, inner_bias: Tensor, peephole: Tensor, h0: Tensor, c0: Tensor, lengths: Tensor | None,
    cell: str,
) -> Outputs:  # fmt: skip
    """products (B, T, G P) of the inputs -> outputs (B, T, H), h, c (B, H), and for the backward pass h before each step (B, T, P),
    r h (B, T, P), gates (B, T, G H), c and U h + b (B, T, H); empty where a cell has none."""
    found = made(products, h0, cell)
    out, h_last, c_last, before, inner, gates, c, more = found
    before[:, 0, : h0.size(1)] = h0
    given = {"products": products, "weight": weight, "bias": bias, "inner_bias": inner_bias, "peephole": peephole, "h0": h0, "c0": c0}
    given |= {"before": before, "inner": inner, "out": out, "gates": gates, "c": c, "more": more, "h_last": h_last, "c_last": c_last}
    run(cell, False, products.shape[:2], given | {"lengths": lengths})
    return found


def made(products: Tensor, h0: Tensor, cell: str) -> Outputs:
    """What a pass writes; zeros where products read beyond a gate's width."""
    (b, t, wide), h = products.shape, h0.size(1)
    place, memory = wide // GATES[cell], h if cell in WITH_CELL else 0
    return (
        h0.new_empty(b, t, h),
        h0.new_empty(b, h),
        h0.new_empty(b, memory),
        products.new_zeros(b, t, place),
        products.new_zeros(b, t, place if cell == "cho_gru" else 0),
        h0.new_empty(b, t, GATES[cell] * h),
        h0.new_empty(b, t, memory),
        h0.new_empty(b, t, h if cell == "gru" else 0),
    )


@recurrent_forward.register_fake
def _(products, weight, bias, inner_bias, peephole, h0, c0, lengths, cell):  # type: ignore[no-untyped-def]
    return made(products, h0, cell)


@torch.library.custom_op("weft::recurrent_back", mutates_args=())
def recurrent_back(
    dout: Tensor, dh: Tensor, dc: Tensor, weight: Tensor, peephole: Tensor, h0: Tensor, c0: Tensor, out: Tensor, gates: Tensor, c: Tensor,
    more: Tensor, lengths: Tensor | None, cell: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of outputs (B, T, H) and of the last state -> of products of the inputs and of those of h (B, T, G P), the latter empty
    where they are the same, and of the first state."""
    dproducts, dinner, dh, dc = made_back(out, dh, dc, cell)
    given = {"dout": dout, "dh": dh, "dc": dc, "weight": weight, "peephole": peephole, "h0": h0, "c0": c0, "out": out, "gates": gates}
    run(cell, True, out.shape[:2], given | {"c": c, "more": more, "lengths": lengths, "dproducts": dproducts, "dinner": dinner})
    return dproducts, dinner, dh, dc


def made_back(out: Tensor, dh: Tensor, dc: Tensor, cell: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, t, h = out.shape
    wide = GATES[cell] * -(-h // PIECE) * PIECE
    dproducts = out.new_zeros(b, t, wide, dtype=torch.bfloat16)
    dinner = out.new_zeros(b, t, wide if cell == "gru" else 0, dtype=torch.bfloat16)
    return dproducts, dinner, dh.clone(memory_format=torch.contiguous_format), dc.clone(memory_format=torch.contiguous_format)


@recurrent_back.register_fake
def _(dout, dh, dc, weight, peephole, h0, c0, out, gates, c, more, lengths, cell):  # type: ignore[no-untyped-def]
    return made_back(out, dh, dc, cell)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, weight, _, _, peephole, h0, c0, lengths, ctx.cell = inputs
    out, _, _, before, inner, gates, c, more = output
    ctx.mark_non_differentiable(before, inner, gates, c, more)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(weight, peephole, h0, c0, lengths, out, before, inner, gates, c, more)


def _differentiate(ctx, dout, dh, dc, *_):  # type: ignore[no-untyped-def]
    weight, peephole, h0, c0, lengths, out, before, inner, gates, c, more = ctx.saved_tensors
    cell, h, place = ctx.cell, h0.size(1), before.size(2)
    dout, dh, dc = (torch.zeros_like(of) if grad is None else grad for grad, of in ((dout, out), (dh, h0), (dc, c0)))
    back = recurrent_back(dout, dh, dc, weight, peephole, h0, c0, out, gates, c, more, lengths, cell)
    dproducts, dinner, dh0, dc0 = back
    of_h = (dinner if cell == "gru" else dproducts).flatten(0, 1)  # (B T, G P)
    if cell == "cho_gru":
        of_gates, of_inner = of_h[:, : 2 * place].t() @ before.flatten(0, 1), of_h[:, 2 * place :].t() @ inner.flatten(0, 1)
        dweight = torch.cat([of_gates, of_inner])
    else:
        dweight = of_h.t() @ before.flatten(0, 1)
    dweight = dweight.view(-1, place, place)[:, :h, :h].reshape(weight.shape).float()
    sums = dproducts.sum((0, 1), dtype=torch.float32).view(-1, place)[:, :h]
    inner_sum = dinner.sum((0, 1), dtype=torch.float32).view(-1, place)[2, :h] if cell == "gru" else sums.new_empty(0)
    dpeephole = sums.new_empty(0)
    if cell == "peephole":
        c_before = torch.cat([c0[:, None], c[:, :-1]], 1)
        di, df, _, do = dproducts.unflatten(2, (4, place))[..., :h].float().unbind(2)
        dpeephole = torch.cat([(di * c_before).sum((0, 1)), (df * c_before).sum((0, 1)), (do * c).sum((0, 1))])
    return dproducts, dweight, sums.flatten(), inner_sum, dpeephole, dh0, dc0, None, None


recurrent_forward.register_autograd(_differentiate, setup_context=_save)
