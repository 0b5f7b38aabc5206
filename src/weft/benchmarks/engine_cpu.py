"""Training speed on a CPU beside transformers' GPT-2 and a plain PyTorch loop, all in one process and in turns.

Run: python -m weft bench engine-cpu [--record results/engine_cpu.json]
Two models on the source code of this Python installation. Same precision: fp32 against fp32. Own choice: whatever weft
chooses by itself against transformers' default (fp32), from the same weights; their losses after 200 steps must agree (their
GELU is the tanh approximation, ours the exact one, which PyTorch computes faster).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from weft.benchmarks import peers
from weft.benchmarks.record import write_record
from weft.data.base import Source
from weft.data.corpus import PythonSourceConfig
from weft.data.text import TokenWindows
from weft.models.gpt import GPT, GPTConfig
from weft.objectives.next_token import NextTokenConfig
from weft.training import execution
from weft.training.optim import AdamW
from weft.training.settings import Train
from weft.training.trainer import Trainer

MODELS = {
    "4 x 128, T 64, B 12, V 65": (GPTConfig(vocabulary=65, context=64, layers=4, heads=4, width=128), 12),
    "4 x 256, T 128, B 32, V 256": (GPTConfig(vocabulary=256, context=128, layers=4, heads=8, width=256), 32),
}
LR = 1e-3


def tokens(vocabulary: int) -> Tensor:
    """Real text, its rarer bytes folded into the vocabulary."""
    data = PythonSourceConfig(unit="bytes", megabytes=2.0).build().train
    assert isinstance(data, TokenWindows)
    return (data.tokens.long() % vocabulary).to(torch.uint8)


Advance = Callable[[int], float]
"""Makes some steps and gives their mean loss."""


def ours(config: GPTConfig, source: Source, batch: int, precision: str) -> tuple[Advance, Trainer]:
    torch.manual_seed(0)
    model, objective = config.build(), NextTokenConfig().build()
    train = Train(batch=batch, steps=10_000, device="cpu", precision=precision)  # type: ignore[arg-type]
    plan = execution.choose(train, model, objective)
    optim = AdamW(lr=LR, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0)
    trainer = Trainer(model, objective, source, train, optim, plan, tokens=config.context)

    def advance(steps: int) -> float:
        for _ in range(steps):
            trainer.run_step()
        loss = float(trainer.means.means()["loss"])
        trainer.means.clear()
        return loss

    return advance, trainer


def peer(step: peers.Step) -> Advance:
    return lambda steps: statistics.fmean(float(step()) for _ in range(steps))


def compare(name: str, seconds: float, steps: int) -> list[dict[str, object]]:
    """Rows of tokens per second and final loss, every contender on the same batches, in turns of a few steps."""
    config, batch = MODELS[name]
    data = TokenWindows(tokens(config.vocabulary), config.context, overlapping=True)
    source = Source(data, 1, torch.device("cpu"))

    def batches(number: int) -> tuple[Tensor, Tensor]:
        drawn = source.batch(number * batch, batch)
        return drawn["ids"], drawn["targets"]

    cpu = torch.device("cpu")
    fp32, _ = ours(config, Source(data, 1, cpu), batch, "fp32")
    own, trainer = ours(config, Source(data, 1, cpu), batch, "auto")
    assert isinstance(trainer.model, GPT)
    contenders = {
        "transformers fp32": peer(peers.huggingface(trainer.model, batches, LR, False)),
        "plain loop fp32": peer(peers.plain(config, batches, LR, False, cpu)),
        "plain loop bf16": peer(peers.plain(config, batches, LR, True, cpu)),
        "weft fp32": fp32,
        f"weft own choice ({trainer.plan.precision})": own,
    }
    compared = ("transformers fp32", f"weft own choice ({trainer.plan.precision})")
    rates: dict[str, list[float]] = {contender: [] for contender in contenders}
    losses: dict[str, list[float]] = {contender: [] for contender in contenders}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or 10 * len(losses["transformers fp32"]) < steps:
        timed = time.perf_counter() - begin < seconds  # afterwards only those whose losses are compared go on
        for contender, advance in contenders.items():
            if not timed and contender not in compared:
                continue
            start = time.perf_counter()
            losses[contender].append(advance(10))
            rates[contender].append(10 * batch * config.context / (time.perf_counter() - start))
    return [
        {
            "model": name,
            "contender": c,
            "tokens_per_second": statistics.median(rates[c]),
            "loss": statistics.fmean(losses[c][steps // 10 - 2 : steps // 10]) if c in compared else None,
        }
        for c in contenders
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="least time per model")
    parser.add_argument("--steps", type=int, default=200, help="steps after which losses are compared")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    rows = []
    for name in MODELS:
        table = compare(name, options.seconds, options.steps)
        rate = {str(row["contender"]): float(str(row["tokens_per_second"])) for row in table}
        best = max(rate["transformers fp32"], rate["plain loop fp32"])
        own = next(value for key, value in rate.items() if key.startswith("weft own"))
        for row in table:
            loss = "" if row["loss"] is None else f"loss {row['loss']:.4f}"
            print(f"{name:30} {row['contender']:28} {row['tokens_per_second']:10.0f} tok/s   {loss}", flush=True)
        ratios = rate["weft fp32"] / best, own / rate["transformers fp32"]
        print(f"{name:30} fp32: {ratios[0]:.2f} x the faster peer; own choice: {ratios[1]:.2f} x transformers")
        rows += table
    if options.record:
        write_record(options.record, "engine-cpu", "weft bench engine-cpu", {"rows": rows})


if __name__ == "__main__":
    main()
