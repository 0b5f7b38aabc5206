"""What a process of its own measures of one model: answers beside those of the steps that serve, times of some shapes, where the time goes.

Run by `bench.py`, which reads the rows that this prints and ends it where it is silent.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.one_row.cuda import LOCAL_BYTES, REGISTERS, Function, compiled
from weft.benchmarks.one_row.plan import ALL, MAIL, STREAM, WAITS, Plan, Shape
from weft.generation.steps import Steps
from weft.layers.cache import Cache
from weft.models.gpt import PRESETS

SHAPES = {
    "gpt2-xl": [Shape(), Shape(flight=8), Shape(flight=5), Shape(flight=4), Shape(12), Shape(12, flight=5), Shape(pause=50)],
    "gpt2": [Shape(12), Shape(), Shape(flight=8), Shape(12, flight=8), Shape(12, pause=50)],
}
"""The first of them is compared with today's step at every length."""
LENGTHS = (1, 128, 1000)
ROOM = 1023
TOLERANCE = 0.05
PHASES = [
    "qkv: wait for x", "qkv: norm", "qkv: product", "look: wait for qkv", "look: attend", "out: before", "out: wait for mixes",
    "out: product", "rise: wait for x", "rise: norm", "rise: product", "fall: wait for risen", "fall: share", "fall: product",
    "head: wait for x", "head: norm", "head: product",
]  # fmt: skip


def row(what: str, result: str = "", ms: float | None = None) -> None:
    print(json.dumps({"what": what, "ms": ms, "result": result}), flush=True)


def untrained(preset: str) -> Any:
    """A model whose biases are no zeros and whose attention looks somewhere."""
    with torch.device("cuda"):
        model = PRESETS[preset].build().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(torch.randn_like(parameter) * 0.1)
        elif "qkv" in name:
            parameter.mul_(3)
    return model.bfloat16()


def median_ms(step: Callable[[], object], reset: Callable[[], object], steps: int = 40, rounds: int = 5) -> float:
    taken: list[float] = []
    for _ in range(rounds):
        reset()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) / steps)
    return sorted(taken)[rounds // 2]


class Bench:
    def __init__(self, preset: str):
        torch.manual_seed(0)
        self.preset, self.model = preset, untrained(preset)
        self.notes = torch.zeros(8, dtype=torch.int32).pin_memory()
        self.cache, self.today = self.new_cache().parts, Steps(self.model)
        modes = [(shape, ALL) for shape in SHAPES[preset]] + [(SHAPES[preset][0], mode) for mode in (MAIL, STREAM)]
        with ThreadPoolExecutor() as pool:
            self.kernels = dict(zip(modes, pool.map(lambda mode: self.compile(*mode), modes), strict=True))
        for (shape, mode), (plan, binary) in self.kernels.items():
            self.kernels[shape, mode] = plan, Function(binary, "one_row", plan.blocks, plan.threads, plan.shared)

    def compile(self, shape: Shape, mode: int) -> tuple[Plan, Any]:
        gpu: Any = torch.cuda.get_device_properties(0)
        plan = Plan(self.model, shape, gpu.multi_processor_count, gpu.shared_memory_per_block_optin, mode)
        return plan, compiled(Path(__file__).with_name("one_row.cu").read_text(), plan.defines, f"sm_{gpu.major}{gpu.minor}")

    def new_cache(self) -> Cache:
        cache: Cache = self.model.new_cache()
        cache.add_rows(1)
        cache.make_room(1, ROOM)
        return cache

    def prepared(self, shape: Shape, mode: int, length: int) -> tuple[Plan, Callable[[], object]]:
        """A shape's plan and a step of it, the cache taken to hold some tokens."""
        plan, function = self.kernels[shape, mode]
        plan.prepare(self.cache, self.notes)
        plan.place.fill_(length)
        return plan, lambda: function(plan.arguments)

    def error(self, shape: Shape, length: int, steps: int) -> float:
        """How far logits are from those of today's step, as a share of the largest."""
        ids, other = torch.randint(self.model.config.vocabulary, (1, length + steps), device="cuda"), self.new_cache()
        self.model.hidden(ids[:, :length], other)
        other.count([length])
        self.cache.copy_(other.parts)
        plan, step = self.prepared(shape, ALL, length)
        worst = 0.0
        for place in range(length, length + steps):
            plan.id.copy_(ids[0, place])
            step()
            want, got = self.today(ids[:, place], other)[0].float(), plan.logits.float()
            worst = max(worst, float(((got - want).abs().max() / want.abs().max()).nan_to_num(float("inf"))))
        return worst

    def same_twice(self, shape: Shape) -> bool:
        found = []
        for _ in range(2):
            plan, step = self.prepared(shape, ALL, LENGTHS[1])
            step()
            found.append(plan.logits.clone())
        return torch.equal(*found)

    def time(self, shape: Shape, mode: int = ALL, length: int = 128) -> float:
        plan, step = self.prepared(shape, mode, length)
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return median_ms(graph.replay, lambda: plan.place.fill_(length))

    def time_today(self, length: int = 128) -> float:
        other = self.new_cache()
        other.count([length])
        self.today(torch.zeros(1, dtype=torch.int64, device="cuda"), other)
        graph, _ = self.today.graphs[1, 1]
        return median_ms(graph.replay, lambda: self.today.inputs[1][1].fill_(length))

    def show_phases(self, shape: Shape, ms: float) -> None:
        """Microseconds of a step in each phase: mean of blocks, least and most."""
        plan, step = self.prepared(shape, ALL, 128)
        plan.arguments.ticks = plan.ticks.data_ptr()
        step()
        ticks = plan.ticks[:, : len(PHASES)].double()
        ticks *= ms * 1000 / ticks.sum(1).mean()
        for phase, blocks in zip(PHASES, ticks.T, strict=True):
            row(f"{self.preset}, {phase}", f"{blocks.mean():7.1f} us ({blocks.min():.1f} to {blocks.max():.1f})")

    def run(self) -> None:
        """What matters most comes first: once a kernel gave up waiting, the process can do no more."""
        shapes = SHAPES[self.preset]
        for shape in shapes:
            _, function = self.kernels[shape, ALL]
            used = f"{function.attribute(REGISTERS)} registers, {function.attribute(LOCAL_BYTES)} bytes spilt"
            worst = max(self.error(shape, length, 3) for length in (LENGTHS if shape == shapes[0] else LENGTHS[1:2]))
            verdict = "right" if worst < TOLERANCE and self.same_twice(shape) else "WRONG"
            row(f"{self.preset}, {shape}", f"{verdict}: {worst:.4f} from today's; {used}")
        row(f"{self.preset}, today's step", ms=self.time_today())
        times = {}
        for shape in shapes:
            times[shape] = self.time(shape)
            row(f"{self.preset}, {shape}", f"{1000 / times[shape]:.0f} tokens a second", times[shape])
        best = min(times, key=lambda shape: times[shape])
        self.show_phases(best, times[best])
        for length in (1, 900):
            row(f"{self.preset}, {best}, {length} tokens in the cache", ms=self.time(best, length=length))
        row(f"{self.preset}, {shapes[0]}: all but fetching weights", ms=self.time(shapes[0], MAIL))
        ms, read = self.time(shapes[0], STREAM), sum(p.nbytes for p in self.model.parameters()) - self.model.position.weight.nbytes
        row(f"{self.preset}, {shapes[0]}: fetching weights alone", f"{read / ms / 1e9:.2f} TB/s", ms)


def main(preset: str) -> None:
    row(f"{preset} on {torch.cuda.get_device_name()}", f"torch {torch.__version__}")
    bench = Bench(preset)
    row(f"{preset}: compiled")
    try:
        with torch.inference_mode():
            bench.run()
    except Exception as error:
        gave_up, block, thread, layer, wait = bench.notes.tolist()[:5]
        where = f"; block {block}, thread {thread}, layer {layer} waited for {WAITS[wait]}" if gave_up else ""
        row(f"{preset}: FAILED", f"{str(error).splitlines()[0]}{where}")
        os._exit(1)  # nothing on this GPU can be tidied up by the process any more


if __name__ == "__main__":
    main(sys.argv[1])
