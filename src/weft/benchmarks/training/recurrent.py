"""Recurrent layers, forward and backward and a step of decoding, beside PyTorch's own (cuDNN's on a GPU) and a loop over steps.

Run: python -m weft bench recurrent [--record results/recurrent_cpu.json]
Layers of the language models of Penn Treebank: 20 rows; 200, 650 and 1150 wide. Every contender has a process of its own, as what weft
tells the C library about memory (execution.keep_memory) would serve the peers too; how fast they are with that stands beside it. They take
turns, and a ratio is the median of the turns' ratios. On a CPU all is measured again while another process keeps every core busy, and the
products of a layer stand beside it: as many and as large as there would be if no step waited for another, which no loop can be faster than.
On a GPU the kernel of `kernels/cuda` is a contender of its own, whether it is chosen or not; --captured replays CUDA graphs.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import synchronise
from weft.benchmarks.training.engine_cpu import times
from weft.core.errors import CapabilityError
from weft.kernels import select
from weft.kernels.c.passes import passes_for
from weft.kernels.cuda.recurrent import CUDARecurrent
from weft.kernels.cuda.recurrent_launch import CELLS as KERNEL_CELLS
from weft.kernels.describe import describe_recurrent
from weft.kernels.usage import Machine, UsageSpec
from weft.nn.recurrent import CELLS, GATES, RecurrentLayer
from weft.training import execution

ROWS = 20
SHAPES = {200: 20, 650: 35, 1150: 70}
"""Steps by the width."""
LIBRARY: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
WEFT, PYTORCH, KEPT, LOOP = "weft", "PyTorch", "PyTorch, memory kept", "loop"
KERNEL, PRODUCTS, THEIR_PRODUCTS = "weft's kernel", "products alone", "PyTorch's products alone"
LEAST, REST = 0.03, 0.01
"""Seconds of a turn, and before it, as the threads of the one before wait spinning for a while."""
Task = tuple[str, str, int, str]
"""train or decode, the cell, the width, and the precision."""


def contenders(task: Task, gpu: bool) -> list[str]:
    """The loop is for cells that PyTorch lacks, and for a width that it does not take long for."""
    library = [PYTORCH] if gpu else [PYTORCH, KEPT]
    kernel = [KERNEL] if gpu and task[0] == "train" and task[1] in KERNEL_CELLS and task[3] == "bf16" else []
    products = [PRODUCTS, THEIR_PRODUCTS] if not gpu and task[0] == "train" else []
    return [WEFT, *kernel, *(library if task[1] in LIBRARY else []), *([LOOP] if task[2] < max(SHAPES) else []), *products]


def products_of(task: Task, own: bool) -> Callable[[], None]:
    """All products of a layer's training, over all steps at once: of inputs and of h, forward, and two gradients of each."""
    _, cell, width, precision = task
    kind, wide, number = torch.bfloat16 if precision == "bf16" else torch.float32, GATES[cell] * width, ROWS * SHAPES[width]
    x, gates, weight = torch.randn(number, width).to(kind), torch.randn(number, wide).to(kind), torch.randn(wide, width)
    if not own:
        weight = weight.to(kind)
    passes = passes_for(kind) if own else None

    def once() -> None:
        for _ in ("inputs", "h"):
            if passes is None:
                _ = x @ weight.t(), gates @ weight, gates.t() @ x
            else:
                passes.product(x, weight.t()), passes.product(gates, weight), passes.rows_product(gates, x)

    return once


def captured(once: Callable[[], None]) -> Callable[[], None]:
    """Replays a CUDA graph of it."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(3):
            once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph.replay


def made(kind: str, task: Task, device: torch.device) -> Callable[[], None]:
    """What a contender does once."""
    what, cell, width, precision = task
    torch.manual_seed(0)
    if kind in (PRODUCTS, THEIR_PRODUCTS):
        return products_of(task, kind == PRODUCTS)
    layer: nn.Module
    if kind in (PYTORCH, KEPT):
        layer = LIBRARY[cell](width, width, batch_first=True).to(device)
    else:
        layer = RecurrentLayer(cell, width, width).to(device)
    use = UsageSpec(machine=Machine.of(device), mode="train" if what == "train" else "decode", precision=precision)
    if kind == WEFT:
        select.install_chosen(layer, use)
    if kind == KERNEL:
        assert isinstance(layer, RecurrentLayer)
        if why := CUDARecurrent().cannot(describe_recurrent(layer, use), use):
            raise CapabilityError(f"the kernel of a GPU does not compute this layer: {why}")
        CUDARecurrent().install(layer, use)
    rows, steps = (ROWS, SHAPES[width]) if what == "train" else (1, 1)
    x = torch.randn(rows, steps, width, device=device, requires_grad=what == "train")

    def once() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"), torch.set_grad_enabled(what == "train"):
            out = layer(x)[0]
        if what == "train":
            out.float().sum().backward()
            x.grad = None
            layer.zero_grad()

    return once


def serve(kind: str, device: str, threads: int, graphs: bool, wire: Connection) -> None:
    """A contender's own process: answers every task with the milliseconds of one go; nothing ends it."""
    torch.set_num_threads(threads)
    if kind in (WEFT, KEPT, PRODUCTS, THEIR_PRODUCTS) and device == "cpu":
        execution.keep_memory()
    ready: dict[Task, tuple[Callable[[], None], int]] = {}
    while task := wire.recv():
        if task not in ready:
            ready.clear()
            once = made(kind, task, torch.device(device))
            once = captured(once) if graphs and task[0] == "train" else once
            once()
            once()
            synchronise()
            ready[task] = once, max(1, round(LEAST / seconds(once, 1)))
        time.sleep(REST)
        ready[task][0]()
        wire.send(1e3 * seconds(*ready[task]))


def seconds(once: Callable[[], None], number: int) -> float:
    """Of one of so many goes."""
    begin = time.perf_counter()
    for _ in range(number):
        once()
    synchronise()
    return (time.perf_counter() - begin) / number


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Another program keeps so many cores busy."""
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=spin, daemon=True) for _ in range(cores)]
    for other in others:
        other.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        for other in others:
            other.terminate()


def turns(wires: dict[str, Connection], task: Task, kinds: list[str], number: int) -> dict[str, list[float]]:
    """Milliseconds of each contender, in turns; the first turn warms up."""
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(number + 1):
        for kind in kinds:
            wires[kind].send(task)
            found = wires[kind].recv()
            if turn:
                taken[kind].append(found)
    return taken


def rows_of(task: Task, taken: dict[str, list[float]], name: str = "") -> list[dict[str, Any]]:
    """A row for each contender, and in weft's how many times as fast it is; name: put before the metrics."""
    of = dict(zip(("what", "cell", "width", "precision"), task, strict=True))
    rows: list[dict[str, Any]] = [
        {**of, "contender": kind, f"{name}ms": statistics.median(ms), f"{name}turns": [round(one, 3) for one in ms]}
        for kind, ms in taken.items()
    ]
    for kind in taken.keys() - {WEFT}:
        title = kind.lower().replace(", ", "_").replace(" ", "_").replace("'s", "")
        rows[0][f"times_{name}{title}"] = times(taken[kind], taken[WEFT])
    return rows


def said(task: Task, rows: list[dict[str, Any]], name: str = "") -> str:
    what, cell, width, precision = task
    ms = ", ".join(f"{row['contender']} {row[f'{name}ms']:.3g} ms" for row in rows)
    ratios = ", ".join(f"{key} {value:.2f}" for key, value in sorted(rows[0].items()) if key.startswith("times_"))
    return f"{what:6} {cell:9} {width:5} {precision}  {name.strip('_'):5} {ms}; {ratios}"


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "recurrent")
    parser.add_names("--cells", CELLS, nargs="+", default=[*CELLS])
    parser.add_argument("--widths", type=int, nargs="+", choices=[*SHAPES], default=[*SHAPES], help="of the layers")
    parser.add_argument("--rounds", type=at_least(1), default=7, help="of each contender")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--captured", action="store_true", help="in CUDA graphs")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    device, spawn = execution.select_device(options.device), multiprocessing.get_context("spawn")
    gpu, wires = device.type == "cuda", {}
    if options.captured and not gpu:
        parser.error("--captured: only a GPU has CUDA graphs")
    for kind in (WEFT, PYTORCH, LOOP, *((KERNEL,) if gpu else (KEPT, PRODUCTS, THEIR_PRODUCTS))):
        wires[kind], other = spawn.Pipe()
        given = (kind, str(device), torch.get_num_threads(), options.captured, other)
        spawn.Process(target=serve, args=given, daemon=True).start()
    precisions = ["fp32"] + ["bf16"] * (gpu or execution.cpu_has_bf16())
    cells = [(cell, width) for width in options.widths for cell in options.cells if width < max(SHAPES) or cell in ("lstm", "gru")]
    tasks = [("train", cell, width, precision) for cell, width in cells for precision in precisions]
    tasks += [("decode", cell, width, "fp32") for cell, width in cells]
    rows = []
    for task in tasks:
        found = rows_of(task, turns(wires, task, contenders(task, gpu), options.rounds))
        print(said(task, found), flush=True)
        rows += found
    short = [task for task in tasks if not gpu and task[0] == "train" and task[2] < max(SHAPES)]
    with busy(len(os.sched_getaffinity(0)) if short else 0):
        for task in short:
            found = rows_of(task, turns(wires, task, contenders(task, gpu), min(3, options.rounds)), "busy_")
            print(said(task, found, "busy_"), flush=True)
            rows += found
    for wire in wires.values():
        wire.send(None)
    if options.record:
        measured = measurements(rows, ("what", "cell", "width", "precision", "contender"))
        write_record(options.record, measured, **parser.run(options), details={"rows_of_a_batch": ROWS, "steps_by_width": SHAPES})


if __name__ == "__main__":
    main()
