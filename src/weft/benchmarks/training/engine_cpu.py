"""Training speed on a CPU beside transformers' GPT-2 and a plain PyTorch loop, in turns, each in a process of its own.

Run: python -m weft bench engine-cpu [--record results/engine_cpu.json]
Two models on the source code of this Python installation. Same precision: fp32 against fp32. Own choice: whatever weft
chooses by itself against transformers' default (fp32), from the same weights; their losses after 200 steps must agree. Both have
GPT-2's own GELU, by tanh; the plain loop has the exact one, as most people write it, which PyTorch makes as fast. Without warm-up
one hard batch among the first steps makes percents of differences in the last bits of bf16, so the losses of one seed are chance in
part: with --seeds they are compared over several, beside transformers from weights rounded to bf16, which tells how far apart that
alone brings fp32. Own processes, because what weft tells the C library about memory (execution.keep_memory) would serve the peers too.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from weft.benchmarks import peers
from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.data.base import DataLoader
from weft.data.text.python_source import PythonSourceConfig
from weft.data.text.token_windows import TokenWindows
from weft.models.language.gpt import GPT, GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train
from weft.training.trainer import Trainer

MODELS = {
    "4 x 128, T 64, B 12, V 65": (GPTConfig(vocabulary=65, context=64, layers=4, heads=4, width=128, activation="gelu_tanh"), 12),
    "4 x 256, T 128, B 32, V 256": (GPTConfig(vocabulary=256, context=128, layers=4, heads=8, width=256, activation="gelu_tanh"), 32),
}
CONTENDERS = ("transformers fp32", "plain loop fp32", "plain loop bf16", "weft fp32", "weft own choice")
COMPARED = ("transformers fp32", "weft own choice")
"""Those that start from the same weights, so that their losses can be compared."""
ROUNDED = "transformers fp32 from rounded weights"
LR = 1e-3


def tokens(vocabulary: int) -> Tensor:
    """Real text, its rarer bytes folded into the vocabulary."""
    data = PythonSourceConfig(tokenizer="bytes", megabytes=2.0).build().train
    assert isinstance(data, TokenWindows)
    return (data.tokens.long() % vocabulary).to(torch.uint8)


Advance = Callable[[int], float]
"""Makes some steps and gives their mean loss."""


def ours(model: GPT, source: DataLoader, batch: int, precision: str) -> Advance:
    objective = NextTokenConfig().build()
    train = Train(batch=batch, steps=10_000, device="cpu", precision=precision)  # type: ignore[arg-type]
    plan = execution.choose(train, model, objective)
    optim = AdamW(lr=LR, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0)
    trainer = Trainer(model, objective, source, train, optim, plan, tokens=model.config.context)

    def advance(steps: int) -> float:
        for _ in range(steps):
            trainer.run_step()
        loss = float(trainer.means.means()["loss"])
        trainer.means.clear()
        return loss

    return advance


def network(config: GPTConfig, seed: int) -> GPT:
    """The same weights for every contender that can take them."""
    torch.manual_seed(seed)
    return config.build()


def contender(kind: str, name: str, seed: int) -> Advance:
    """One of the contenders on the batches that all of them get."""
    config, batch = MODELS[name]
    source = DataLoader(TokenWindows(tokens(config.vocabulary), config.context, overlapping=True), 1 + seed, torch.device("cpu"))

    def batches(number: int) -> tuple[Tensor, Tensor]:
        drawn = source.batch(number * batch, batch)
        return drawn["ids"], drawn["targets"]

    if kind.startswith("weft"):
        return ours(network(config, seed), source, batch, "fp32" if kind.endswith("fp32") else "auto")
    bf16 = kind.endswith("bf16")
    if kind.startswith("transformers"):
        start = network(config, seed)
        step = peers.huggingface(start.bfloat16().float() if kind == ROUNDED else start, batches, LR, bf16)
    else:
        step = peers.plain(config, batches, LR, bf16, torch.device("cpu"))
    return lambda steps: statistics.fmean(float(step()) for _ in range(steps))


def serve(kind: str, name: str, seed: int, threads: int, wire: Connection) -> None:
    """A contender's own process: answers every number of steps with the seconds they took and their mean loss; 0 ends it."""
    torch.set_num_threads(threads)
    advance = contender(kind, name, seed)
    wire.send((0.0, advance(3)))  # warmed up
    while steps := wire.recv():
        begin = time.perf_counter()
        loss = advance(steps)
        wire.send((time.perf_counter() - begin, loss))


def started(kind: str, name: str, seed: int = 0) -> Connection:
    """What is asked for steps of a contender, which is warmed up."""
    spawn = multiprocessing.get_context("spawn")
    wire, other = spawn.Pipe()
    spawn.Process(target=serve, args=(kind, name, seed, torch.get_num_threads(), other), daemon=True).start()
    wire.recv()
    return wire


def loss_after(steps: int, kind: str, name: str, seed: int) -> float:
    """The mean loss of the last 20 steps of a contender that runs alone."""
    wire = started(kind, name, seed)
    losses = []
    for _ in range(steps // 10):
        wire.send(10)
        losses.append(wire.recv()[1])
    wire.send(0)
    return statistics.fmean(losses[-2:])


def compare(name: str, seconds: float, steps: int) -> list[dict[str, object]]:
    """Rows of tokens per second and final loss: every contender in its own process, on the same batches, in turns of ten steps."""
    config, batch = MODELS[name]
    wires = {kind: started(kind, name) for kind in CONTENDERS}
    rates: dict[str, list[float]] = {kind: [] for kind in CONTENDERS}
    losses: dict[str, list[float]] = {kind: [] for kind in CONTENDERS}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or 10 * len(losses[COMPARED[0]]) < steps:
        timed = time.perf_counter() - begin < seconds  # afterwards only those whose losses are compared go on
        for kind in CONTENDERS if timed else COMPARED:
            wires[kind].send(10)
            took, loss = wires[kind].recv()
            losses[kind].append(loss)
            rates[kind].append(10 * batch * config.context / took)
    for wire in wires.values():
        wire.send(0)
    return [
        {
            "model": name,
            "contender": kind,
            "tokens_per_second": statistics.median(rates[kind]),
            "turns": [round(rate) for rate in rates[kind]],
            "loss": statistics.fmean(losses[kind][steps // 10 - 2 : steps // 10]) if kind in COMPARED else None,
        }
        for kind in CONTENDERS
    ]


def seed_losses(name: str, table: list[dict[str, object]], seeds: int, steps: int) -> list[dict[str, object]]:
    """The losses that are compared, by the seed of weights and batches; those of the first are in the table."""
    known = {(0, row["contender"]): row["loss"] for row in table if row["contender"] in COMPARED}
    rows: list[dict[str, object]] = []
    for seed in range(seeds):
        losses = {kind: known.get((seed, kind)) or loss_after(steps, kind, name, seed) for kind in (*COMPARED, ROUNDED)}
        rows.append({"model": name, "seed": seed, **losses})
    return rows


def apart(rows: list[dict[str, object]], kind: str) -> str:
    """By how many percent the losses of a contender are above transformers': of each seed, their mean, and its standard error."""
    percent = [100 * (float(str(row[kind])) / float(str(row[COMPARED[0]])) - 1) for row in rows]
    error = f" ± {statistics.stdev(percent) / len(percent) ** 0.5:.2f}" if len(percent) > 1 else ""
    return f"{kind} {', '.join(f'{each:+.2f}' for each in percent)}; mean {statistics.fmean(percent):+.2f}{error} %"


def times(one: list[float], other: list[float]) -> float:
    """How many times as fast as another: the median of their turns' ratios, as a shared machine is slow for a while at a time."""
    return statistics.median(a / b for a, b in zip(one, other, strict=False))


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "engine-cpu")
    parser.add_argument("--seconds", type=at_least(0.0), default=90.0, help="least time per model")
    parser.add_argument("--steps", type=at_least(20), default=200, help="steps after which losses are compared")
    parser.add_argument("--seeds", type=at_least(0), default=0, help="of weights and batches over which losses are compared")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    rows, losses = [], []
    for name in MODELS:
        table = compare(name, options.seconds, options.steps)
        turns: dict[str, Any] = {str(row["contender"]): row["turns"] for row in table}
        for row in table:
            loss = "" if row["loss"] is None else f"loss {row['loss']:.4f}"
            print(f"{name:30} {row['contender']:28} {row['tokens_per_second']:10.0f} tok/s   {loss}", flush=True)
        peers_fp32 = (turns["transformers fp32"], turns["plain loop fp32"])
        ratios = {
            "fp32 beside the faster fp32 peer": min(times(turns["weft fp32"], peer) for peer in peers_fp32),
            "own choice beside the bf16 loop": times(turns["weft own choice"], turns["plain loop bf16"]),
            "own choice beside transformers": times(turns["weft own choice"], turns["transformers fp32"]),
        }
        print(f"{name:30} " + "; ".join(f"{what}: {ratio:.2f} x" for what, ratio in ratios.items()), flush=True)
        found = seed_losses(name, table, options.seeds, options.steps)
        for kind in (COMPARED[1], ROUNDED) if found else ():
            print(f"{name:30} losses above transformers', by seed: {apart(found, kind)}", flush=True)
        rows += table
        losses += found
    if options.record:
        measured = measurements(rows, ("model", "contender"), split={"loss": "train"})
        write_record(options.record, measured, **parser.run(options), details={"losses": losses})


if __name__ == "__main__":
    main()
