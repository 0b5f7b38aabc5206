"""Optimisers as settings, and the Updater that clips, guards, schedules and applies one turn's update."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.config import Config
from weft.training.muon import EpsilonInsideAdam, HeavyBall, MuonOptimizer
from weft.training.schedule import Schedule

Groups = list[dict[str, Any]]


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

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        """Torch optimisers over parameter groups whose "decay" says whether weights in them are decayed."""
        raise NotImplementedError

    def decayed(self, groups: Groups) -> Groups:
        return [{"params": g["params"], "weight_decay": self.weight_decay if g["decay"] else 0.0} for g in groups if g["params"]]


def _rate(lr: float, like: Tensor) -> float | Tensor:
    """On a GPU the rate is a tensor, so that a captured graph can be given another one."""
    return torch.tensor(lr, device=like.device) if like.is_cuda else lr


def _adam(groups: Groups, rate: float | Tensor, betas: tuple[float, float], eps: float, *, decoupled: bool) -> Optimizer:
    """PyTorch's fused Adam, or a kernel of our own where that one leaves a GPU idle."""
    if isinstance(rate, Tensor) and importlib.util.find_spec("triton"):
        from weft.training.flat_adam import LIMIT, FlatAdam

        if sum(p.numel() for g in groups for p in g["params"]) <= LIMIT:
            return FlatAdam(groups, rate, betas, eps, decoupled)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    return kind(groups, lr=rate, betas=betas, eps=eps, fused=True, capturable=isinstance(rate, Tensor))


@dataclass(frozen=True, kw_only=True)
class SGD(OptimConfig):
    """x <- x - lr g. With the whole data as the batch this is gradient descent."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        return [torch.optim.SGD(self.decayed(groups), lr=_rate(self.lr, like), fused=True)]


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
        settings = {"alpha": self.alpha, "eps": self.eps, "foreach": True, "capturable": like.is_cuda}
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
    """Decoupled decay per unit of learning rate; biases, norms and embeddings are not decayed."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        return [_adam(self.decayed(groups), _rate(self.lr, like), self.betas, self.eps, decoupled=True)]


@dataclass(frozen=True, kw_only=True)
class Muon(OptimConfig):
    """Muon for the matrices inside the network, AdamW for embeddings, heads, norms and biases."""

    momentum: float = 0.95
    """Share of the momentum that is kept."""
    weight_decay: float = 0.01
    """Decoupled decay per unit of learning rate, of matrices and heads."""
    rest_lr: float = 0.0
    """Peak rate of AdamW; 0 takes lr."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay of the running mean and square."""

    def build(self, groups: Groups, like: Tensor) -> list[Optimizer]:
        hidden = [{**g, "params": [p for p in g["params"] if p in g["matrices"]]} for g in groups]
        others = [{**g, "params": [p for p in g["params"] if p not in g["matrices"]]} for g in groups]
        optimizers: list[Optimizer] = []
        if any(g["params"] for g in hidden):
            optimizers.append(MuonOptimizer(self.decayed(hidden), _rate(self.lr, like), self.momentum, self.weight_decay))
        if any(g["params"] for g in others):
            adamw = AdamW(lr=self.rest_lr or self.lr, betas=self.betas, weight_decay=self.weight_decay)
            optimizers += adamw.build(others, like)
        return optimizers


def audit(modules: list[tuple[str, nn.Module]]) -> dict[str, Literal["matrix", "head", "plain"]]:
    """How each parameter is treated: "matrix" and "head" are decayed, "plain" (bias, norm, embedding) is not.

    A tensor shared between an embedding and a head counts as an embedding.
    """
    kinds: dict[int, Literal["matrix", "head", "plain"]] = {}
    names: dict[int, str] = {}
    for prefix, root in modules:
        for path, module in root.named_modules():
            for leaf, parameter in module.named_parameters(recurse=False):
                name = ".".join(part for part in (prefix, path, leaf) if part)
                embedding = isinstance(module, nn.Embedding) or leaf.endswith("embedding")
                kind: Literal["matrix", "head", "plain"] = "matrix"
                if parameter.ndim < 2 or embedding:
                    kind = "plain"
                elif path.split(".")[-1].endswith("head"):
                    kind = "head"
                names.setdefault(id(parameter), name)
                if kinds.get(id(parameter)) != "plain":
                    kinds[id(parameter)] = kind
    return {names[key]: kind for key, kind in kinds.items()}


class Updater:
    """Applies one turn's gradients: regularise, clip, refuse what is not finite, step. `step` never waits for the device."""

    def __init__(self, config: OptimConfig, modules: list[tuple[str, nn.Module]], halt: bool):
        self.config, self.halt = config, halt
        self.kinds = audit(modules)
        self.named = {name: p for prefix, m in modules for name, p in _named(prefix, m) if name in self.kinds}
        matrices = {p for name, p in self.named.items() if self.kinds[name] == "matrix"}
        decay = [p for name, p in self.named.items() if self.kinds[name] != "plain"]
        plain = [p for name, p in self.named.items() if self.kinds[name] == "plain"]
        self.parameters, self.regularised = [*self.named.values()], decay
        like = self.parameters[0]
        groups = [{"params": decay, "decay": True, "matrices": matrices}, {"params": plain, "decay": False, "matrices": matrices}]
        self.optimizers = config.build(groups, like)
        self.peaks = [[float(g["lr"]) for g in o.param_groups] for o in self.optimizers]
        self.lr = 0.0
        self.refused = torch.zeros((), device=like.device)
        """Updates not made because a gradient was not finite."""
        self.norm = torch.zeros((), device=like.device)

    def set_rate(self, position: float, end: float) -> None:
        """Choose the learning rate of the coming update."""
        factor = self.config.schedule.factor(position, end)
        self.lr = self.config.lr * factor
        for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(peak * factor)
                else:
                    group["lr"] = peak * factor

    @torch.no_grad()
    def step(self) -> None:
        self._regularise()
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        self.norm.copy_(nn.utils.get_total_norm(gradients, foreach=True))
        bad = (~self.norm.isfinite()).float()
        if self.halt:
            bad = torch.maximum(bad, (self.refused > 0).float())
        self.refused += bad
        self._clip(gradients)
        signs = torch._foreach_sign(self.regularised) if self.config.l1 else []
        for optimizer in self.optimizers:
            self._apply(optimizer, bad)
        for weight, sign in zip(self.regularised, signs):
            weight.masked_fill_(weight * sign < 0, 0.0)  # the kink of |w| holds what would jump over it

    def _regularise(self) -> None:
        weights = [p for p in self.regularised if p.grad is not None]
        gradients = [p.grad for p in weights]
        if self.config.l2:
            torch._foreach_add_(gradients, weights, alpha=2 * self.config.l2)
        for weight, gradient in zip(weights, gradients) if self.config.l1 else ():
            at_zero = -gradient.clamp(-self.config.l1, self.config.l1)  # the subgradient that moves a zero weight least
            gradient.add_(torch.where(weight == 0, at_zero, self.config.l1 * weight.sign()))

    def _clip(self, gradients: list[Tensor]) -> None:
        norm = self.norm
        if self.config.clip_value:
            torch._foreach_clamp_min_(gradients, -self.config.clip_value)
            torch._foreach_clamp_max_(gradients, self.config.clip_value)
            norm = nn.utils.get_total_norm(gradients, foreach=True)
        if self.config.clip_norm:
            nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip_norm, norm, foreach=True)

    def _apply(self, optimizer: Optimizer, bad: Tensor) -> None:
        if not bad.is_cuda:
            if not bad:
                optimizer.step()
        elif optimizer.defaults.get("fused"):
            optimizer.found_inf = bad  # type: ignore[attr-defined]
            optimizer.step()
        else:
            before = {id(t): t.clone() for t in _tensors(optimizer)}
            optimizer.step()
            for tensor in _tensors(optimizer):  # state made by this very step has no past: it returns to zero
                tensor.copy_(torch.where(bad > 0, before.get(id(tensor), torch.zeros_like(tensor)), tensor))

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """Optimiser state by parameter name: "blocks.0.weight/exp_avg"."""
        owner = {id(p): name for name, p in self.named.items()}
        return {
            f"{owner[id(p)]}/{key}": value if value.ndim else value.clone()  # a step count may be shared, but each has its own entry
            for optimizer in self.optimizers
            for p, state in optimizer.state.items()
            for key, value in state.items()
            if isinstance(value, Tensor)
        }

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        for optimizer in self.optimizers:
            mine = {id(p) for g in optimizer.param_groups for p in g["params"]}
            for path, value in tensors.items():
                name, _, key = path.rpartition("/")
                parameter = self.named[name]
                if id(parameter) not in mine:
                    continue
                if key in optimizer.state[parameter]:  # in place, for the sake of a captured graph
                    optimizer.state[parameter][key].copy_(value)
                else:
                    place = value.device if key == "step" and not parameter.is_cuda else parameter.device
                    optimizer.state[parameter][key] = value.to(place).clone()


def _tensors(optimizer: Optimizer) -> list[Tensor]:
    """Everything a step may change."""
    weights = [p for g in optimizer.param_groups for p in g["params"]]
    return weights + [t for s in optimizer.state.values() for t in s.values() if isinstance(t, Tensor)]


def _named(prefix: str, module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(f"{prefix}.{name}" if prefix else name, p) for name, p in module.named_parameters()]
