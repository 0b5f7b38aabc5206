"""The fastest layout that fits, or a refusal that names the nearest one that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.core.errors import ConfigError
from weft.planning.devices import Device, GiB
from weft.planning.footprint import Footprint
from weft.planning.layout import ANY, Layout, Weights
from weft.planning.memory import ROOM, MemoryEstimate, need
from weft.planning.speed import Time, step
from weft.planning.subject import Subject

MOST = 1 << 16
"""Devices beyond which no layout is looked for."""
NEAR = 8
"""How far from a number of devices that divides nothing another one is looked for, before doubling."""
SIZES = tuple(1 << n for n in range(10))
"""Examples of the micro-batches that are tried, besides all that a device has."""
DEEPEST = 16
"""Stages of the longest pipeline that is suggested."""


@dataclass(frozen=True)
class Choice:
    layout: Layout
    need: MemoryEstimate
    time: Time


@dataclass(frozen=True)
class Search:
    subject: Subject
    footprint: Footprint
    weights: Weights
    device: Device
    batch: int
    asked: Layout
    """Sizes of the grid that are given; 0 where they are free."""
    micro_batch: int = 0
    activation_checkpointing: bool | None = None

    def choose(self, devices: int) -> Choice:
        """The fastest layout of so many devices that fits."""
        fitting = self.best(devices, self.asked)
        if fitting is not None:
            return fitting
        raise ConfigError(self.refusal(devices))

    def best(self, devices: int, asked: Layout) -> Choice | None:
        found = [self.of(layout) for layout in self.layouts(devices, asked)]
        fitting = [choice for choice in found if choice.need.fits(self.device)]
        return min(fitting, key=lambda c: (float(f"{c.time.total:.2g}"), plainness(c.layout), c.time.total), default=None)

    def of(self, layout: Layout) -> Choice:
        arguments = (self.subject, self.footprint, self.weights, layout, self.device, self.batch)
        return Choice(layout, need(*arguments), step(*arguments))

    def layouts(self, devices: int, asked: Layout) -> Iterator[Layout]:
        for tensor in [1, 2, 4, 8] if not asked.tensor else [asked.tensor]:
            for pipeline in range(1, DEEPEST + 1) if not asked.pipeline else [asked.pipeline]:
                rest = devices // (tensor * pipeline)
                if rest * tensor * pipeline != devices or not self.shares(rest) or not self.divides(tensor, pipeline):
                    continue
                for shard in (n for n in range(1, rest + 1) if rest % n == 0):
                    if (asked.shard or shard) == shard and (asked.replicate or rest // shard) == rest // shard:
                        yield from self.cut(Layout(rest // shard, shard, tensor, pipeline))

    def shares(self, data: int) -> bool:
        """Whether each of so many devices gets examples of its own."""
        return data == 1 or (data <= self.smallest and not self.weights.indivisible)

    @property
    def smallest(self) -> int:
        """Examples of the first batch, where batches grow."""
        start, over = self.subject.train.batch_ramp
        return min(self.batch, start) if over else self.batch

    def divides(self, tensor: int, pipeline: int) -> bool:
        w = self.weights
        if tensor > 1 and (not w.heads or w.heads % tensor or w.ffn_width % tensor or tensor > self.device.per_node):
            return False
        return pipeline == 1 or (w.staged and w.blocks % pipeline == 0)

    def cut(self, grid: Layout) -> Iterator[Layout]:
        """The grid with micro-batches as the trainer makes them: the share of each device in pieces as equal as can be."""
        least, most = self.batch // grid.data, -(-self.batch // grid.data)
        sizes = [self.micro_batch] if self.micro_batch else [*SIZES, most]
        for micro_batch in dict.fromkeys(-(-most // min(-(-most // size), least)) for size in sizes):
            layout = replace(grid, micro_batch=micro_batch)
            if grid.pipeline == 1 or layout.accumulation(self.batch) >= grid.pipeline:
                for activation_checkpointing in (
                    (False, True) if self.activation_checkpointing is None else (self.activation_checkpointing,)
                ):
                    yield replace(layout, activation_checkpointing=activation_checkpointing)

    def refusal(self, devices: int) -> str:
        """Why nothing fits, in one sentence, with the nearest that does."""
        tried = [self.of(layout) for layout in self.layouts(devices, self.asked)]
        where = f"{devices} x {self.device.name}"
        if tried:
            least, room = min(choice.need.total for choice in tried) / GiB, ROOM * self.device.memory / GiB
            why = f"{self.subject.name} does not fit {where}: at least {least:.0f} GiB each are needed, and {room:.0f} can be filled"
        else:
            why = f"{self.subject.name} cannot be spread over {where}: {self.trouble()}"
        if self.weights.indivisible and not tried:
            return f"{why}; use --gpus 1"
        anything = replace(self, asked=ANY, micro_batch=0, activation_checkpointing=None)
        if anything != self and (same := anything.best(devices, ANY)):
            return f"{why}; the nearest that fits is {same.layout.words(self.batch)}"
        for other in doublings(devices) if tried else around(devices):
            if found := anything.best(other, ANY):
                return f"{why}; the nearest that fits is {other} {'devices' if other > 1 else 'device'}: {found.layout.words(self.batch)}"
        return f"{why}; nothing near fits: take a smaller --batch, a shorter --context or a smaller model"

    def trouble(self) -> str:
        """Why there is no layout of the sizes that are asked for."""
        w, asked = self.weights, self.asked
        data = max(1, asked.replicate) * max(1, asked.shard)
        if w.indivisible:
            return w.indivisible
        if asked.tensor > 1 and not self.divides(asked.tensor, 1):
            known = f"{w.heads} KV heads and {w.ffn_width} feed-forward units, at most {self.device.per_node} in a machine"
            return f"--parallel.tensor {asked.tensor} must divide {known if w.heads else 'the blocks of a Transformer, and it has none'}"
        if asked.pipeline > 1 and not self.divides(1, asked.pipeline):
            known = f"{w.blocks} blocks" if w.staged else "one stack of blocks such as GPT's, which it has not"
            return f"--parallel.pipeline {asked.pipeline} must divide {known}"
        if data > self.smallest:
            return f"a batch of {self.smallest} examples cannot be divided among {data} devices"
        return f"no such layout divides a batch of {self.smallest} and the model's blocks and heads"


def doublings(devices: int) -> list[int]:
    """Larger numbers of devices, each twice the one before."""
    return [more for times in range(1, 17) if (more := devices << times) <= MOST]


def around(devices: int) -> list[int]:
    """Numbers of devices near one that divides nothing, the nearest first: its neighbours, then powers of two, which divide most."""
    near = sorted(range(devices - NEAR, devices + NEAR + 1), key=lambda n: abs(n - devices))
    above = 1 << devices.bit_length()
    powers = [*doublings(above >> 1), *(above >> times for times in range(1, above.bit_length()))]
    return [n for n in dict.fromkeys([*near, *powers]) if 1 <= n <= MOST and n != devices]


def plainness(layout: Layout) -> tuple[int, ...]:
    """Smaller for what is easier to run."""
    return (layout.pipeline, layout.tensor, int(layout.activation_checkpointing), layout.shard, -layout.micro_batch)
