"""The fastest layout that fits, or a refusal that names the nearest one that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.errors import ConfigError
from weft.planning.devices import Device, GiB
from weft.planning.footprint import Footprint
from weft.planning.layout import ANY, Layout, Weights
from weft.planning.memory import Need, need
from weft.planning.speed import Time, step
from weft.planning.subject import Subject

MOST = 1 << 16
"""Devices beyond which no layout is looked for."""
NEAR = 8
"""How far from a number of devices that divides nothing another one is looked for, before doubling."""
DEEPEST = 16
"""Stages of the longest pipeline that is suggested."""


@dataclass(frozen=True)
class Choice:
    layout: Layout
    need: Need
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
    micro: int = 0
    checkpoint: bool | None = None

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
                if rest * tensor * pipeline != devices or not self.divides(tensor, pipeline):
                    continue
                for shard in (n for n in range(1, rest + 1) if rest % n == 0):
                    if (asked.shard or shard) == shard and (asked.replicate or rest // shard) == rest // shard:
                        yield from self.cut(Layout(rest // shard, shard, tensor, pipeline))

    def divides(self, tensor: int, pipeline: int) -> bool:
        w = self.weights
        if tensor > 1 and (not w.blocks or not w.heads or w.heads % tensor or tensor > self.device.together):
            return False
        return pipeline == 1 or (w.staged and w.blocks % pipeline == 0)

    def cut(self, grid: Layout) -> Iterator[Layout]:
        """The grid with every micro-batch that divides the batch."""
        each = self.batch // grid.data
        if each * grid.data != self.batch:
            return
        for micro in [self.micro] if self.micro else [1 << n for n in range(10)]:
            if micro <= each and each % micro == 0 and (grid.pipeline == 1 or each // micro >= grid.pipeline):
                for checkpoint in (False, True) if self.checkpoint is None else (self.checkpoint,):
                    yield replace(grid, micro=micro, checkpoint=checkpoint)

    def refusal(self, devices: int) -> str:
        """Why nothing fits, in one sentence, with the nearest that does."""
        name = self.subject.name
        tried = [self.of(layout) for layout in self.layouts(devices, self.asked)]
        where = f"{devices} x {self.device.name}"
        if tried:
            least = min(tried, key=lambda c: c.need.total)
            room = self.device.memory / GiB
            why = f"{name} does not fit {where}: at least {least.need.total / GiB:.0f} GiB each are needed, and there are {room:.0f}"
        else:
            why = f"{name} cannot be spread over {where}: no such layout divides a batch of {self.batch} and the model's blocks and heads"
        anything = replace(self, asked=ANY, micro=0, checkpoint=None)
        if anything != self and (same := anything.best(devices, ANY)):
            return f"{why}; the nearest that fits is {same.layout.words(self.batch)}"
        for other in doublings(devices) if tried else around(devices):
            if found := anything.best(other, ANY):
                return f"{why}; the nearest that fits is {other} {'devices' if other > 1 else 'device'}: {found.layout.words(self.batch)}"
        return f"{why}; nothing near fits: take a smaller --batch, a shorter --context or a smaller model"


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
    return (layout.pipeline, layout.tensor, int(layout.checkpoint), layout.shard, -layout.micro)
