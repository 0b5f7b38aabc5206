"""Optimisers PyTorch lacks, or lacks in a form a captured graph can replay.

Muon: Jordan et al., 2024, https://kellerjordan.github.io/posts/muon. Heavy ball: Polyak, 1964.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from weft.training.parallel.team import SINGLE_PROCESS


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of each matrix (N, R, C) towards 1 by a quintic Newton–Schulz iteration, in bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = matrices.bfloat16()
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class MuonOptimizer(Optimizer):
    """Nesterov momentum whose matrix is orthogonalised; matrices of one shape go through one batched product."""

    def __init__(self, params: Iterable[Any], lr: float | Tensor, momentum: float, weight_decay: float):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.team = SINGLE_PROCESS
        self.wholes: dict[Tensor, Tensor] = {}
        """The parameter of which each tensor is this process's part."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[self.wholes.get(p, p).shape].append(p)
            for shape, params in shapes.items():
                self._update(group, shape, params)

    def _update(self, group: dict[str, Any], shape: torch.Size, params: list[Tensor]) -> None:
        momentum, lr = group["momentum"], group["lr"]
        for p in params:
            if "momentum_buffer" not in self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum_buffer"] for p in params]
        gradients = [p.grad for p in params if p.grad is not None]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        direction = torch._foreach_lerp(gradients, buffers, momentum)
        whole = [self.team.full_tensor(part, self.wholes.get(p, p)) for part, p in zip(direction, params, strict=True)]
        update = orthogonalise(torch.stack(whole).flatten(2)).to(params[0].dtype)  # a convolution is a matrix (out, in * k * k)
        # the size of an AdamW update does not depend on the shape; an orthogonal matrix's does (Liu et al., 2025)
        scale = 0.2 * max(update.shape[1:]) ** 0.5
        for p, u in zip(params, update.unbind(), strict=True):
            own = self.team.shard(u.reshape(shape), self.wholes.get(p, p))
            p.mul_(1 - lr * group["weight_decay"]).sub_(own * (lr * scale))


class HeavyBall(Optimizer):
    """v <- gamma v + lr g, x <- x - v. torch.optim.SGD keeps the rate outside v: equal only while the rate is constant."""

    def __init__(self, params: Iterable[Any], lr: float | Tensor, momentum: float, weight_decay: float):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if "velocity" not in self.state[p]:
                    self.state[p]["velocity"] = torch.zeros_like(p)
                velocity = self.state[p]["velocity"]
                gradient = p.grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else p.grad
                velocity.mul_(group["momentum"]).add_(gradient * group["lr"])
                p.sub_(velocity)


class EpsilonInsideAdam(Optimizer):
    """Adam with epsilon under the root, lr m / sqrt(v + eps): a common misprint, kept for comparison."""

    def __init__(self, params: Iterable[Any], lr: float | Tensor, betas: tuple[float, float], eps: float, weight_decay: float):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=torch.zeros((), device=p.device), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                gradient = p.grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else p.grad
                state["exp_avg"].lerp_(gradient, 1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
                mean = state["exp_avg"] / (1 - first ** state["step"])
                square = state["exp_avg_sq"] / (1 - second ** state["step"])
                p.sub_(group["lr"] * mean / (square + group["eps"]).sqrt())
