"""A layer-normalised LSTM over all its steps on a Hopper GPU, as one kernel a pass (`layer_norm_lstm.cu`); see `recurrent.py`.

Shapes: B rows, T steps, D inputs, H width, P the size of a gate where products read it, a multiple of 32.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.kernels.cuda.recurrent_launch import PIECE, cut_of, run
from weft.nn.recurrent import RecurrentLayer

CELL, GATES = "layer_norm", 4
Outputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def over_steps(layer: RecurrentLayer, x: Tensor, lengths: Tensor | None, first: tuple[Tensor, ...], weight: Tensor) -> Any:
    """As `recurrent.over_steps`: what is made of the inputs is normalised over all steps at once."""
    h = layer.width
    with torch.autocast(x.device.type, enabled=False):
        normal = F.layer_norm(F.linear(x.bfloat16(), layer.weight_ih.bfloat16()).float(), (GATES * h,), layer.norm_ih, layer.bias_ih)
        products = F.pad(normal.view(*x.shape[:2], GATES, h), (0, -h % PIECE)).flatten(2).bfloat16()  # (B, T, 4 P)
        found = forward(products, weight, layer.norm_hh, layer.bias_hh, layer.norm_c, layer.bias_c, *first, lengths)
    return found[0], found[1:3]


@torch.library.custom_op("weft::layer_norm_lstm", mutates_args=())
def forward(
    products: Tensor, weight: Tensor, norm: Tensor, norm_bias: Tensor, norm_c: Tensor, bias_c: Tensor, h0: Tensor, c0: Tensor,
    lengths: Tensor | None,
) -> Outputs:  # fmt: skip
    """products (B, T, 4 P) of the inputs, normalised -> outputs (B, T, H), h, c (B, H), and for the backward pass h before each step
    (B, T, P), gates (B, T, 4 H), c (B, T, H), products of h (B, T, 4 H), and mean and one over the deviation of these and of c
    (B, T, 4)."""
    found = made(products, h0)
    out, h_last, c_last, before, gates, c, raw, moments = found
    before[:, 0, : h0.size(1)] = h0
    given = {
        "products": products,
        "weight": weight,
        "norm": norm,
        "norm_bias": norm_bias,
        "norm_c": norm_c,
        "bias_c": bias_c,
        "h0": h0,
        "c0": c0,
    }
    given |= {"before": before, "out": out, "gates": gates, "c": c, "raw": raw, "moments": moments, "h_last": h_last, "c_last": c_last}
    bias, sums = torch.zeros_like(norm), room(h0, products.shape[:2], False)
    run(CELL, False, products.shape[:2], given | {"bias": bias, "sums": sums, "lengths": lengths})
    return found


def room(h0: Tensor, shape: torch.Size, backward: bool) -> Tensor:
    """Places for what the blocks tell one another of rows' sums."""
    (rows, steps), blocks = shape, cut_of(CELL, h0.size(1), backward, h0.size(0), h0.device).blocks
    return h0.new_empty(steps, 2, rows, blocks + blocks % 2, 2)


def made(products: Tensor, h0: Tensor) -> Outputs:
    (b, t, wide), h = products.shape, h0.size(1)
    new = h0.new_empty
    before = products.new_zeros(b, t, wide // GATES)
    return new(b, t, h), new(b, h), new(b, h), before, new(b, t, GATES * h), new(b, t, h), new(b, t, GATES * h), new(b, t, 4)


@forward.register_fake
def _(products, weight, norm, norm_bias, norm_c, bias_c, h0, c0, lengths):  # type: ignore[no-untyped-def]
    return made(products, h0)


@torch.library.custom_op("weft::layer_norm_lstm_back", mutates_args=())
def back(
    dout: Tensor, dh: Tensor, dc: Tensor, weight: Tensor, norm: Tensor, norm_c: Tensor, bias_c: Tensor, c0: Tensor, gates: Tensor,
    c: Tensor, raw: Tensor, moments: Tensor, lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """-> gradients of what was made of the inputs and of the products of h (B, T, 4 P), of what c becomes (B, T, H), and of the first
    state."""
    found = made_back(dout, dh, dc)
    dproducts, dinner, dnorm, dh, dc = found
    given = {"dout": dout, "dh": dh, "dc": dc, "weight": weight, "norm": norm, "norm_c": norm_c, "bias_c": bias_c, "c0": c0, "gates": gates}
    given |= {"c": c, "raw": raw, "moments": moments, "dproducts": dproducts, "dinner": dinner, "dnorm": dnorm}
    run(CELL, True, dout.shape[:2], given | {"sums": room(c0, dout.shape[:2], True), "lengths": lengths})
    return found


def made_back(dout: Tensor, dh: Tensor, dc: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    b, t, h = dout.shape
    dproducts, dinner = (dout.new_zeros(b, t, GATES * (h + -h % PIECE), dtype=torch.bfloat16) for _ in range(2))
    kept = torch.contiguous_format
    return dproducts, dinner, dout.new_zeros(b, t, h), dh.clone(memory_format=kept), dc.clone(memory_format=kept)


@back.register_fake
def _(dout, dh, dc, weight, norm, norm_c, bias_c, c0, gates, c, raw, moments, lengths):  # type: ignore[no-untyped-def]
    return made_back(dout, dh, dc)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, weight, norm, _, norm_c, bias_c, _, c0, lengths = inputs
    out, _, _, before, gates, c, raw, moments = output
    ctx.mark_non_differentiable(before, gates, c, raw, moments)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(weight, norm, norm_c, bias_c, c0, lengths, out, before, gates, c, raw, moments)


def _differentiate(ctx, dout, dh, dc, *_):  # type: ignore[no-untyped-def]
    weight, norm, norm_c, bias_c, c0, lengths, out, before, gates, c, raw, moments = ctx.saved_tensors
    h, place = c0.size(1), before.size(2)
    dout, dh, dc = (torch.zeros_like(of) if grad is None else grad for grad, of in ((dout, out), (dh, c0), (dc, c0)))
    dproducts, dinner, dnorm, dh0, dc0 = back(dout, dh, dc, weight, norm, norm_c, bias_c, c0, gates, c, raw, moments, lengths)
    dweight = (dinner.flatten(0, 1).t() @ before.flatten(0, 1)).view(-1, place, place)[:, :h, :h].reshape(weight.shape).float()
    of_gates = dproducts.unflatten(2, (GATES, place))[..., :h].float().flatten(2)  # (B, T, 4 H)
    mean, scale, mean_c, scale_c = moments.split(1, 2)
    dscale = (of_gates * (raw - mean) * scale).sum((0, 1))
    dscale_c = (dnorm * (c - mean_c) * scale_c).sum((0, 1))
    return dproducts, dweight, dscale, of_gates.sum((0, 1)), dscale_c, dnorm.sum((0, 1)), dh0, dc0, None


forward.register_autograd(_differentiate, setup_context=_save)
