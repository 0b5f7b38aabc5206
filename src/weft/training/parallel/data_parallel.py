"""Data-parallel training: a batch divided among processes, gradients summed, the model copied (replicate), sharded or cut (pipeline).

Replicas add their gradients after the backward pass, as one tensor where the updater lays them together. Shards are FSDP2's
(Zhao et al., 2023, arXiv:2304.11277): each process holds a part of every parameter, gathers the rest when it is needed, and gets
its part of the summed gradient. What enters the divided model is the objective's function, so any method of the model may be used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache
from itertools import count, pairwise
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, Replicate

from weft.training.parallel import pipeline
from weft.training.parallel.pipeline import Pipeline
from weft.training.parallel.sharding import sharded_over, shards
from weft.training.parallel.team import SumsAndMetrics, Team, norms_of
from weft.training.settings import Parallel

WITHIN = ("replicate", "shard", "tensor")
"""How the processes of one stage are laid out."""


@cache
def rendezvous_store() -> tuple[Any, int, int]:
    """Where the processes find one another, kept as long as the program lives; this process's number, and how many there are."""
    return next(rendezvous("env://"))  # type: ignore[no-untyped-call, no-any-return]


GROUPS = count()
"""A program may train several times; what the processes told one another before must not be heard again."""


def init_process_group(backend: str, timeout: timedelta) -> None:
    store, rank, size = rendezvous_store()
    store.set_timeout(timeout)
    own = dist.PrefixStore(f"weft-{next(GROUPS)}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=timeout)


class DistributedTeam(Team):
    def __init__(self, parallel: Parallel, device: torch.device):
        self.parallel, self.device = parallel, device
        # gathering what is both sharded and divided takes two steps; PyTorch says so each time
        logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        self.joined = not dist.is_initialized()  # a program may have joined its processes already
        if self.joined:
            init_process_group(backend, timedelta(seconds=parallel.timeout))
        sizes = (parallel.pipeline, parallel.replicate, parallel.shard, parallel.tensor)
        self.mesh = init_device_mesh(device.type, sizes, mesh_dim_names=("pipeline", *WITHIN))
        self.data = self.mesh["replicate", "shard"]._flatten("data").get_group()  # those that have other examples
        self.own = self.mesh["pipeline", "shard", "tensor"]._flatten("own").get_group()  # those that hold one copy of the model
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.main_pid = self.all_reduce_max(0 if self.rank else os.getpid())
        self.dp_rank, self.dp_size = dist.get_rank(self.data), dist.get_world_size(self.data)
        self.stage, self.stages = self.mesh.get_local_rank("pipeline"), parallel.pipeline
        self.seed_suffix = (self.dp_rank, self.stage) if self.stages > 1 else (self.dp_rank,)
        self.pipe: Pipeline | None = None
        self.shared: list[nn.Parameter] = []
        """What the first stage and the last both hold."""
        for group in (self.data, self.own, *self.mesh.get_all_groups()):
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=parallel.timeout), group)
        self.orders: dict[int, Tensor] = {}
        """In which order a divided tensor has its rows, by the address of its part."""
        self.fsdp_root: Any = None
        """What a divided model is entered through."""

    def destroy_process_group(self) -> None:
        if self.joined and dist.is_initialized():
            dist.destroy_process_group()

    # -- layout ---------------------------------------------------------------------------------------------------------

    def prepare(self, model: Any, objective: Any) -> None:
        if self.stages > 1:
            pipeline.refuse(model, objective, self.stages)
        for tensor in (*model.state_dict().values(), *objective.state_dict().values()):
            dist.broadcast(tensor.detach(), 0)
        orders: dict[str, Tensor] = {}
        if self.parallel.tensor > 1:
            from weft.training.parallel import tensor_parallel as by_heads

            orders = by_heads.divide(model, self.mesh["tensor"])
        if self.stages > 1:
            self.names, tied = frozenset(model.state_dict()), model.head.weight is model.embed.weight
            pipeline.cut(model, self.stage, self.stages)
        if self.parallel.shard > 1:
            self.fsdp_root = shard_model(model, self.mesh["replicate", "shard"] if self.parallel.replicate > 1 else self.mesh["shard"])
        parameters = dict(model.named_parameters())
        self.orders = {self.to_local(parameters[name]).data_ptr(): order for name, order in orders.items() if name in parameters}
        if self.stages > 1:
            self.pipe = Pipeline(model, self.mesh["pipeline"].get_group(), self.device, self.enter)
            self._share(model if tied else None)

    def _share(self, model: Any) -> None:
        """Join the two ends of each pipeline, where the head is the embedding."""
        if model:
            pairs, patience = self.mesh.mesh[[0, -1]].flatten(1).T.tolist(), timedelta(seconds=self.parallel.timeout)
            self.ends, _ = dist.new_subgroups_by_enumeration(pairs, timeout=patience)  # type: ignore[no-untyped-call]
            self.shared = [model.embed.weight] if self.stage in (0, self.stages - 1) else []

    def enter(self, function: Callable[..., Any], *given: Any) -> Any:
        return self.fsdp_root(function, *given) if self.fsdp_root else function(*given)

    @torch.no_grad()
    def visit(self, function: Callable[..., Any], *given: Any) -> Any:
        """As `enter`; changes that the function makes to weights reach the parts."""
        if not self.fsdp_root:
            return function(*given)
        parts = dict(self.fsdp_root.model.named_parameters())
        result = self.fsdp_root(function, *given)
        for name, whole in self.fsdp_root.model.named_parameters():
            if not isinstance(whole, DTensor):
                self.to_local(parts[name]).copy_(self.shard(whole.detach(), parts[name]))
        self.fsdp_root.reshard()
        return result

    def forward_backward(self, function: Callable[..., Any], batches: list[Any], counts: Any) -> Iterable[SumsAndMetrics]:
        if not self.pipe:
            return super().forward_backward(function, batches, counts)
        found = self.pipe.forward_backward(function, batches, counts)
        with torch.no_grad():
            for parameter in self.shared:
                dist.all_reduce(self.to_local(parameter.grad), group=self.ends)  # type: ignore[arg-type]
        return found

    def evaluate(self, function: Callable[..., SumsAndMetrics], *given: Any) -> SumsAndMetrics:
        return self.pipe.evaluate(function, *given) if self.pipe else function(*given)

    # -- batches --------------------------------------------------------------------------------------------------------

    def local_batch(self, first: int, count: int) -> tuple[int, int]:
        start, end = (count * rank // self.dp_size for rank in (self.dp_rank, self.dp_rank + 1))
        return first + start, end - start

    def micro_batches(self, first: int, count: int, micro: int) -> list[tuple[int, int]]:
        """As many micro-batches in every process, as the processes of a divided model go in step."""
        smallest, largest = count // self.dp_size, -(-count // self.dp_size)
        number = min(-(-largest // micro) if micro else 4 * self.stages if self.stages > 1 else 1, smallest)
        start, own = self.local_batch(first, count)
        return [(start + a, b - a) for a, b in pairwise(own * piece // number for piece in range(number + 1))]

    # -- sums -----------------------------------------------------------------------------------------------------------

    def all_reduce(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not tensors:
            return {}
        named = sorted(tensors.items())  # a process may have loaded them in another order
        laid = torch.cat([tensor.flatten().double() for _, tensor in named])
        dist.all_reduce(laid, group=self.data)
        pieces = torch.split(laid, [tensor.numel() for _, tensor in named])
        summed = {name: piece.view(t.shape).to(t.dtype) for (name, t), piece in zip(named, pieces, strict=True)}
        return {name: summed[name] for name in tensors}

    def all_reduce_gradients(self, gradients: list[Tensor]) -> None:
        if self.fsdp_root:  # a divided model adds its own during the backward pass, but for single numbers
            gradients = [gradient for gradient in gradients if not gradient.ndim]
        for work in [dist.all_reduce(gradient, group=self.data, async_op=True) for gradient in gradients]:
            work.wait()

    def replicas(self, like: Tensor) -> int:
        alike = {"shard", "tensor"} - sharded_over(like)
        number: int = prod(getattr(self.parallel, axis) for axis in alike)
        return 2 * number if self._at_both_ends(like) else number

    def norm(self, gradients: list[Tensor], copies: list[int]) -> Tensor:
        if self._whole:
            return super().norm(gradients, copies)
        square = self._squares(gradients, copies).sum()
        dist.all_reduce(square, group=self.own)
        return square.sqrt().float()

    def norms(self, parts: list[Tensor], copies: list[int]) -> Tensor:
        if self._whole:
            return super().norms(parts, copies)
        squares = self._squares(parts, copies)
        dist.all_reduce(squares, group=self.own)
        return squares.sqrt().to(parts[0].dtype)

    @property
    def _whole(self) -> bool:
        """Whether every process holds all of the model."""
        return self.stages * self.parallel.shard * self.parallel.tensor == 1

    @staticmethod
    def _squares(tensors: list[Tensor], copies: list[int]) -> Tensor:
        """What this process adds to the square of each tensor's norm."""
        return torch.stack([norm.double().square() / number for norm, number in zip(norms_of(tensors), copies, strict=True)])

    def all_reduce_max(self, number: int) -> int:
        held = torch.tensor([number])  # on the CPU: nothing waits for the device
        dist.all_reduce(held, dist.ReduceOp.MAX)
        return int(held)

    # -- parts ----------------------------------------------------------------------------------------------------------

    def gradient(self, parameter: Tensor) -> Tensor | None:
        gradient = parameter.grad
        if isinstance(gradient, DTensor) and isinstance(parameter, DTensor):
            return gradient.redistribute(placements=parameter.placements).to_local()
        return gradient

    def to_local(self, tensor: Tensor) -> Tensor:
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def full_tensor(self, part: Tensor, like: Tensor) -> Tensor:
        if not isinstance(like, DTensor):
            return part
        laid = DTensor.from_local(part, like.device_mesh, like.placements, shape=like.shape, stride=like.stride())
        order = self.orders.get(like.to_local().data_ptr())
        return laid.full_tensor() if order is None else laid.full_tensor()[order.argsort().to(part.device)]

    def shard(self, whole: Tensor, like: Tensor) -> Tensor:
        if not isinstance(like, DTensor):
            return whole
        order = self.orders.get(like.to_local().data_ptr())
        whole = whole if order is None else whole[order.to(whole.device)]
        everywhere = DTensor.from_local(whole, like.device_mesh, [Replicate()] * like.device_mesh.ndim)
        return everywhere.redistribute(placements=like.placements).to_local()

    def is_saver(self, like: Tensor | None = None) -> bool:
        return self.first if like is None else self._foremost(like, WITHIN)

    def _foremost(self, like: Tensor, axes: Iterable[str]) -> bool:
        """Whether this process is the first of those along some axes, and not the second to hold what two stages share."""
        return not any(self.mesh.get_local_rank(axis) for axis in axes) and not (self.stage and self._at_both_ends(like))

    def _at_both_ends(self, like: Any) -> bool:
        return any(like is parameter for parameter in self.shared)

    def shards(self, held: Tensor, like: Tensor) -> dict[str, Tensor]:
        split_axes = sharded_over(like)
        if not self._foremost(like, [axis for axis in WITHIN if axis not in split_axes]) or (split_axes and not held.numel()):
            return {}
        return shards(held, like, self.orders.get(like.to_local().data_ptr())) if isinstance(like, DTensor) else {"": held}

    def all_gather_object(self, thing: Any) -> list[Any]:
        things: list[Any] = [None] * self.world_size
        dist.all_gather_object(things, thing)
        return things


class FSDPRoot(nn.Module):
    """Where a divided model is entered: while a function runs here, the weights outside the blocks are whole."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)


def shard_model(model: nn.Module, mesh: DeviceMesh) -> FSDPRoot:
    """Divide every parameter over a mesh but single numbers; the blocks of a deep model are gathered one at a time."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    root = FSDPRoot(model)
    numbers = {parameter for parameter in model.parameters() if not parameter.ndim}
    blocks = getattr(model, "blocks", None)
    for block in blocks if isinstance(blocks, nn.ModuleList) else ():
        if not isinstance(block, pipeline.RemoteBlock):
            fully_shard(block, mesh=mesh, ignored_params=numbers)
    fully_shard(root, mesh=mesh, ignored_params=numbers)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # sums, not means
            module.set_force_sum_reduction_for_comms(True)
    return root
