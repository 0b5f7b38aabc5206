"""Bytes on one device, by part, at the moment when most are needed.

Weights, their gradients and the optimiser's state are fp32, as the trainer keeps them; products read bf16 copies. Where Adam writes
these itself they stay, and gradients are bf16: as many bytes at the end of the backward pass. The moment is
either the start of the backward pass, when everything that was kept is there and the loss besides, or its end, when all
gradients are. While gradients add up over micro-batches they are there throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.kernels.chunked_cross_entropy import CHUNK
from weft.nn.checkpointed import SHARE
from weft.planning.devices import Device, GiB
from weft.planning.footprint import Footprint
from weft.planning.layout import Layout, Weights
from weft.planning.subject import Subject
from weft.training import execution_options

STATE = {"AdamW": 8.0, "Adam": 8.0, "SGD": 0.0, "Momentum": 4.0, "RMSProp": 4.0}
"""Bytes of state for each parameter, by optimiser; Muon keeps 4 for matrices of blocks and 8 for the rest."""
ROOM = 0.94
"""Share of a device's memory that can be filled before it becomes scattered."""


@dataclass(frozen=True)
class MemoryEstimate:
    parts: dict[str, float]

    @property
    def tensors(self) -> float:
        """Bytes of tensors: what PyTorch reports as allocated."""
        return sum(size for part, size in self.parts.items() if part != "context")

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def fits(self, device: Device) -> bool:
        return self.total <= ROOM * device.memory


def need(subject: Subject, footprint: Footprint, weights: Weights, layout: Layout, device: Device, batch: int) -> MemoryEstimate:
    """Of the stage that needs most."""
    stages = {0, layout.pipeline - 1}
    return max((of_stage(subject, footprint, weights, layout, device, batch, stage) for stage in stages), key=lambda n: n.total)


def of_stage(
    subject: Subject, footprint: Footprint, weights: Weights, layout: Layout, device: Device, batch: int, stage: int
) -> MemoryEstimate:
    local = weights.local(layout, stage)
    steps = layout.accumulation(batch)
    block = 4.0 * weights.whole_block(layout)
    kept = activations(subject, footprint, layout, steps, stage, kept_share(subject, footprint, device))
    loss = of_loss(footprint, layout) if stage == layout.pipeline - 1 else 0.0
    copies = 2.0 * block if layout.shard > 1 else copies_of(footprint, weights, layout)
    waiting = 4.0 * local if steps > 1 or layout.shard > 1 else 0.0
    start = {"gradients": waiting, "bf16 copies of weights": copies, "activations": kept, "logits and loss": loss}
    twice = 2.0 if steps > 1 and layout.shard == 1 else 1.0  # a compiled backward pass returns all gradients at once
    end = {"gradients": 4.0 * local * twice + (block if layout.shard > 1 else 0.0)}
    end |= {"bf16 copies of weights": copies / max(1, weights.blocks)}
    end |= {"activations": kept / max(1, footprint.layers // layout.pipeline), "logits and loss": 0.0}
    parts = {"weights": 4.0 * local, "optimiser state": state(subject.optim, weights, layout, local)}
    parts |= start if sum(start.values()) > sum(end.values()) else end
    return MemoryEstimate(parts | {"context": device.context + (1.0 * GiB if layout.devices > 1 else 0.0)})


def state(optim: Any, weights: Weights, layout: Layout, local: int) -> float:
    kind = type(optim).__name__
    if kind != "Muon":
        return STATE.get(kind, 8.0) * local
    matrices = sum(
        n * weights.blocks // layout.pipeline * size // max(1, layout.tensor * layout.shard)
        for (_, shape), n in weights.block.items()
        if len(shape) > 1 and (size := shape[0] * shape[1])
    )
    return 8.0 * local - 4.0 * min(matrices, local)


def keeps(subject: Subject, footprint: Footprint, device: Device) -> str:
    """What a block keeps for its backward pass, by the trainer's own rule."""
    if footprint.layers == 1 or not footprint.compiled:
        return "none"
    options = execution_options.of_activations(footprint.counts.parameters, device.memory)
    return execution_options.resolve(subject.train.activation_checkpointing, options)[0]


def kept_share(subject: Subject, footprint: Footprint, device: Device) -> float:
    """That as a share of all that it could."""
    return SHARE.get(keeps(subject, footprint, device), 1.0)


def activations(subject: Subject, footprint: Footprint, layout: Layout, steps: int, stage: int, share: float) -> float:
    """What is kept of the blocks for the backward pass, of every micro-batch that a stage has begun and not finished."""
    layers = footprint.layers / layout.pipeline
    each = footprint.growth["saved"].per_both if footprint.layers > 1 else footprint.growth["saved"].per_example
    stream = residual(subject)
    open_ = min(steps, layout.pipeline - stage)
    block = min(2 * stream, each) + max(0.0, each - 2 * stream) / layout.tensor  # the stream itself is on every device
    if not layout.activation_checkpointing or footprint.layers == 1:
        return share * block * layers * layout.micro_batch * open_
    return (stream * layers * open_ + block) * layout.micro_batch


def residual(subject: Subject) -> float:
    """Bytes of one example's residual stream, in bf16."""
    width: Any = getattr(subject.model, "width", 0)
    return 2.0 * subject.tokens * width if isinstance(width, int) else 0.0


def of_loss(footprint: Footprint, layout: Layout) -> float:
    """What is alive beside the blocks where the backward pass begins: logits, their gradient, the last states. Or a chunk of logits."""
    saved, peak = footprint.growth["saved"], footprint.growth["peak"]
    if footprint.layers == 1:
        return max(0.0, peak.per_example - saved.per_example) * layout.micro_batch
    chunk = 2.0 * min(CHUNK, footprint.logits * layout.micro_batch)
    return chunk + max(0.0, peak.per_example) * layout.micro_batch


def copies_of(footprint: Footprint, weights: Weights, layout: Layout) -> float:
    """Copies of the weights for the products: what is kept between the passes, however many examples there are."""
    saved = footprint.growth["saved"]
    whole = max(0.0, saved.fixed) + max(0.0, saved.per_layer) * footprint.layers
    return whole / layout.pipeline / layout.tensor
