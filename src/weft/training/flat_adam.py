"""Adam over one flat buffer, for small models on a GPU.

PyTorch's fused Adam gives each block of the GPU 65,536 numbers, which leaves most of it idle on a model of a few million
parameters. Here the parameters are views of one buffer per group and one small kernel updates it; a step that must not be
made changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.optim import Optimizer

LIMIT = 1 << 24
"""Parameters up to which the extra copy of the gradients costs less than it gains."""


@triton.jit
def _advance(step, refuse, table, beta1, beta2):  # type: ignore[no-untyped-def]
    """Count the step, unless it is refused, and note the two bias corrections."""
    number = tl.load(step) + tl.where(tl.load(refuse) > 0, 0.0, 1.0)
    tl.store(step, number)
    counted = tl.maximum(number, 1.0)
    tl.store(table, 1.0 - tl.exp(counted * tl.log(beta1)))
    tl.store(table + 1, 1.0 - tl.exp(counted * tl.log(beta2)))


@triton.jit
def _update(weight, gradient, mean, square, rate, refuse, table, size, beta1, beta2, eps, decay, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = (place < size) & (tl.load(refuse) == 0)
    w, g = tl.load(weight + place, mask=valid), tl.load(gradient + place, mask=valid)
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


class FlatAdam(Optimizer):
    """Adam (Kingma & Ba, 2014), or AdamW where `decoupled`; its state has the names PyTorch's has."""

    def __init__(self, params: Any, lr: Tensor, betas: tuple[float, float], eps: float, decoupled: bool):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, "fused": True})
        self.decoupled = decoupled
        self.found_inf = torch.zeros((), device=lr.device)
        for group in self.param_groups:
            group["flat"] = self._flatten(group["params"])

    @torch.no_grad()
    def _flatten(self, params: list[Tensor]) -> dict[str, Tensor]:
        weight = torch.cat([p.flatten() for p in params])
        flat = {"weight": weight, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
        flat |= {"step": torch.zeros((), device=weight.device), "table": torch.ones(2, device=weight.device)}
        start = 0
        for p in params:
            end = start + p.numel()
            views = {name: flat[name][start:end].view(p.shape) for name in ("weight", "exp_avg", "exp_avg_sq")}
            p.data = views.pop("weight")
            self.state[p] = {"step": flat["step"], **views}
            start = end
        return flat

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            flat, (beta1, beta2) = group["flat"], group["betas"]
            gradient = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in group["params"]])
            size, block = gradient.numel(), 1024
            _advance[(1,)](flat["step"], self.found_inf, flat["table"], beta1, beta2)
            tensors = (flat["weight"], gradient, flat["exp_avg"], flat["exp_avg_sq"], group["lr"], self.found_inf, flat["table"])
            numbers = (size, beta1, beta2, group["eps"], group["weight_decay"])
            _update[(triton.cdiv(size, block),)](*tensors, *numbers, DECOUPLED=self.decoupled, BLOCK=block)
