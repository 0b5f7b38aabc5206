"""Optimisers as settings. What applies them is the Updater (updater.py)."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.training.optimizer.muon import EpsilonInsideAdam, HeavyBall, MuonOptimizer
from weft.training.schedule import Schedule

Groups = list[dict[str, Any]]
FEW = 4
"""Tensors up to which a launch for each costs little."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig(Config):
    """What every optimiser has."""

    lr: float = 1e-3
    """Peak learning rate."""
    schedule: Schedule = field(default_factory=Schedule)
    clip_norm: float = 0.0
    """Largest norm of all gradients together; 0 for no clipping."""
    clip_value: float = 0.0
    """Largest absolute value of any gradient; 0 for no clipping."""
    l1: float = 0.0
    """Adds l1 * sign(w) to the gradient of every decayed weight; a weight that reaches 0 stays there unless its gradient exceeds l1."""
    l2: float = 0.0
    """Adds 2 * l2 * w to the gradient of every decayed weight; under Adam this is not weight decay."""
    weight_decay: float = 0.0
    """Weight decay in the optimiser's own way: decoupled in AdamW and Muon, part of the gradient elsewhere."""
    decay_all: bool = False
    """Decay biases, norms and embeddings, too, as PyTorch's own optimisers do where they are given all parameters."""
    scale_parameter: bool = False
    """Scale each parameter's learning rate by the root mean square of its numbers, at least 0.001, as Adafactor does: T5 needs it."""

    matrix_params: ClassVar[bool] = False
    """Whether the matrices inside the network must come in their own shape, as "matrices" of a group."""

    def check(self, place: str) -> None:
        """Refuse numbers that cannot be, naming the flag."""
        for field_ in dataclasses.fields(self):
            value = getattr(self, field_.name)
            decay = field_.name in ("betas", "momentum", "alpha")
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, (int, float)) and not 0.0 <= number < (1.0 if decay else math.inf):
                    raise ConfigError(f"--{place}.{field_.name} must be at least 0 and {'below 1' if decay else 'finite'}, not {number}")
        self.schedule.check(f"{place}.schedule")

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        """Torch optimisers over groups of "params" whose "decay" says whether they are decayed."""
        raise NotImplementedError

    def decayed(self, groups: Groups) -> Groups:
        return [
            {"params": g["params"], "weight_decay": self.weight_decay if g["decay"] or self.decay_all else 0.0}
            for g in groups
            if g["params"]
        ]


def _rate(lr: float, like: Tensor) -> float | Tensor:
    """On a GPU the rate is a tensor, so that a captured graph can be given another one."""
    return torch.tensor(lr, device=like.device) if like.is_cuda else lr


def _adam(groups: Groups, rate: float | Tensor, betas: tuple[float, float], eps: float, *, decoupled: bool) -> Optimizer:
    """PyTorch's fused Adam, or a kernel of our own where that one leaves a GPU idle."""
    few = sum(len(g["params"]) for g in groups) <= FEW  # laid end to end (flat.py)
    if few and isinstance(rate, Tensor) and importlib.util.find_spec("triton"):
        from weft.kernels.triton.adam import GPUAdam

        return GPUAdam(groups, rate, betas, eps, decoupled)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    return kind(groups, lr=rate, betas=betas, eps=eps, fused=True, capturable=isinstance(rate, Tensor))


def copies_itself(config: OptimConfig) -> bool:
    """Whether the updates of a configuration can read bf16 gradients and write bf16 copies of the weights."""
    plain = not (config.l1 or config.l2 or config.clip_value or config.scale_parameter)
    return plain and (isinstance(config, AdamW) or (isinstance(config, Adam) and not config.eps_inside_sqrt))


def copying(config: Any, groups: Groups, copies: dict[Tensor, Any]) -> Optimizer:
    """Adam or AdamW over the parameters of groups that have copies."""
    from weft.kernels.triton.adam import CopyingAdam

    mine = [{**g, "params": [p for p in g["params"] if p in copies]} for g in groups]
    like = next(iter(copies))
    return CopyingAdam(
        config.decayed(mine), torch.tensor(config.lr, device=like.device), config.betas, config.eps, isinstance(config, AdamW), copies
    )


@dataclass(frozen=True, kw_only=True)
class SGD(OptimConfig):
    """x <- x - lr g. With the whole data as the batch this is gradient descent."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        return [torch.optim.SGD(self.decayed(groups), lr=_rate(self.lr, like), fused=True)]


@dataclass(frozen=True, kw_only=True)
class ASGD(SGD):
    """SGD whose evaluation, samples and checkpoint use the mean of its weights (`training.averaging`)."""

    average_from: int = 0
    """First step whose weights count in the mean (Polyak averaging); 0 begins where validation shows no progress (NT-ASGD)."""
    nonmono: int = 5
    """No progress: a validation is worse than the best of those before it, the last so many left out."""


@dataclass(frozen=True, kw_only=True)
class Momentum(OptimConfig):
    momentum: float = 0.9
    """Share gamma of the velocity that is kept."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        return [HeavyBall(self.decayed(groups), _rate(self.lr, like), self.momentum, self.weight_decay)]


@dataclass(frozen=True, kw_only=True)
class RMSProp(OptimConfig):
    alpha: float = 0.99
    """Decay of the running square."""
    eps: float = 1e-8
    """Added to the root."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        settings: dict[str, Any] = {"alpha": self.alpha, "eps": self.eps, "foreach": True, "capturable": like.is_cuda}
        return [torch.optim.RMSprop(self.decayed(groups), lr=_rate(self.lr, like), **settings)]


@dataclass(frozen=True, kw_only=True)
class Adam(OptimConfig):
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running mean and of the running square."""
    eps: float = 1e-8
    """Added to the root."""
    eps_inside_sqrt: bool = False
    """Put eps under the root instead, as some texts misprint it."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        rate = _rate(self.lr, like)
        if self.eps_inside_sqrt:
            return [EpsilonInsideAdam(self.decayed(groups), rate, self.betas, self.eps, self.weight_decay)]
        return [_adam(self.decayed(groups), rate, self.betas, self.eps, decoupled=False)]


@dataclass(frozen=True, kw_only=True)
class AdamW(OptimConfig):
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running mean and of the running square."""
    eps: float = 1e-8
    """Added to the root."""
    weight_decay: float = 0.01
    """Decoupled decay per unit of learning rate; biases, norms and embeddings are not decayed but with `decay_all`."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        return [_adam(self.decayed(groups), _rate(self.lr, like), self.betas, self.eps, decoupled=True)]


@dataclass(frozen=True, kw_only=True)
class Muon(OptimConfig):
    """Muon for the matrices inside the network, AdamW for embeddings, heads, norms and biases."""

    momentum: float = 0.95
    """Share of the momentum that is kept."""
    weight_decay: float = 0.01
    """Decoupled decay per unit of learning rate, of matrices and heads."""
    adamw_lr: float = 0.0
    """Peak rate of AdamW; 0 takes lr."""
    head_lr: float = 0.0
    """Peak rate of AdamW for heads that share nothing with an embedding; 0 takes adamw_lr."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay of the running mean and square."""
    matrix_params: ClassVar[bool] = True

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        optimizers: list[Optimizer] = []
        if matrices := [p for g in groups for p in g["matrices"]]:
            group = {"params": matrices, "weight_decay": self.weight_decay}
            optimizers.append(MuonOptimizer([group], _rate(self.lr, like), self.momentum, self.weight_decay))
        if any(g["params"] for g in groups):
            adamw = AdamW(lr=self.adamw_lr or self.lr, betas=self.betas, weight_decay=self.weight_decay, decay_all=self.decay_all)
            optimizers += adamw.build(groups, like)
            nonempty = [g for g in groups if g["params"]]
            for made, given in zip(optimizers[-1].param_groups, nonempty, strict=True):
                if self.head_lr and given["decay"]:  # of what is decayed, only heads are left
                    made["lr"] = _rate(self.head_lr, like)
        return optimizers
