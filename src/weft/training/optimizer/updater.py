"""Applies one turn's gradients: regularise, clip, refuse what is not finite, step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.training.optimizer.bf16_weights import LEAST
from weft.training.optimizer.flat import FlatParameter
from weft.training.optimizer.muon import MuonOptimizer
from weft.training.optimizer.scale_parameter import ScaleParameter
from weft.training.optimizer.settings import OptimConfig, copying
from weft.training.parallel.team import SINGLE_PROCESS, Team, saved

Kind = Literal["matrix", "head", "no_decay"]


def parameter_kinds(modules: list[tuple[str, nn.Module]]) -> dict[str, Kind]:
    """How each parameter is treated: "matrix" and "head" are decayed, "no_decay" (bias, norm, embedding) is not.

    A tensor shared between an embedding and a head counts as an embedding.
    """
    kinds: dict[int, Kind] = {}
    names: dict[int, str] = {}
    for prefix, root in modules:
        for path, module in root.named_modules():
            for leaf, parameter in module.named_parameters(recurse=False):
                name = ".".join(part for part in (prefix, path, leaf) if part)
                embedding = isinstance(module, nn.Embedding) or leaf.endswith("embedding")
                kind: Kind = "matrix"
                if parameter.ndim < 2 or embedding:
                    kind = "no_decay"
                elif path.split(".")[-1].endswith("head"):
                    kind = "head"
                names.setdefault(id(parameter), name)
                if kinds.get(id(parameter)) != "no_decay":
                    kinds[id(parameter)] = kind
    return {names[key]: kind for key, kind in kinds.items()}


class Updater:
    """One turn's optimisers. `step` never waits for the device."""

    def __init__(
        self,
        config: OptimConfig,
        modules: list[tuple[str, nn.Module]],
        halt: bool,
        alone: bool = True,
        team: Team = SINGLE_PROCESS,
        bf16_weights: dict[Tensor, nn.Parameter] | None = None,
    ):
        """`halt`: refuse every update after the first bad one. `alone`: no other turn updates these parameters. `bf16_weights`: the bf16
        copies of some of them, which get their gradients."""
        self.config, self.halt, self.team, self.bf16_weights = config, halt, team, bf16_weights or {}
        named = {name: p for prefix, m in modules for name, p in _named(prefix, m)}
        self.kinds = {name: kind for name, kind in parameter_kinds(modules).items() if name in named}
        self.named = {name: named[name] for name in self.kinds}
        self.parameters = [*self.named.values()]
        self.parts: dict[str, nn.Parameter] = {name: _part(p, team) for name, p in self.named.items()}
        """What this process holds of each parameter: all of it, or its part."""
        self.fixed_layout = {name for prefix, m in modules for name in _fixed_layout(prefix, m)}
        self.flats: list[FlatParameter] = []
        self.updated_tensors: list[Tensor] = []
        """The tensors that are updated: a flat buffer for many parameters, or the parameters themselves."""
        self.regularised: list[Tensor] = []
        groups = [self._group(alone, decay=True), self._group(alone, decay=False)]
        like = next(iter(self.parts.values()))
        owners = {id(held): next(iter(parts)) for parts, held in self.owners()}
        self.replicas = [team.replicas(self.named[owners[id(held)]]) for held in self.updated_tensors]
        self.optimizers = self._optimizers(groups, like)
        self._configure_muon()
        self.scale_parameter = ScaleParameter([*self.owners()], self.named, team) if config.scale_parameter else None
        self.peaks = [[float(g["lr"]) for g in o.param_groups] for o in self.optimizers]
        self.lr = 0.0
        self.fused = like.is_cuda and all(o.defaults.get("fused") for o in self.optimizers)
        self.checks_gradients = (
            all(hasattr(o, "check_gradients") for o in self.optimizers) and team.world_size == 1 and not config.clip_value
        )
        for optimizer in self.optimizers[1:] if self.checks_gradients else ():  # the first one's verdict holds for all
            optimizer.found_inf, optimizer.grad_scale = self.optimizers[0].found_inf, self.optimizers[0].grad_scale  # type: ignore[attr-defined]
        self.refused = torch.zeros((), device=like.device)
        """Updates not made because a gradient was not finite."""
        self.norm = torch.zeros((), device=like.device)

    def _optimizers(self, groups: list[dict[str, Any]], like: Tensor) -> list[Optimizer]:
        if not self.bf16_weights:
            return self.config.build(groups, like)
        rest = [{**g, "params": [p for p in g["params"] if p not in self.bf16_weights]} for g in groups]
        own = self.config.build(rest, like) if any(g["params"] for g in rest) else []
        return [*own, copying(self.config, groups, {**self.bf16_weights})]

    def _group(self, alone: bool, decay: bool) -> dict[str, Any]:
        members = {name: p for name, p in self.parts.items() if (self.kinds[name] != "no_decay") == decay}
        shaped = {name: p for name, p in members.items() if self.config.matrix_params and self.kinds[name] == "matrix"}
        others = {name: p for name, p in members.items() if name not in shaped}
        small = {name: p for name, p in others.items() if name not in self.fixed_layout and (p.numel() < LEAST or not self.bf16_weights)}
        in_place = all(self.parts[name] is self.named[name] for name in small)  # a part lies where the model gathers it from
        alike = len({self.team.replicas(p) for p in small.values()}) == 1
        tensors: list[Tensor] = [*others.values()]
        if alone and in_place and alike and FlatParameter.serves(small):
            self.flats.append(FlatParameter(small))
            tensors = [self.flats[-1].buffer, *(p for name, p in others.items() if name not in small)]
        self.updated_tensors += [*shaped.values(), *tensors]
        self.regularised += [*shaped.values(), *tensors] if decay or self.config.decay_all else []
        return {"params": tensors, "decay": decay, "matrices": [*shaped.values()]}

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
        self._gather()
        self._regularise()
        found = [(self.bf16_weights.get(p, p).grad, number) for p, number in zip(self.updated_tensors, self.replicas, strict=True)]
        gradients = [gradient for gradient, _ in found if gradient is not None]
        signs = torch._foreach_sign(self.regularised) if self.config.l1 and self.regularised else []
        noted = self.scale_parameter.before() if self.scale_parameter else None
        if self.checks_gradients:
            self.optimizers[0].check_gradients(gradients, self.norm, self.refused, self.config.clip_norm, self.halt)  # type: ignore[attr-defined]
            for optimizer in self.optimizers:
                optimizer.step()
        else:
            self._check_and_step(gradients, [number for gradient, number in found if gradient is not None])
        if self.scale_parameter and noted:
            self.scale_parameter.after(*noted)
        for weight, sign in zip(self.regularised, signs):
            weight.masked_fill_(weight * sign < 0, 0.0)  # the kink of |w| holds what would jump over it

    def _check_and_step(self, gradients: list[Tensor], copies: list[int]) -> None:
        self.norm.copy_(self.team.norm(gradients, copies))
        bad = (~self.norm.isfinite()).float()
        if self.halt:
            bad = torch.maximum(bad, (self.refused > 0).float())
        self.refused += bad
        self._clip(gradients, copies)
        for optimizer in self.optimizers:
            self._apply(optimizer, bad)

    def _gather(self) -> None:
        """Lay the gradients where they are used, summed over all processes."""
        for name, part in self.parts.items():
            whole = self.named[name]
            if part is not whole:
                part.grad = self.team.gradient(whole)
        for flat in self.flats:
            flat.gather()
        self.team.all_reduce_gradients([p.grad for p in self.updated_tensors if p.grad is not None])

    def _configure_muon(self) -> None:
        for optimizer in self.optimizers:
            if isinstance(optimizer, MuonOptimizer):
                optimizer.team, optimizer.wholes = self.team, {self.parts[name]: p for name, p in self.named.items()}

    def _regularise(self) -> None:
        weights = [p for p in self.regularised if p.grad is not None]
        gradients = [p.grad for p in weights if p.grad is not None]
        if self.config.l2 and weights:
            torch._foreach_add_(gradients, weights, alpha=2 * self.config.l2)
        for weight, gradient in zip(weights, gradients) if self.config.l1 else ():
            at_zero = -gradient.clamp(-self.config.l1, self.config.l1)  # the subgradient that moves a zero weight least
            gradient.add_(torch.where(weight == 0, at_zero, self.config.l1 * weight.sign()))

    def _clip(self, gradients: list[Tensor], copies: list[int]) -> None:
        norm = self.norm
        if self.config.clip_value:
            torch._foreach_clamp_min_(gradients, -self.config.clip_value)
            torch._foreach_clamp_max_(gradients, self.config.clip_value)
            norm = self.team.norm(gradients, copies)
        if not self.config.clip_norm:
            return
        if self.fused:  # these divide the gradient while they read it
            divisor = ((norm + 1e-6) / self.config.clip_norm).clamp(min=1.0)
            for optimizer in self.optimizers:
                optimizer.grad_scale = divisor  # type: ignore[attr-defined]
        elif norm.is_cuda or norm + 1e-6 > self.config.clip_norm:  # else a CPU, which knows the norm, would multiply by 1
            nn.utils.clip_grads_with_norm_(self.updated_tensors, self.config.clip_norm, norm, foreach=True)

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
        for parameter in (*self.parameters, *self.bf16_weights.values()):
            parameter.grad = None

    def owners(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """For every tensor that is updated, the parameters in it by name, and itself."""
        together = {name for flat in self.flats for name in flat.named}
        for flat in self.flats:
            yield flat.views(flat.buffer.detach()), flat.buffer
        for name, part in self.parts.items():
            if name not in together:
                yield {name: part}, part

    def state_tensors(self) -> dict[str, Tensor]:
        """Optimiser state that this process saves, by parameter name, "blocks.0.weight/exp_avg", however the parameters are held."""
        tensors: dict[str, Tensor] = {}
        for parts, held in self.owners():
            state: dict[str, Tensor] = next((o.state[held] for o in self.optimizers if held in o.state), {})
            sizes = [part.numel() for part in parts.values()]
            for key, value in sorted(state.items()):  # in one order in all processes, whatever order they loaded it in
                if key == "step":
                    tensors |= {f"{name}/{key}": value.clone() for name in parts if self.team.is_saver(self.named[name])}
                else:
                    pieces = torch.split(value.flatten(), sizes)
                    for (name, part), piece in zip(parts.items(), pieces, strict=True):
                        tensors |= saved(f"{name}/{key}", piece.view(part.shape), self.named[name], self.team)
        return tensors

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        for parts, held in self.owners():
            optimizer = next(o for o in self.optimizers if any(held is p for g in o.param_groups for p in g["params"]))
            first = next(iter(parts))
            for path in tensors:
                name, _, key = path.rpartition("/")
                if name == first:
                    laid = tensors[path] if key == "step" else torch.cat([self._own(tensors, part, key).flatten() for part in parts])
                    self._restore(optimizer, held, key, laid if key == "step" else laid.view(held.shape))

    def _own(self, tensors: Mapping[str, Tensor], name: str, key: str) -> Tensor:
        like = self.named[name]
        return self.team.shard(tensors[f"{name}/{key}"].to(like.device), like)

    @staticmethod
    def _restore(optimizer: Optimizer, held: Tensor, key: str, value: Tensor) -> None:
        assert key == "step" or value.shape == held.shape, f"{key}: {value.shape} for {held.shape}"  # a kernel would write past its end
        if key in optimizer.state[held]:  # in place, for the sake of a captured graph
            optimizer.state[held][key].copy_(value)
        else:
            place = value.device if key == "step" and not held.is_cuda else held.device
            optimizer.state[held][key] = value.to(place).clone()


def _tensors(optimizer: Optimizer) -> list[Tensor]:
    """Everything a step may change."""
    weights = [p for g in optimizer.param_groups for p in g["params"]]
    return weights + [t for s in optimizer.state.values() for t in s.values() if isinstance(t, Tensor)]


def _part(parameter: nn.Parameter, team: Team) -> nn.Parameter:
    part = team.to_local(parameter.detach())
    return parameter if part.shape == parameter.shape and type(parameter.data) is Tensor else nn.Parameter(part)


def _fixed_layout(prefix: str, root: nn.Module) -> Iterator[str]:
    """Parameters that must stay where they lie: cuDNN wants those of an RNN end to end in its own order."""
    for path, module in root.named_modules():
        if isinstance(module, nn.RNNBase):
            yield from (".".join(part for part in (prefix, path, leaf) if part) for leaf, _ in module.named_parameters())


def _named(prefix: str, module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(f"{prefix}.{name}" if prefix else name, p) for name, p in module.named_parameters() if p.requires_grad]
