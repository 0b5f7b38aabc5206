"""What `weft plan` says of a training step against the step itself: memory and time of three GPT-2 on one GPU.

Run: python -m weft bench plan [--models gpt2 gpt2-medium gpt2-xl] [--record results]
     python -m weft bench plan --measured results/training_gpu.json      against steps that `weft bench training` has measured
     python -m weft bench plan --layouts [--record results]      GPT-3 on 64 to 4,096 GPUs, each layout built by PyTorch's own sharding
     python -m weft bench plan --models tiny --steps 3           anywhere, to see that it runs
"""

from __future__ import annotations

import dataclasses
import gc
import time
from pathlib import Path
from typing import Any

import torch

from weft import results
from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.core.errors import DataError, WeftError
from weft.data.base import DataLoader
from weft.data.text.token_windows import TokenWindows
from weft.planning import plan
from weft.planning.layout import Layout
from weft.planning.shards import bytes_on
from weft.planning.subject import Subject, subject
from weft.training import execution
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

BATCHES = {"gpt2": 64, "gpt2-medium": 32, "gpt2-xl": 16, "tiny": 8}
"""Examples of 1,024 tokens that are usual for each on a large GPU."""
OPTIM = AdamW(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=Schedule(kind="cosine", min_lr_ratio=0.1))
BARS = {"memory": 0.08, "step": 0.15}
"""How far the plan may be off."""
GPUS = (64, 256, 1024, 4096)


def case(name: str, batch: int) -> Subject:
    """A preset without dropout, as those are compared with; the tiny one gets a small vocabulary and context."""
    context, vocabulary = (64, 256) if name == "tiny" else (0, 0)
    found = subject("gpt/tiny" if name == "tiny" else name, batch=batch, context=context, vocabulary=vocabulary)
    off = {field.name: 0.0 for field in dataclasses.fields(found.model) if field.name.endswith("_dropout")}
    return dataclasses.replace(found, name=name, model=dataclasses.replace(found.model, **off), optim=OPTIM)


def trainer_of(case: Subject) -> Trainer:
    """The trainer that `weft train` would run, on random tokens."""
    torch.manual_seed(0)
    train = Train(steps=100_000, batch=case.batch, log_every=1000)
    network, objective = case.model.build(), case.objective.build()
    chosen = execution.choose(train, network, objective, OPTIM)
    tokens = torch.randint(0, case.model.vocabulary, (1_000_000,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)  # type: ignore[attr-defined]
    source = DataLoader(TokenWindows(tokens, case.tokens, overlapping=True), 1, chosen.device)
    return Trainer(network, objective, source, train, OPTIM, chosen, tokens=case.tokens)


def measured(case: Subject, steps: int) -> dict[str, Any]:
    """Seconds of a step, and the most bytes of tensors (None without a GPU)."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    trainer = trainer_of(case)
    for _ in range(min(10, steps)):
        trainer.run_step()
    wait()
    begin = time.perf_counter()
    for _ in range(steps):
        trainer.run_step()
    wait()
    seconds = (time.perf_counter() - begin) / steps
    memory = torch.cuda.max_memory_allocated() if gpu else None
    reserved = torch.cuda.max_memory_reserved() if gpu else None
    return {"step_seconds": seconds, "tensors": memory, "reserved": reserved, "execution": trainer.plan.lines()}


def known(record: str, name: str) -> dict[str, Any]:
    """The same of a model in a record of `weft bench training`."""
    try:
        found = next(row for row in results.read(record).table() if row.get("size") == name and row.get("contender", "").startswith("weft"))
        batch = found["batch"]
        facts = {"step_seconds": found["ms"] / 1e3, "tensors": found["gib"] * 2**30, "reserved": None, "execution": found["execution"]}
    except (DataError, StopIteration, KeyError) as error:
        raise WeftError(f"{record} holds no step of {name}; write it by: weft bench training --sizes {name} --record {record}") from error
    if batch != BATCHES[name]:
        raise WeftError(f"{record}: {name} was measured with a batch of {batch}, the plan is for {BATCHES[name]}")
    return facts


def where(record: str) -> dict[str, Any]:
    """On what, with what and when the steps of a record were measured."""
    found = results.read(record)
    return {"hardware": found.hardware, "versions": found.versions, "date": found.date, "commit": found.commit}


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget() -> None:
    """Give the memory of one model back before the next."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def compare(name: str, batch: int, steps: int, device: str, record: str = "") -> dict[str, Any]:
    """One row: planned, measured now or before, and how far off the plan is."""
    one, before = case(name, batch), known(record, name) if record else None
    request = plan.PlanRequest(micro_batch=batch, activation_checkpointing=False, asked=Layout(1, 1, 1, 1))
    planned = plan.make(one, device, request)
    found = before or measured(one, steps)
    forget()
    row: dict[str, Any] = {"model": name, "parameters": planned.footprint.counts.parameters, "batch": batch, "tokens": one.tokens}
    row |= {"planned_seconds": planned.seconds, "measured_seconds": found["step_seconds"], "planned_mfu": planned.mfu}
    row |= {"step_off": planned.seconds / found["step_seconds"] - 1, "planned_bytes": planned.choice.need.tensors}
    row |= {"measured_bytes": found["tensors"], "reserved_bytes": found["reserved"]}
    row["measured_mfu"] = planned.flops_step / found["step_seconds"] / planned.device.peak
    row["memory_off"] = planned.choice.need.tensors / found["tensors"] - 1 if found["tensors"] else None
    row["kept"] = abs(row["step_off"]) <= BARS["step"] and (row["memory_off"] is None or abs(row["memory_off"]) <= BARS["memory"])
    return row | {"parts": planned.choice.need.parts, "times": planned.choice.time.parts, "execution": found["execution"]}


def layouts(name: str = "gpt3-175b") -> list[dict[str, Any]]:
    """The plan on each number of GPUs, with the bytes that PyTorch's own sharding puts on a device of the first and the last stage."""
    rows = []
    for gpus in GPUS:
        found = plan.make(subject(name), "h200", plan.PlanRequest(gpus=gpus))
        layout = found.choice.layout
        stages = sorted({0, layout.pipeline - 1})
        planned = [4 * found.weights.local(layout, stage) for stage in stages]
        built = [bytes_on(found.subject, layout, stage) for stage in stages]
        assert built == planned, f"{layout}: PyTorch puts {built} bytes on a device, the plan says {planned}"
        rows.append({**found.facts(), "words": layout.words(found.subject.batch), "built_bytes": built})
        size = f"{found.choice.need.total / 2**30:.0f} GiB each"
        print(f"{gpus:5} GPUs: {rows[-1]['words']}; {size}, {found.days:.1f} days, MFU {found.mfu:.2f}", flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "plan")
    parser.add_names("--models", BATCHES, nargs="+", default=["gpt2", "gpt2-medium", "gpt2-xl"])
    parser.add_argument("--steps", type=at_least(1), default=30, help="timed steps, after ten that compile and warm up")
    parser.add_argument("--measured", default="", help="a record of `weft bench training` to take the steps from, instead of training now")
    parser.add_argument(
        "--device", default="", help="what the plan is made for; h200 where there is a GPU or steps were measured, else cpu"
    )
    parser.add_argument("--layouts", action="store_true", help="plan and check GPT-3 on many GPUs instead")
    parser.add_argument("--record", default="", help="folder for the JSON record")
    options = parser.parse_args(arguments)
    device = options.device or ("h200" if options.measured or torch.cuda.is_available() else "cpu")
    if not options.measured and not options.layouts:
        parser.check_sizes("--models", options.models)
    if options.layouts:
        name, rows = "plan-layouts", layouts()
    else:
        name, rows = "plan", []
        for model in options.models:
            rows.append(compare(model, BATCHES[model], options.steps, device, options.measured))
            print(line_of(rows[-1]), flush=True)
    if options.record:
        found = measurements(rows, ("subject", "device", "gpus") if options.layouts else ("model", "batch", "tokens", "parameters"))
        steps = where(options.measured) if options.measured else {}
        write_record(Path(options.record) / f"{name}.json", found, **parser.run(options), **steps)


def line_of(row: dict[str, Any]) -> str:
    memory = "memory not measured"
    if row["measured_bytes"]:
        sizes = f"{row['planned_bytes'] / 2**30:.2f} GiB, measured {row['measured_bytes'] / 2**30:.2f}"
        memory = f"memory planned {sizes} ({100 * row['memory_off']:+.1f} %)"
    seconds = f"{1e3 * row['planned_seconds']:.1f} ms, measured {1e3 * row['measured_seconds']:.1f}"
    times = f"step planned {seconds} ({100 * row['step_off']:+.1f} %)"
    return f"{row['model']}: {memory}; {times}; {'within' if row['kept'] else 'outside'} the bars of 8 % and 15 %"


if __name__ == "__main__":
    main()
