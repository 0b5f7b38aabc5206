"""How a training step is spread over devices, and what share of the weights each then holds.

Devices form a grid: pipeline x replicate x shard x tensor. A pipeline stage has consecutive blocks; the first has the embeddings
too, the last the final norm and the head. Tensor parallelism splits the matrices of a block (Shoeybi et al., 2019,
arXiv:1909.08053); sharding splits every tensor along its first dimension (FSDP2); replicas hold the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

import torch
from torch import nn

from weft.core.errors import ConfigError
from weft.objectives.base import Objective
from weft.planning.subject import Subject
from weft.training.parallel import pipeline
from weft.training.parallel.processes import LAYOUT, indivisible

SPLIT = {"qkv.weight": 0, "qkv.bias": 0, "up.weight": 0, "up.bias": 0, "gate_up.weight": 0, "out.weight": 1, "down.weight": 1}
"""The dimension along which tensor parallelism splits a parameter of a block, by the end of its name; the others stay whole."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    """Examples of a micro-batch on one device."""
    activation_checkpointing: bool = False
    """Keep only each block's input and compute the rest again in the backward pass."""

    @property
    def devices(self) -> int:
        return self.replicate * self.shard * self.tensor * self.pipeline

    @property
    def data(self) -> int:
        """Devices that see different examples."""
        return self.replicate * self.shard

    def accumulation(self, batch: int) -> int:
        """Micro-batches of a step."""
        return max(1, -(-batch // (self.data * self.micro_batch)))

    def words(self, batch: int) -> str:
        grid = " x ".join(f"{name} {n}" for name in LAYOUT if (n := getattr(self, name)) > 1)
        saved = "on" if self.activation_checkpointing else "off"
        how = f"micro-batches of {self.micro_batch}, {self.accumulation(batch)} per step, checkpointing {saved}"
        return f"{grid or 'one device'}; {how}"

    def command(self, per_node: int, batch: int = 0) -> str:
        """How training is started on it, on machines of so many devices; nothing for one device."""
        if self.devices == 1:
            return ""
        each = max(n for n in range(1, per_node + 1) if self.devices % n == 0)
        machines = f"--nnodes {self.devices // each} " if each < self.devices else ""
        grid = [f"--parallel.{name} {n}" for name in LAYOUT if (n := getattr(self, name)) > 1]
        pieces = [f"--train.micro_batch {self.micro_batch}"] if self.accumulation(batch) > 1 else []
        again = ["--train.activation_checkpointing full"] if self.activation_checkpointing else []
        return f"torchrun {machines}--nproc-per-node {each} -m weft train … {' '.join(grid + pieces + again)}"


ANY = Layout(0, 0, 0, 0)
"""A grid of which every size is left open."""


@dataclass(frozen=True)
class Weights:
    """Shapes of the parameters, with how many there are of each."""

    blocks: int
    """Blocks of the model; 0 where it has no such stack."""
    heads: int
    """KV heads of each block, which tensor parallelism divides; 0 where it cannot."""
    ffn_width: int
    """Inner units of each block, which it divides, too."""
    block: Counter[tuple[str, Shape]]
    """Of one block."""
    first: Counter[tuple[str, Shape]]
    """In front of the blocks."""
    last: Counter[tuple[str, Shape]]
    """Behind them; a head that shares the embedding is not among these."""
    tied: Shape | None
    staged: bool
    """Whether a pipeline can divide it: nothing but embeddings in front of the blocks and a norm and a head behind."""
    indivisible: str
    """Why devices cannot have examples of their own; empty where they can."""

    def local(self, layout: Layout, stage: int = 0) -> int:
        """Parameters that one device of a stage holds (the one with most, where they do not divide)."""
        parts = Counter({key: n * (self.blocks // layout.pipeline) for key, n in self.block.items()})
        if stage == 0:
            parts += self.first
        if stage == layout.pipeline - 1:
            parts += self.last
            if self.tied and stage > 0:
                parts[("head", self.tied)] += 1
        return sum(n * piece(name, shape, layout) for (name, shape), n in parts.items())

    def whole_block(self, layout: Layout) -> int:
        """Parameters of a block that is gathered from its shards."""
        together = Layout(tensor=layout.tensor)
        return sum(n * piece(name, shape, together) for (name, shape), n in self.block.items())


def piece(name: str, shape: Shape, layout: Layout) -> int:
    """Numbers of a parameter that one device holds."""
    sizes = list(shape) or [1]
    split = next((dimension for end, dimension in SPLIT.items() if name.endswith(end)), None)
    if split is not None and layout.tensor > 1:
        sizes[split] = -(-sizes[split] // layout.tensor)
    sizes[0] = -(-sizes[0] // layout.shard)
    return prod(sizes)


def weights(subject: Subject) -> Weights:
    with torch.device("meta"):
        model: nn.Module = subject.model.build()
        objective = subject.objective.build()
    blocks = len(getattr(model, "blocks", ()))
    block, first, last = Counter[tuple[str, Shape]](), Counter[tuple[str, Shape]](), Counter[tuple[str, Shape]]()
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        if blocks and name.startswith("blocks."):
            if name.startswith("blocks.0."):
                block[name, shape] += 1
        else:
            (last if blocks and name.startswith(("norm.", "head.")) else first)[name, shape] += 1
    table = getattr(getattr(model, "embed", None), "weight", None)
    tied = table is not None and getattr(getattr(model, "head", None), "weight", None) is table
    shared = tuple(table.shape) if tied and table is not None else None
    staged = blocks > 1 and staging(model, objective)
    return Weights(blocks, *splitting(model), block, first, last, shared, staged, indivisible(model, objective))


def splitting(model: nn.Module) -> tuple[int, int]:
    """KV heads and feed-forward units of each block, as tensor parallelism divides them; (0, 0) where it cannot."""
    blocks = [*getattr(model, "blocks", ())]
    if not blocks or not all(hasattr(block, "attention") and hasattr(block, "feedforward") for block in blocks):
        return 0, 0
    return blocks[0].attention.kv_heads, blocks[0].feedforward.down.in_features


def staging(model: nn.Module, objective: Objective) -> bool:
    """Whether training could cut the model into stages."""
    try:
        pipeline.refuse(model, objective, 2)
    except ConfigError:
        return False
    return True
