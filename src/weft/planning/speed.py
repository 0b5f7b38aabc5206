"""How long a step takes: the sum of what its products, its attention and everything else take at the device's rates.

A product takes its FLOPs at the device's rate and the travel of its operands; fused operations take the travel of what they read
and write. On many devices come the exchanges: all-reduces inside every block for tensor parallelism, gathered weights and
scattered gradients for shards (which hide behind the products), sums of gradients over replicas, idle stages of a pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.planning.devices import Device
from weft.planning.footprint import Footprint
from weft.planning.layout import Layout, Weights
from weft.planning.memory import kept_share, residual
from weft.planning.subject import Subject
from weft.planning.trace import Work

HIDDEN = 0.8
"""Share of the computing behind which exchanges of weights and gradients can hide."""


@dataclass(frozen=True)
class Time:
    """Seconds of a step by part."""

    parts: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def step(subject: Subject, footprint: Footprint, weights: Weights, layout: Layout, device: Device, batch: int) -> Time:
    steps = layout.accumulation(batch)
    compute = computing(subject, footprint, layout, device)
    micro = sum(compute.values())
    parts = {part: seconds * steps for part, seconds in compute.items()}
    local = max(weights.local(layout, stage) for stage in (0, layout.pipeline - 1))
    parts["optimiser"] = 32.0 * local / device.copy * device.slack
    parts |= exchanging(subject, footprint, weights, layout, device, steps, micro)
    return Time({part: seconds for part, seconds in parts.items() if seconds > 0.0})


def computing(subject: Subject, footprint: Footprint, layout: Layout, device: Device) -> dict[str, float]:
    """Of one micro-batch on the busiest stage."""
    if footprint.layers == 1:
        return rates(footprint.work(layout.micro_batch), subject, device)
    whole, none = footprint.work(layout.micro_batch), ends(footprint, layout.micro_batch)
    again = 4.0 / 3.0 if layout.activation_checkpointing else 1.0
    blocks = {name: again * (getattr(whole, name) - getattr(none, name)) / layout.pipeline / layout.tensor for name in vars(whole)}
    blocks["kernels"] *= layout.tensor
    dropped = 0.0 if layout.activation_checkpointing else 1.0 - kept_share(subject, footprint, device)
    blocks["traffic"] += 2.0 * dropped * blocks["saved"]  # read and written once more
    return rates(Work(**{name: blocks[name] + getattr(none, name) for name in blocks}), subject, device)


def ends(footprint: Footprint, examples: float) -> Work:
    """Work outside of the blocks: embedding, head, loss."""
    return Work(**{name: growth.at(0, examples) for name, growth in footprint.growth.items()})


def rates(work: Work, subject: Subject, device: Device) -> dict[str, float]:
    width, heads = getattr(subject.model, "width", 64), getattr(subject.model, "heads", 1)
    head = width / heads if isinstance(width, int) and isinstance(heads, int) and heads else 64.0
    quicker = min(2.0, max(0.5, head / 64.0)) ** 0.5
    forward, backward = device.attention
    attention = (work.forward_attention / forward + work.backward_attention / backward) / quicker
    products = work.products / device.products + work.operands / device.copy
    rest = work.traffic / device.copy + work.kernels * device.launch
    found = {"matrix products": products, "attention": attention, "everything else": rest}
    return {part: seconds * device.slack for part, seconds in found.items()}


def exchanging(
    subject: Subject, footprint: Footprint, weights: Weights, layout: Layout, device: Device, steps: int, micro: float
) -> dict[str, float]:
    """Seconds of a step spent waiting for others."""
    share = weights.local(Layout(tensor=layout.tensor, pipeline=layout.pipeline))
    stream = residual(subject) * layout.micro_batch
    layers = footprint.layers / layout.pipeline
    t, s, r = layout.tensor, layout.shard, layout.replicate
    found = {
        "tensor exchanges": (6 if layout.activation_checkpointing else 4) * steps * layers * 2 * (t - 1) / t * stream / link(device, t)
    }
    gathered = 8.0 * share * (s - 1) / s / link(device, t * s) * steps
    found["shard exchanges"] = max(0.0, gathered - HIDDEN * micro * steps)
    summed = 4.0 * share / s * 2 * (r - 1) / r / link(device, t * s * r)
    found["replica exchanges"] = max(0.0, summed - HIDDEN * micro / 2)
    if layout.pipeline > 1:
        found["idle stages"] = (layout.pipeline - 1) * micro
        found["pipeline exchanges"] = 2 * steps * stream / device.inter_node
    return found


def link(device: Device, group: int) -> float:
    """Bytes/s between neighbours of a group of devices that stand side by side."""
    return device.intra_node if group <= device.per_node else device.inter_node
