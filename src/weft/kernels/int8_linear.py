"""A linear layer of int8 weights (weight-only quantization), each output's by a scale of its own.

The processor multiplies whole numbers of 8 bits. The inputs are therefore written as numbers of two digits, so that next to nothing is
lost of them, and each digit is multiplied by itself; reading the weights takes the time, not multiplying them. Sums of whole numbers do
not depend on their order: what a row gives is the same to the last bit, alone and beside others.

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TOP = 127
"""Largest weight, as a whole number."""
BASE = 128
"""Digits go from -64 to 63: two products of a digit and a weight fit into 16 bits, as older processors add them up."""
LARGEST = 63 * BASE
"""Largest input, as a whole number."""
PLACES = torch.tensor([LARGEST / BASE, LARGEST])[:, None, None]
TINY = 1e-30
PRODUCT = "linear_with_input_q_dq_qweight_dq_output_fp32"
MULTIPLY: Any = getattr(torch.ops.quantized, PRODUCT).default if hasattr(torch.ops.quantized, PRODUCT) else None
MAKE: Any = getattr(torch, "_make_per_channel_quantized_tensor", None)
"""Both are on torch's list of what may go; without them the product is right, and slow."""


class Int8Linear(nn.Module):
    """Takes the place of a trained linear layer; it cannot be trained itself."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().float(), requires_grad=False)
        weight = layer.weight.detach().float()
        scale = weight.abs().amax(1).clamp_min(TINY) / TOP  # (O,)
        whole = (weight / scale[:, None]).round().to(torch.int8)
        self.packed = packed(whole, scale)
        if self.packed is None:
            self.register_buffer("whole", whole)
            self.register_buffer("scale", scale)

    @cached_property
    def rows(self) -> tuple[Tensor, Tensor]:
        """Whole weights (O, I), an output after the other, and their scale (O,); made when first asked for, as few ask."""
        return (self.whole, self.scale) if self.packed is None else unpacked(self.packed)  # type: ignore[return-value]

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """x (..., I) -> (..., O); added: what the result is added to, of its shape."""
        if x.ndim != 2:  # one view less where every microsecond counts
            flat = None if added is None else added.reshape(-1, self.out_features)
            return self.forward(x.reshape(-1, self.in_features), flat).view(*x.shape[:-1], self.out_features)
        wide = x.float()
        top = wide.abs().amax(-1, keepdim=True).clamp_min_(TINY)  # (N, 1)
        out = self._sums(wide, top)
        out = out.mul_(top) if self.bias is None else torch.addcmul(self.bias, out, top)
        return (out if added is None else out.add_(added)).to(x.dtype)

    def _sums(self, x: Tensor, top: Tensor) -> Tensor:
        """x (N, I) by its largest entries, top (N, 1) -> (N, O)."""
        if self.packed is None:
            return F.linear(x / top, self.whole.float()).mul_(self.scale)  # type: ignore[operator, arg-type]
        digits = x * (PLACES / top)  # (2, N, I): the high ones and the low ones
        high, low = digits.unbind(0)
        low.sub_(high.round_(), alpha=BASE)
        high, low = MULTIPLY(digits, 1.0, BASE // 2, self.packed).unbind(0)
        out: Tensor = low.add_(high, alpha=BASE)
        return out


def unpacked(packed: Any) -> tuple[Tensor, Tensor]:
    """What `packed` was given: whole weights (O, I) and their scale (O,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.ops.quantized.linear_unpack(packed)[0]
        return tensor.int_repr(), (tensor.q_per_channel_scales() * LARGEST).float()


def packed(whole: Tensor, scale: Tensor) -> Any:
    """Weights (O, I) of 8 bits in the order in which the processor reads them; None where torch has no product for it."""
    if not (MULTIPLY and MAKE and whole.is_cpu) or torch.backends.quantized.engine not in ("x86", "fbgemm"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to drop the type of the tensor, which is needed for a moment only
        tensor = MAKE(whole, scale.double() / LARGEST, torch.zeros(len(scale), dtype=torch.int64), 0)
        return torch.ops.quantized.linear_prepack(tensor, None)


def quantize_weights(model: nn.Module) -> None:
    """Put int8 layers into the place of a model's linear layers, its head included; tables of tokens stay as they are.

    It can then be used, not trained.
    """
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(module, name, Int8Linear(layer))
