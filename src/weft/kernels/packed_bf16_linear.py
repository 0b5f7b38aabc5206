"""Linear layers of bfloat16 with a copy of the weights in the order in which a CPU reads them; inputs and outputs are float32.

For a few rows the time goes into reading the weights, and the library that reads fastest wants them in float16. That holds what bfloat16
holds: all of it from 6e-5 to 65504, and smaller weights to 3e-8. Its sums are made in float32, one after the other, so that a row gives
the same to the last bit, alone and beside a few others. For many rows the time goes into multiplying, which is fastest in bfloat16.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PRODUCT = "linear_dynamic_fp16"
MULTIPLY: Any = getattr(torch.ops.quantized, PRODUCT).default if hasattr(torch.ops.quantized, PRODUCT) else None
"""It is on torch's list of what may go; without it the product is right, and slow."""
LARGEST = 65504.0
"""That float16 holds."""


class PackedBF16Linear(nn.Module):
    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer
        self.packed: Any = None
        weight = layer.weight.detach().float()
        if MULTIPLY and torch.backends.quantized.engine in ("x86", "fbgemm") and float(weight.abs().amax()) <= LARGEST:
            self.packed = torch.ops.quantized.linear_prepack_fp16(weight, None if layer.bias is None else layer.bias.detach().float())

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """x (R, I) -> (R, O); added: what the result is added to, of its shape."""
        out: Tensor = self.layer(x.to(self.layer.weight.dtype)).float() if self.packed is None else MULTIPLY(x, self.packed)
        return out if added is None else out.add_(added)


class CastLinear(nn.Module):
    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, 1) if has_packed_products() else None

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """x (R, I) -> (R, O); added: what the result is added to, of its shape."""
        rounded = x.to(self.weight.dtype)
        if self.packed is None:
            out = F.linear(rounded, self.weight, self.bias).float()
        else:
            out = torch.ops.mkldnn._linear_pointwise.default(rounded, self.packed, self.bias, "none", [], "").float()
        return out if added is None else out.add_(added)


def has_packed_products() -> bool:
    """Whether the processor multiplies bfloat16, and torch by it."""
    return torch.backends.mkldnn.is_available() and bool(  # type: ignore[no-untyped-call]
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
