"""Exact counts on tensors without numbers: parameters, FLOPs by part, what autograd keeps for the backward pass.

FLOPs are those of matrix products, convolutions and attention, as PyTorch counts them while the model's own modules run on
those tensors. Attention is counted whole, though a causal kernel skips half of it: so does the usual estimate
6 N + 12 L D T per token (Chowdhery et al., 2022, arXiv:2204.02311, appendix B), which stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

from weft.objectives.base import Objective
from weft.planning.fake_tensors import build, fake_tensors
from weft.planning.subject import Subject
from weft.training.execution_options import refused

PARTS = ("attention", "feedforward")
"""Modules that are told apart, by the last word of their name; the rest is embedding, head and loss."""


def attention_flops(q: Any, k: Any, v: Any, *rest: Any, **settings: Any) -> int:
    """Of softmax(q kᵀ) v with shapes (B, H, T, K), (B, H, S, K): two products."""
    return sdpa_flop_count(q, k, v)  # type: ignore[no-any-return, no-untyped-call]


def attention_backward_flops(grad: Any, q: Any, k: Any, v: Any, *rest: Any, **settings: Any) -> int:
    """Five products: the scores once more, and the gradients of both factors of both products."""
    return sdpa_backward_flop_count(grad, q, k, v)  # type: ignore[no-any-return, no-untyped-call]


ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
}
"""What PyTorch's table does not know."""
FLOPS: dict[Any, Any] = {**flop_registry, **{packet: shape_wrapper(flops) for packet, flops in ON_CPU.items()}}  # type: ignore[no-untyped-call]
"""How many FLOPs a call of an operation has, by its arguments."""


@dataclass(frozen=True)
class Counts:
    parameters: int
    parts: dict[str, int]
    """Parameters by part."""
    forward: dict[str, float]
    """FLOPs per token of the forward pass by part."""
    backward: float
    """FLOPs per token of the backward pass."""
    again: float
    """Of these, those of the scores that attention makes once more."""
    estimate: float
    """6 N + 12 L D T, per token; 6 N where the model has no such shape."""
    kept: float
    """Bytes per example that plain autograd keeps between the passes."""
    calls: float
    """Operations that an update calls one by one where it is not compiled."""

    @property
    def total(self) -> float:
        return sum(self.forward.values()) + self.backward

    @property
    def useful(self) -> float:
        """What a run is credited with: 6 N + 12 L D T for a GPT."""
        return self.total - self.again


def count(subject: Subject, examples: int = 1) -> Counts:
    with fake_tensors():
        model, objective = build(subject)
        if not (objective.separable and getattr(model, "separable", True)):
            examples = max(examples, 2)  # batch norms have none of a single example
        forward, backward, again, kept, calls = run(model, objective, subject.make(examples))
    tokens = examples * subject.tokens
    size = sum(p.numel() for p in model.parameters())
    return Counts(
        size,
        sizes(model),
        {part: flops / tokens for part, flops in forward.items()},
        backward / tokens,
        again / tokens,
        estimate(subject.model, size, subject.tokens),
        kept / examples,
        calls,
    )


def run(model: nn.Module, objective: Objective, batch: dict[str, Tensor]) -> tuple[dict[str, float], float, float, float, float]:
    """FLOPs forward by part, FLOPs backward and those made again among them, bytes kept in between, and calls, over all turns."""
    forward = dict.fromkeys([*PARTS, "rest"], 0.0)
    backward = again = kept = calls = 0.0
    bf16 = not refused(model, objective, "autocast")
    for turn in objective.turns:
        tally = Calls()  # type: ignore[no-untyped-call]
        with tally, by_part(model, tally, forward):
            before = sum(forward[part] for part in PARTS)
            with (
                saving_activations(model) as held,
                torch.autocast("cpu", torch.bfloat16, enabled=bf16),
            ):
                loss = torch.stack([*objective(model, batch, turn.name).sums.values()]).sum()
            there = tally.flops
            forward["rest"] += there - (sum(forward[part] for part in PARTS) - before)
            loss.backward()  # type: ignore[no-untyped-call]
            backward += tally.flops - there
            again += tally.again
            kept, calls = max(kept, float(sum(held.values()))), calls + tally.number
        model.zero_grad()
    return forward, backward, again, kept, calls


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations and their FLOPs. PyTorch's own counter also follows modules, which a second derivative does not allow."""

    number = 0
    flops = 0.0
    again = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.number += 1
        if of := FLOPS.get(func._overloadpacket):
            found = of(*args, **(kwargs or {}), out_val=out)
            self.flops += found
            self.again += found / 5 if "attention" in func.name() and "backward" in func.name() else 0.0
        return out


@contextmanager
def by_part(model: nn.Module, tally: Calls, sums: dict[str, float]) -> Iterator[None]:
    """Add up what happens inside the modules of each part."""
    begun: list[float] = []
    handles = []
    for name, module in model.named_modules():
        part = name.rpartition(".")[2]
        if part not in PARTS:
            continue

        def enter(module: nn.Module, arguments: Any) -> None:
            begun.append(tally.flops)

        def leave(module: nn.Module, arguments: Any, out: Any, part: str = part) -> None:
            sums[part] += tally.flops - begun.pop()

        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    yield
    for handle in handles:
        handle.remove()


@contextmanager
def saving_activations(model: nn.Module) -> Iterator[dict[int, int]]:
    """Bytes of each tensor that autograd saves, once for each storage, weights left out."""
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    held: dict[int, int] = {}
    alive: list[Tensor] = []  # so that no storage is taken for another

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            held[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield held


def sizes(model: nn.Module) -> dict[str, int]:
    """Parameters by part."""
    found = dict.fromkeys([*PARTS, "embeddings", "rest"], 0)
    for name, parameter in model.named_parameters():
        words = name.split(".")
        part = next((word for word in words if word in PARTS), "")
        if not part:
            part = "embeddings" if words[0].startswith(("embed", "position")) or words[0] == "head" else "rest"
        found[part] += parameter.numel()
    return {part: size for part, size in found.items() if size}


def estimate(config: Any, size: int, tokens: int) -> float:
    layers, width = getattr(config, "layers", 0), getattr(config, "width", 0)
    return 6.0 * size + (12.0 * layers * width * tokens if isinstance(layers, int) and isinstance(width, int) else 0.0)
