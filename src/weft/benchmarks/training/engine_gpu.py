"""Step time of the 3.3 M-parameter reference model on one GPU: batch 128, 127 tokens, dropout on, through the trainer itself.

Run: python -m weft bench engine-gpu [--steps 500] [--profile] [--record results/engine_gpu.json]
"""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.data.base import DataLoader
from weft.data.text.token_windows import TokenWindows
from weft.models.language.gpt import GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

MODEL = GPTConfig(
    vocabulary=256, context=128, layers=4, heads=8, width=256, tie_embeddings=False,
    embedding_dropout=0.1, attention_dropout=0.1, residual_dropout=0.1,
)  # fmt: skip
TRAIN = Train(steps=14_950, batch=128, log_every=100)
TARGET = 1.5
"""Milliseconds of a step on an H200."""
OPTIM = AdamW(lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=Schedule(kind="cosine", min_lr_ratio=0.1))


def make_trainer(train: Train = TRAIN, model: GPTConfig = MODEL) -> Trainer:
    """The reference model on random tokens, as `weft train` would run it."""
    torch.manual_seed(0)
    network, objective = model.build(), NextTokenConfig().build()
    plan = execution.choose(train, network, objective, OPTIM)
    tokens = torch.randint(0, 256, (1_000_000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    source = DataLoader(TokenWindows(tokens, 127, overlapping=True), 1, plan.device)
    return Trainer(network, objective, source, train, OPTIM, plan, tokens=127)


def step_time(trainer: Trainer, steps: int, repeats: int = 5) -> dict[str, Any]:
    """Milliseconds per step after compilation: median and spread of several stretches, and the seconds until then."""
    begin = time.perf_counter()
    for _ in range(20):
        trainer.run_step()
    torch.cuda.synchronize()
    compiled = time.perf_counter() - begin
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(steps // repeats):
            trainer.run_step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / (steps // repeats) * 1e3)
    times.sort()
    return {"ms": times[len(times) // 2], "fastest_ms": times[0], "slowest_ms": times[-1], "compile_seconds": compiled}


def profile(trainer: Trainer) -> str:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as result:
        for _ in range(5):
            trainer.run_step()
        torch.cuda.synchronize()
    return str(result.key_averages().table(sort_by="cuda_time_total", row_limit=45, max_name_column_width=70))


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "engine-gpu")
    parser.add_argument("--steps", type=at_least(1), default=1000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--compile", default="auto")
    parser.add_argument("--attention", default="auto")
    parser.add_argument("--block-kernels", default="auto")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    chosen = {name: getattr(options, name) for name in ("precision", "compile", "attention", "block_kernels")}
    trainer = make_trainer(dataclasses.replace(TRAIN, deterministic=options.deterministic, **chosen))
    print("\n".join(trainer.plan.lines()))
    about, times = {"model": "4 x 256", "batch": 128, "tokens": 127}, step_time(trainer, options.steps)
    print(json.dumps({**about, **times}))
    if options.record:
        found = measurements([times], beside={"ms": {"target": TARGET}})
        write_record(options.record, found, **parser.run(options), details={**about, "execution": trainer.plan.lines()})
    if options.profile:
        print(profile(trainer))


if __name__ == "__main__":
    main()
