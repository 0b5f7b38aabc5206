"""The fastest a training step of a GPT could be on this device: its matrix products and its attention, each timed alone.

Every product runs as often as in a step: forward, for the gradient of the input, for the gradient of the weight; by PyTorch's choice of
a kernel or by ours, whichever is faster. Attention is the best of the fused kernels at the model's own shape. All else (norms,
activations, softmax, updates) is counted as free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.benchmarks.timing import synchronise
from weft.kernels.cuda.cublaslt_matmul import multiply
from weft.models.language.gpt import GPTConfig

PADDED = 128
KERNELS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
"""Of attention, by name."""


def once(function: Callable[[], object], seconds: float = 0.05) -> float:
    """Milliseconds of one call: the best of three stretches."""
    for _ in range(3):
        function()
    synchronise()
    begin = time.perf_counter()
    function()
    synchronise()
    repeats = max(2, min(50, int(seconds / max(time.perf_counter() - begin, 1e-6))))
    best = float("inf")
    for _ in range(3):
        synchronise()
        begin = time.perf_counter()
        for _ in range(repeats):
            function()
        synchronise()
        best = min(best, (time.perf_counter() - begin) / repeats * 1e3)
    return best


def product(rows: int, inputs: int, outputs: int, device: torch.device) -> float:
    """A linear layer forward and backward."""
    x, y = (torch.randn(rows, size, dtype=torch.bfloat16, device=device) for size in (inputs, outputs))
    weight = torch.randn(outputs, inputs, dtype=torch.bfloat16, device=device)
    pairs = ((x, weight.t()), (y, weight), (y.t(), x))
    return sum(min(once(lambda: a @ b), once(lambda: multiply(a, b))) for a, b in pairs)  # noqa: B023


def attention(batch: int, length: int, heads: int, head: int, device: torch.device, kernel: str) -> float:
    """Causal attention forward and backward by one maker's kernel."""
    packed = torch.randn(batch, length, 3, heads, head, dtype=torch.bfloat16, device=device)
    q, k, v = (part.transpose(1, 2).requires_grad_() for part in packed.unbind(2))
    gradient = torch.randn(batch, length, heads, head, dtype=torch.bfloat16, device=device).transpose(1, 2)

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), gradient)

    with sdpa_kernel([KERNELS[kernel], SDPBackend.MATH] if device.type == "cpu" else KERNELS[kernel]):
        return once(both)


def measure(model: GPTConfig, batch: int, device: torch.device) -> dict[str, Any]:
    """Milliseconds of a step's products and attention, and by whom attention is fastest."""
    width, rows, length = model.width, batch * model.context, model.context
    ffn_width, vocabulary = model.ffn_width or 4 * width, -(-model.vocabulary // PADDED) * PADDED
    shapes = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, ffn_width),
        "down": (ffn_width, width),
        "head": (width, vocabulary),
    }
    times = {name: product(rows, *sizes, device) for name, sizes in shapes.items()}
    times = {name: ms * (1 if name == "head" else model.layers) for name, ms in times.items()}
    looks = {name: model.layers * attention(batch, length, model.heads, width // model.heads, device, name) for name in KERNELS}
    fastest = min(looks, key=lambda name: looks[name])
    total = sum(times.values()) + looks[fastest]
    flops = 6 * rows * (model.layers * sum(a * b for name, (a, b) in shapes.items() if name != "head") + width * vocabulary)
    return {"ms": total, "products_ms": times, "attention_ms": looks, "tflops": flops / sum(times.values()) / 1e9}
