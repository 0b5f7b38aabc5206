"""Adam on a GPU: for a model of a few million parameters laid end to end, and for large matrices with bf16 copies of them.

PyTorch's fused Adam gives each block of the GPU 65,536 numbers, which leaves most of it idle at a small size. This kernel gives
it 1,024. A step that must not be made (found_inf) changes nothing; gradients are divided by grad_scale as they are read.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.optim import Optimizer

TOGETHER = 8
"""Tensors that one launch reads or updates: of a small one half the time would be its launch."""
READERS = 1056
"""Programs that sum squares: eight for each processor of a Hopper GPU."""


@triton.jit
def _advance(step, refuse, table, beta1, beta2):
    """Count the step, unless it is refused, and note the two bias corrections."""
    number = tl.load(step) + tl.where(tl.load(refuse) > 0, 0.0, 1.0)
    tl.store(step, number)
    counted = tl.maximum(number, 1.0)
    tl.store(table, 1.0 - tl.exp(counted * tl.log(beta1)))
    tl.store(table + 1, 1.0 - tl.exp(counted * tl.log(beta2)))


@triton.jit
def _update(
    weight, gradient, mean, square, rate, refuse, scale, table, size, beta1, beta2, eps, decay, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    settings = (rate, refuse, scale, table, beta1, beta2, eps, decay)
    _update_block(weight, gradient, mean, square, weight, place, size, settings, DECOUPLED, False)


@triton.jit
def _update_all(
    weights, gradients, means, squares, copies, sizes, rate, refuse, scale, table, beta1, beta2, eps, decay,
    DECOUPLED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Several tensors at once, with copies: a program finds the one its block is of."""
    settings = (rate, refuse, scale, table, beta1, beta2, eps, decay)
    block = tl.program_id(0)
    for i in tl.static_range(len(weights)):
        number = tl.cdiv(sizes[i], BLOCK)
        if (block >= 0) & (block < number):
            place = block * BLOCK + tl.arange(0, BLOCK)
            _update_block(weights[i], gradients[i], means[i], squares[i], copies[i], place, sizes[i], settings, DECOUPLED, True)
        block -= number


@triton.jit
def _update_block(weight, gradient, mean, square, copy, place, size, settings, DECOUPLED: tl.constexpr, COPIED: tl.constexpr):
    rate, refuse, scale, table, beta1, beta2, eps, decay = settings
    valid = (place < size) & (tl.load(refuse) == 0)
    w, g = tl.load(weight + place, mask=valid), tl.load(gradient + place, mask=valid).to(tl.float32) / tl.load(scale)
    lr = tl.load(rate)
    if DECOUPLED:
        w *= 1 - lr * decay
    else:
        g += decay * w
    m = tl.load(mean + place, mask=valid)
    m += (1 - beta1) * (g - m)
    v = beta2 * tl.load(square + place, mask=valid) + (1 - beta2) * g * g
    w -= lr / tl.load(table) * m / (tl.sqrt(v) / tl.sqrt(tl.load(table + 1)) + eps)
    tl.store(weight + place, w, mask=valid)
    tl.store(mean + place, m, mask=valid)
    tl.store(square + place, v, mask=valid)
    if COPIED:
        tl.store(copy + place, w.to(copy.dtype.element_ty), mask=valid)


@triton.jit
def _squares(gradients, sums, sizes, BLOCK: tl.constexpr):
    """Of several tensors at once: a program takes every so manieth block of each."""
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(len(gradients)):
        for first in range(tl.program_id(0) * BLOCK, sizes[i], tl.num_programs(0) * BLOCK):
            place = first + tl.arange(0, BLOCK)
            g = tl.load(gradients[i] + place, mask=place < sizes[i], other=0.0).to(tl.float32)
            total += g * g
    tl.store(sums + tl.program_id(0), tl.sum(total))


@triton.jit
def _check_gradients(sums, norm, refused, refuse, divisor, count, limit, HALT: tl.constexpr, BLOCK: tl.constexpr):
    """sums (count) -> the norm; whether it, or (HALT) an earlier one, forbids the update; what clipping divides gradients by."""
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        total += tl.load(sums + place, mask=place < count, other=0.0)
    length = tl.sqrt(tl.sum(total))
    before = tl.load(refused)
    bad = tl.where(length < float("inf"), 0.0, 1.0)
    if HALT:
        bad = tl.where(before > 0, 1.0, bad)
    tl.store(norm, length)
    tl.store(refused, before + bad)
    tl.store(refuse, bad)
    tl.store(divisor, tl.where(limit > 0, tl.maximum((length + 1e-6) / limit, 1.0), 1.0))


class GPUAdam(Optimizer):
    """Adam (Kingma & Ba, 2014), or AdamW where `decoupled`; its state has the names PyTorch's has."""

    def __init__(self, params: Any, lr: Tensor, betas: tuple[float, float], eps: float, decoupled: bool):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, "fused": True})
        self.decoupled = decoupled
        self.found_inf = torch.zeros((), device=lr.device)
        self.grad_scale = torch.ones((), device=lr.device)
        self.corrections = torch.ones(2, device=lr.device)

    def check_gradients(self, gradients: list[Tensor], norm: Tensor, refused: Tensor, limit: float, halt: bool) -> None:
        """What precedes a step, in few launches: the norm, whether an update is refused (and counted), what clipping divides by."""
        block = 4096
        groups = [tuple(gradients[first : first + TOGETHER]) for first in range(0, len(gradients), TOGETHER)]
        counts = [min(READERS, triton.cdiv(max(g.numel() for g in group), block)) for group in groups]
        sums = torch.empty(sum(counts), device=norm.device)
        for group, own in zip(groups, sums.split(counts), strict=True):
            _squares[(len(own),)](group, own, tuple(g.numel() for g in group), BLOCK=block)
        _check_gradients[(1,)](sums, norm, refused, self.found_inf, self.grad_scale, len(sums), limit, HALT=halt, BLOCK=1024)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)

    def _update(self, p: Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2), block = self.state[p], group["betas"], 1024
        if not state:
            state.update(step=torch.zeros((), device=p.device), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        _advance[(1,)](state["step"], self.found_inf, self.corrections, beta1, beta2)
        moments = (state["exp_avg"], state["exp_avg_sq"])
        tensors = (p, p.grad, *moments, group["lr"], self.found_inf, self.grad_scale, self.corrections)
        numbers = (p.numel(), beta1, beta2, group["eps"], group["weight_decay"])
        _update[(triton.cdiv(p.numel(), block),)](*tensors, *numbers, DECOUPLED=self.decoupled, BLOCK=block)


class CopyingAdam(GPUAdam):
    """The same for fp32 matrices whose gradients lie with their bf16 copies, which it writes as well: 28 bytes for each number."""

    def __init__(
        self, params: Any, lr: Tensor, betas: tuple[float, float], eps: float, decoupled: bool, bf16_weights: dict[Tensor, Tensor]
    ):
        super().__init__(params, lr, betas, eps, decoupled)
        self.bf16_weights, self.number = bf16_weights, torch.zeros((), device=lr.device)
        for p in bf16_weights:
            self.state[p].update(step=self.number, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for index, group in enumerate(self.param_groups):
            if not index:  # one count for all
                _advance[(1,)](self.number, self.found_inf, self.corrections, *group["betas"])
            matrices = group["params"]
            for first in range(0, len(matrices), TOGETHER):
                self._update_all(matrices[first : first + TOGETHER], group)

    def _update_all(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        sizes, bf16_weights, block = tuple(p.numel() for p in matrices), tuple(self.bf16_weights[p] for p in matrices), 2048
        moments = [tuple(self.state[p][key] for p in matrices) for key in ("exp_avg", "exp_avg_sq")]
        tensors = (tuple(matrices), tuple(half.grad for half in bf16_weights), *moments, bf16_weights)
        arguments = (group["lr"], self.found_inf, self.grad_scale, self.corrections, *group["betas"], group["eps"], group["weight_decay"])
        number = sum(triton.cdiv(size, block) for size in sizes)
        _update_all[(number,)](*tensors, sizes, *arguments, DECOUPLED=self.decoupled, BLOCK=block, num_warps=8)
