"""The processes that train one model together, as the trainer sees them. This one is alone; parallel.data_parallel has those of many.

A batch is divided among the processes, and what they add up is sums, never means: so the division cannot change a gradient.
A parameter may be held whole or in parts, of which each process has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

SumsAndMetrics = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Sums and metrics of a micro-batch."""


ROW = 1 << 12


def norms_of(tensors: list[Tensor]) -> list[Tensor]:
    """The norm of each tensor. On a CPU PyTorch's own adds one square of fp32 after another and loses digits, 7e-5 of 3 million numbers
    and a hundredth of 100 million; of rows it loses none, and is faster."""
    if tensors and tensors[0].is_cuda:
        return [*torch._foreach_norm(tensors)]
    return [torch.linalg.vector_norm(_by_rows(tensor.flatten())) for tensor in tensors]


def _by_rows(flat: Tensor) -> Tensor:
    """Fewer numbers of the same norm."""
    whole = len(flat) // ROW * ROW
    return torch.cat([torch.linalg.vector_norm(flat[:whole].view(-1, ROW), dim=1), flat[whole:]]) if whole > ROW else flat


class Team:
    rank = 0
    """Number of this process; the first, 0, is the one that writes."""
    world_size = 1
    """How many there are."""
    main_pid = 0
    """What the first is called by its machine, where it is another one than this."""
    dp_size = 1
    """Parts into which a batch is divided."""
    dp_rank = 0
    """Which of them this process has."""
    stages = 1
    """Into how many stages the model is cut, one behind the other."""
    names: frozenset[str] = frozenset()
    """What the stages of all processes hold together, where the model is cut."""
    seed_suffix: tuple[int, ...] = ()
    """What tells this process's dropout from that of the others."""

    @property
    def first(self) -> bool:
        return self.rank == 0

    def prepare(self, model: nn.Module, objective: nn.Module) -> None:
        """Give all processes the first one's state, and lay the model out over them."""

    def micro_batches(self, first: int, count: int, micro: int) -> list[tuple[int, int]]:
        """This process's draws of a batch as micro-batches (first, count); micro 0 for one."""
        micro = micro or count
        return [(first + start, min(micro, count - start)) for start in range(0, count, micro)]

    def local_batch(self, first: int, count: int) -> tuple[int, int]:
        """This process's draws of a batch: a part that may be empty."""
        return first, count

    def enter(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call what uses the model's weights, and will be followed by a backward pass."""
        return function(*given)

    def visit(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call what uses or changes the model's weights without a backward pass."""
        return function(*given)

    def forward_backward(self, function: Callable[..., Any], batches: list[Any], counts: Any) -> Iterable[SumsAndMetrics]:
        """Forward and backward pass of each micro-batch by a function that gives (total, sums, metrics); sums and metrics."""
        for batch in batches:
            total, sums, metrics = self.enter(function, batch, counts)
            total.backward()
            yield sums, metrics

    def evaluate(self, function: Callable[..., SumsAndMetrics], *given: Any) -> SumsAndMetrics:
        """What a function that reads the model finds, for all processes that share its examples; without a backward pass."""
        return function(*given)

    def all_reduce(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums over all processes."""
        return tensors

    def all_reduce_gradients(self, gradients: list[Tensor]) -> None:
        """Replace gradients by their sums over all processes."""

    def replicas(self, like: Tensor) -> int:
        """How many of the processes that hold one copy of the model have the same part of a parameter."""
        return 1

    def norm(self, gradients: list[Tensor], copies: list[int]) -> Tensor:
        """The norm of all gradients together, of which these are this process's parts."""
        if any(gradient.dtype == torch.bfloat16 for gradient in gradients):  # whose norms would be rounded, too
            kinds = {gradient.dtype for gradient in gradients}
            norms = [n for kind in kinds for n in torch._foreach_norm([g for g in gradients if g.dtype == kind], 2, dtype=torch.float32)]
            mixed: Tensor = torch.stack(norms).norm()
            return mixed
        exact = gradients and not gradients[0].is_cuda
        norm: Tensor = torch.stack(norms_of(gradients)).norm() if exact else nn.utils.get_total_norm(gradients, foreach=True)
        return norm

    def norms(self, parts: list[Tensor], copies: list[int]) -> Tensor:
        """The norm of each parameter, of which these are this process's parts."""
        return torch.stack(norms_of(parts))

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """What this process holds of a parameter's gradient."""
        return parameter.grad

    def to_local(self, tensor: Tensor) -> Tensor:
        """What this process holds of a tensor of the model."""
        return tensor

    def full_tensor(self, part: Tensor, like: Tensor) -> Tensor:
        """The whole of which each process has a part, divided as `like` is."""
        return part

    def shard(self, whole: Tensor, like: Tensor) -> Tensor:
        """This process's part of a whole, divided as `like` is."""
        return whole

    def is_saver(self, like: Tensor | None = None) -> bool:
        """Whether it is this process that saves what several hold alike: all, or those that have this tensor of the model."""
        return True

    def shards(self, held: Tensor, like: Tensor) -> dict[str, Tensor]:
        """What this process saves of a tensor divided as `like` is, by where it begins in the whole: "" or "[8,0]"."""
        return {"": held}

    def all_gather_object(self, thing: Any) -> list[Any]:
        """What each process has, told to all."""
        return [thing]

    def all_reduce_max(self, number: int) -> int:
        """The largest of all processes' numbers."""
        return number


SINGLE_PROCESS = Team()


def once(tensors: dict[str, Tensor], team: Team = SINGLE_PROCESS) -> dict[str, Tensor]:
    """Tensors of a model, those that share their numbers under the first of their names only."""
    seen: set[int] = set()
    found = {}
    for name, tensor in tensors.items():
        part = team.to_local(tensor)
        if not part.numel() or part.data_ptr() not in seen:
            found[name] = tensor
            seen.add(part.data_ptr())
    return found


def saved(name: str, held: Tensor, like: Tensor, team: Team) -> dict[str, Tensor]:
    """What this process saves of a tensor, by the names of its pieces."""
    return {f"{name}{where}": piece for where, piece in team.shards(held, like).items()}


@torch.no_grad()
def copy(held: dict[str, Tensor], wholes: Mapping[str, Tensor], team: Team = SINGLE_PROCESS) -> None:
    """Put whole tensors where this process holds its parts of them."""
    for name in [name for name in held if name in wholes]:
        place = team.to_local(held[name])
        place.copy_(team.shard(wholes[name].to(place.device), held[name]))
