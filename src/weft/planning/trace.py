"""What a compiled training step does: the graphs the compiler would make of it, read instead of run.

The forward and backward passes are traced together and cut in two as torch.compile does, which decides what is kept in between
and what is computed again. Operations between two large ones (matrix products, attention, convolutions, scatters) are fused,
so only what these read or write, and what leaves a graph, takes memory or travels.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.nn.utils.stateless import _reparametrize_module

from weft.data.base import Batch
from weft.objectives.base import Objective
from weft.training.execution_options import refused

PRODUCTS = ("aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.", "aten.convolution")
ATTENTION = "aten._scaled_dot_product"
SCATTERS = ("index_put", "scatter_add", "aten.sort", "aten.topk", "embedding_dense_backward")
LOSS = "weft.chunked_loss"
VIEWS = ("view", "permute", "alias", "expand", "slice.", "unsqueeze", "squeeze", "select.", "split", "transpose")


@dataclass
class Work:
    """Bytes and FLOPs of one update of one micro-batch."""

    saved: float = 0.0
    """Bytes kept from the forward pass for the backward pass, weights left out."""
    peak: float = 0.0
    """Most bytes alive at once, weights left out."""
    products: float = 0.0
    """FLOPs of matrix products and convolutions."""
    operands: float = 0.0
    """Bytes these read and write."""
    forward_attention: float = 0.0
    """FLOPs of fused attention, of what a causal kernel does not skip."""
    backward_attention: float = 0.0
    traffic: float = 0.0
    """Bytes that everything else reads and writes."""
    kernels: float = 0.0
    """How many are launched."""

    def merged(self, other: Work) -> Work:
        """Of two passes in turn: the most memory, all the work."""
        memory = {name: max(getattr(self, name), getattr(other, name)) for name in ("saved", "peak")}
        rest = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name not in memory}
        return Work(**memory, **rest)


def trace(model: nn.Module, objective: Objective, batch: Batch) -> Work:
    """The work of every turn of an objective, one after the other. Model and batch are fake tensors (fake_tensors.py)."""
    work, whole = Work(), nn.ModuleList([model, objective])
    bf16 = not refused(model, objective, "autocast")
    for turn in objective.turns:

        def loss(tensors: dict[str, Tensor], batch: Batch, turn: str = turn.name) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16), _reparametrize_module(whole, tensors, tie_weights=True):
                return torch.stack([*objective(model, batch, turn).sums.values()]).sum()

        forward, backward = graphs(loss, dict(whole.named_parameters()) | dict(whole.named_buffers()), batch)
        given = {node.name for node in forward.nodes if node.op == "placeholder"}
        work = work.merged(read(forward, given).merged(read(backward, given)))
    return work


def graphs(function: Callable[..., Tensor], *arguments: Any) -> tuple[Graph, Graph]:
    """The forward and the backward graph of a function that returns a loss, cut as the compiler cuts them."""
    from functorch.compile import aot_function, make_boxed_func  # type: ignore[import-untyped]
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    found: list[Graph] = []

    def keep(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        found.append(gm.graph)
        return make_boxed_func(gm)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = aot_function(
            function,
            fw_compiler=keep,
            bw_compiler=keep,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=select_decomp_table(),
        )
        traced(*arguments).backward()
    return found[0], found[1]


def storage(node: Node) -> int | None:
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, Tensor) else None


def named(node: Node, *words: str) -> bool:
    return node.op == "call_function" and any(word in str(node.target) for word in words)


def large(node: Node) -> bool:
    """Whether an operation is a kernel of its own."""
    return named(node, *PRODUCTS, ATTENTION, *SCATTERS, LOSS)


def read(graph: Graph, weights: set[str]) -> Work:
    """Bytes and FLOPs of one graph; `weights` names the inputs that are there anyway."""
    nodes = [*graph.nodes]
    sizes = {s: node.meta["val"].untyped_storage().nbytes() for node in nodes if (s := storage(node)) is not None}
    real = written(nodes)
    there = {storage(node) for node in nodes if node.op == "placeholder" and node.name in weights}
    work = kernels(nodes, sizes, real)
    work.saved, work.peak = alive(nodes, sizes, real - there)
    return work


def written(nodes: list[Node]) -> set[int | None]:
    """Storages that exist in memory: inputs, outputs, and what large operations read or write."""
    real: set[int | None] = set()
    for node in nodes:
        parent = node.args[0] if node.target is operator.getitem else node
        if node.op == "placeholder" or (isinstance(parent, Node) and large(parent)):
            real.add(storage(node))
        if large(node) or node.op == "output":
            real |= {storage(value) for value in node.all_input_nodes}
    return real - {None}


def alive(nodes: list[Node], sizes: dict[int, int], real: set[int | None]) -> tuple[float, float]:
    """Bytes of the inputs, and the most bytes that are alive at once."""
    place = {node: number for number, node in enumerate(nodes)}
    done: dict[Node, int] = {}
    for node in reversed(nodes):  # a fused operation happens where its last result is written
        fused = storage(node) not in real and not large(node) and node.op == "call_function"
        done[node] = max([done[user] for user in node.users], default=place[node]) if fused else place[node]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for node in nodes:
        held = storage(node)
        if held in real and held is not None:
            first.setdefault(held, -1 if node.op == "placeholder" else place[node])
            last[held] = max([last.get(held, -1), place[node], *(done[user] for user in node.users)])
    steps = [0.0] * (len(nodes) + 2)
    for held, begin in first.items():
        steps[begin + 1] += sizes[held]
        steps[last[held] + 2 if last[held] < len(nodes) else -1] -= sizes[held]
    now = most = start = steps[0]
    for change in steps[1:]:
        now += change
        most = max(most, now)
    return start, most


def kernels(nodes: list[Node], sizes: dict[int, int], real: set[int | None]) -> Work:
    """FLOPs of the large operations, and what travels: for fused ones each storage once between two large ones."""
    work, touched = Work(), set[int]()
    for node in nodes:
        if node.op != "call_function" or node.target is operator.getitem or named(node, *VIEWS):
            continue
        if not large(node):
            touched |= {s for s in (storage(node), *map(storage, node.all_input_nodes)) if s in real and s is not None}
            continue
        work.traffic += sum(sizes[held] for held in touched)
        work.kernels += 1.0 + bool(touched)
        touched = set()
        tally(node, work)
    work.traffic += sum(sizes[held] for held in touched)
    return work


def tally(node: Node, work: Work) -> None:
    """Add one large operation."""
    given = [value.meta["val"] for value in node.all_input_nodes]
    made = node.meta["val"] if isinstance(node.meta["val"], (tuple, list)) else [node.meta["val"]]
    travelled = float(sum(t.numel() * t.element_size() for t in [*given, *made] if isinstance(t, Tensor)))
    if named(node, ATTENTION):
        back = named(node, "backward")
        q, k = given[1 if back else 0], given[2 if back else 1]
        causal = 0.5 if True in node.args else 1.0
        flops = (10.0 if back else 4.0) * causal * q.numel() * k.size(-2)
        work.backward_attention += flops if back else 0.0
        work.forward_attention += 0.0 if back else flops
    elif named(node, LOSS):  # three products; their logits are written once and read by two, and turned into gradients between
        states, head = given[:2]
        work.products += 6.0 * states.numel() * len(head)
        work.operands += 3 * travelled + 6.0 * states.size(0) * len(head)
        work.traffic += 4.0 * states.size(0) * len(head)
    elif named(node, *PRODUCTS):
        work.products += flops_of(node, given, [*made])
        work.operands += travelled
    else:
        work.traffic += travelled


def flops_of(node: Node, given: list[Any], made: list[Any]) -> float:
    if not named(node, "convolution"):
        return 2.0 * float(given[-2].numel()) * float(given[-1].size(-1))
    out, weight = (given[0], given[2]) if named(node, "backward") else (made[0], given[1])
    return (4.0 if named(node, "backward") else 2.0) * float(out.numel()) * float(weight[0].numel())
