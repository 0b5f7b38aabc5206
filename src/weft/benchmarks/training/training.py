"""Training speed and memory of GPT-2 on one GPU against nanoGPT and against what the products alone would take, in one run.

Run: python -m weft bench training --nanogpt FOLDER [--sizes gpt2 gpt2-medium gpt2-xl] [--record results/training_gpu.json]
     ... --sizes gpt2 --variants default blocks=plain pieces=norm+feed,chunk=28             several ways to run ours, a line each
     ... --sizes gpt2 --losses 500                                                          the loss curves of both from the same weights
     ... --sizes gpt2 --profile                                                             where the time of a step goes
     ... --sizes tiny --steps 5 --batch 2                                                   anywhere, to see that it runs

Both train on 1,024 tokens an example in bf16, compiled, with AdamW and clipping, without dropout; ours through the trainer itself. Both
have GPT-2's own GELU, by tanh; with --activation gelu they have nanoGPT's, which is exact.
A variant is settings of training joined by commas: its names (attention, blocks, logits, activation_checkpointing, update, compile,
cuda_graphs), chunk (log2 of the logits held at a time), held (the longest row of them that is read once), pieces (of a wide block, joined
by +, that have kernels of our own; or none), or options of the compiler (inductor.combo_kernels=off).
"""

from __future__ import annotations

import dataclasses
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import synchronise, timed
from weft.benchmarks.training import ceiling, kernels, nanogpt
from weft.data.base import DataLoader
from weft.data.text.token_windows import TokenWindows
from weft.kernels import chunked_cross_entropy
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import PRESETS, GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train
from weft.training.trainer import Trainer

BATCHES = {"gpt2": 64, "gpt2-medium": 32, "gpt2-xl": 16, "tiny": 4}
OPTIM = AdamW(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0)
PEAK = 989e12
"""bf16 FLOP/s that the maker promises of an H200, for MFU."""
TURNS = 4
"""How often each contender has its turn."""
PADDED = 50304
"""Vocabulary to which nanoGPT fills up GPT-2's."""


def model_of(size: str, activation: Any = "gelu_tanh") -> GPTConfig:
    """The preset without dropout."""
    if size == "tiny":
        return GPTConfig(vocabulary=301, context=32, layers=2, heads=2, width=64, activation=activation)
    off = {"embedding_dropout": 0.0, "attention_dropout": 0.0, "residual_dropout": 0.0}
    return dataclasses.replace(PRESETS[size], activation=activation, **off)  # type: ignore[arg-type]


def noise(vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (1_000_000,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)


def make(model: GPTConfig, train: Train, tokens: Tensor, optim: AdamW, pieces: str = "") -> Trainer:
    """The trainer that `weft train` would run; pieces: those of the CUDA block that have kernels of their own, joined by +."""
    torch.manual_seed(0)
    network, objective = model.build(), NextTokenConfig().build()
    plan = execution.choose(train, network, objective, optim)
    if pieces:
        plan.use = dataclasses.replace(plan.use, parts=UsageSpec().parts & {*pieces.split("+")})
    source = DataLoader(TokenWindows(tokens, model.context, overlapping=True), train.seed, plan.device)
    return Trainer(network, objective, source, train, optim, plan, tokens=model.context)


CONSTANTS: dict[str, tuple[Any, str, Callable[[str], Any]]] = {
    "chunk": (chunked_cross_entropy, "CHUNK", lambda word: 1 << int(word)),
    "held": (chunked_cross_entropy, "HELD", int),
}
"""Names of a variant that are no settings: the constant that each changes, and what a word means there."""


@contextmanager
def variant(words: str) -> Iterator[dict[str, Any]]:
    """The settings of training that a variant names, and the pieces; the others hold while it is open."""
    settings: dict[str, Any] = {}
    before = {name: getattr(module, constant) for name, (module, constant, _) in CONSTANTS.items()}
    options = dict(execution.COMPILER)
    for pair in words.split(",") if words != "default" else ():
        name, _, value = pair.partition("=")
        if name in CONSTANTS:
            module, constant, meaning = CONSTANTS[name]
            setattr(module, constant, meaning(value))
        elif name.startswith("inductor."):
            execution.COMPILER[name.removeprefix("inductor.")] = {"on": True, "off": False}.get(value, value)
        else:
            settings[name] = value
    try:
        yield settings
    finally:
        for name, (module, constant, _) in CONSTANTS.items():
            setattr(module, constant, before[name])
        execution.COMPILER.clear()
        execution.COMPILER.update(options)


@dataclasses.dataclass
class Bench:
    """A size, and how long it is measured."""

    size: str
    batch: int
    steps: int
    profile: bool
    device: torch.device
    activation: str = "gelu_tanh"

    @property
    def model(self) -> GPTConfig:
        return model_of(self.size, self.activation)

    def warm(self, begin: Callable[[], Callable[[], object]]) -> tuple[Callable[[], object], dict[str, Any]]:
        """A contender's step, after some have been made, and its memory."""
        base = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        step = begin()
        for _ in range(6):
            step()
        synchronise()
        found: dict[str, Any] = {"warm_up_seconds": time.perf_counter() - started}
        if torch.cuda.is_available():
            found["gib"] = (torch.cuda.max_memory_allocated() - base) / 2**30
        return step, found

    def time(self, steps: dict[str, Callable[[], object]], found: dict[str, dict[str, Any]]) -> None:
        """Time contenders in turns, as a GPU grows slower while it grows warm; then tell where their time goes."""
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(TURNS):
            for name, step in steps.items():
                taken[name].append(timed(step, self.steps // TURNS, warm=2))
        for name, step in steps.items():
            ms = statistics.median(taken[name])
            rate = self.batch * self.model.context / ms * 1e3
            found[name] |= {"ms": ms, "turns_ms": taken[name], "tokens_per_second": rate, "mfu": self.flops / ms / 1e-3 / PEAK}
            print(line_of(name, found[name]), flush=True)
            if self.profile and torch.cuda.is_available():
                print(kernels.table(step), flush=True)

    @property
    def flops(self) -> float:
        """Of a step, by nanoGPT's formula: positions are no parameters, and attention is counted whole."""
        model = self.model
        return self.batch * model.context * (6.0 * parameters(model) + 12.0 * model.layers * model.width * model.context)

    def ours(self, words: str) -> tuple[Callable[[], object], dict[str, Any]]:
        with variant(words) as settings:
            pieces = settings.pop("pieces", "")
            train = Train(steps=100_000, batch=self.batch, log_every=1000, **settings)
            lines: list[str] = []

            def begin() -> Callable[[], object]:
                model = self.model
                trainer = make(model, train, noise(model.vocabulary), OPTIM, pieces)
                lines.extend(trainer.plan.lines())
                return trainer.run_step

            step, found = self.warm(begin)
            return step, found | {"variant": words, "execution": lines}

    def theirs(self, folder: str) -> tuple[Callable[[], object], dict[str, Any]]:
        def begin() -> Callable[[], object]:
            torch.manual_seed(0)
            model = self.model
            twin = nanogpt.build(folder, model, PADDED if model.vocabulary == 50257 else model.vocabulary)
            source = DataLoader(TokenWindows(noise(model.vocabulary), model.context, overlapping=True), 1, self.device)
            numbers = count()
            batches = lambda: source.batch(next(numbers) * self.batch, self.batch)  # noqa: E731
            return nanogpt.stepper(twin, OPTIM, self.device, batches, self.device.type == "cuda")

        return self.warm(begin)


def parameters(model: GPTConfig) -> int:
    """Without the positions."""
    with torch.device("meta"):
        return sum(p.numel() for p in model.build().parameters()) - model.context * model.width


def forget() -> None:
    """Give the memory of one contender back before the next."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def line_of(name: str, found: dict[str, Any]) -> str:
    memory = f"{found['gib']:6.2f} GiB, " if "gib" in found else ""
    rate = f"{found['tokens_per_second'] / 1e3:7.1f} k tokens/s, MFU {100 * found['mfu']:.1f} %"
    return f"{name:40} {found['ms']:8.2f} ms, {rate}, {memory}{found['warm_up_seconds']:.0f} s to warm up"


def contend(bench: Bench, variants: list[str], folder: str) -> dict[str, Any]:
    """All contenders at one size: side by side where the GPU holds them all, else one after another."""
    row: dict[str, Any] = {"size": bench.size, "batch": bench.batch, "activation": bench.activation}
    print(f"{bench.size}, batch {bench.batch}", flush=True)
    makers: dict[str, Callable[[], Any]] = {f"weft {words}": partial(bench.ours, words) for words in variants}
    makers |= {"nanoGPT": partial(bench.theirs, folder)} if folder else {}  # last, as it takes most: what fits beside it is known then
    found: dict[str, dict[str, Any]] = {}
    steps: dict[str, Callable[[], object]] = {}
    for name, make_one in makers.items():
        if steps and not room(found, len(makers)):
            bench.time(steps, found)
            steps.clear()
            forget()
        try:
            steps[name], found[name] = make_one()
        except RuntimeError as error:  # the others are still worth measuring
            print(f"{name}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
    bench.time(steps, found)
    steps.clear()
    forget()
    row["ceiling"] = ceiling.measure(bench.model, bench.batch, bench.device)
    print(f"{'ceiling':40} {row['ceiling']['ms']:8.2f} ms: {json.dumps(row['ceiling'])}", flush=True)
    row |= {"nanogpt": found.pop("nanoGPT")} if "nanoGPT" in found else {}
    row["variants"] = list(found.values())
    for one in row["variants"]:
        compare(one, row)
    return row


def room(found: dict[str, dict[str, Any]], number: int) -> bool:
    """Whether as many contenders fit the GPU as there are, if all take as much as the largest yet."""
    if not torch.cuda.is_available():
        return True
    largest: float = max(one["gib"] for one in found.values())
    return largest * number * 1.2 < torch.cuda.get_device_properties(0).total_memory / 2**30


def compare(one: dict[str, Any], row: dict[str, Any]) -> None:
    """Note, and tell, how a way to run ours stands beside the ceiling and nanoGPT."""
    one["of_ceiling"] = row["ceiling"]["ms"] / one["ms"]
    compared = ""
    if "nanogpt" in row:
        one["speed_ratio"] = row["nanogpt"]["ms"] / one["ms"]
        compared = f", {one['speed_ratio']:.3f} x nanoGPT's speed"
        if "gib" in one:
            one["memory_ratio"] = one["gib"] / row["nanogpt"]["gib"]
            compared += f", {one['memory_ratio']:.3f} x its memory"
    print(f"weft {one['variant']}: {one['of_ceiling']:.3f} of the ceiling{compared}", flush=True)


OF = ("size", "batch", "activation", "contender")
PARTS = ("nanogpt", "variants", "ceiling")


def flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each contender and for the ceiling, and one for what else is known of a size."""
    found = []
    for row in rows:
        if "variants" not in row:  # two curves of losses
            found.append(row)
            continue
        about = {name: row[name] for name in OF if name in row}
        own = {"nanoGPT": row["nanogpt"]} if "nanogpt" in row else {}
        own |= {f"weft {one['variant']}": {k: v for k, v in one.items() if k != "variant"} for one in row["variants"]}
        own |= {"ceiling": row["ceiling"]} if "ceiling" in row else {}
        found += [{**about, "contender": name, **one} for name, one in own.items()]
        if rest := {key: value for key, value in row.items() if key not in (*about, *PARTS)}:
            found.append({**about, **rest})
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "training")
    parser.add_names("--sizes", BATCHES, nargs="+", default=["gpt2", "gpt2-medium", "gpt2-xl"])
    parser.add_argument("--nanogpt", default="", help="folder that holds nanoGPT's model.py; without it only ours is measured")
    parser.add_argument("--variants", nargs="+", default=["default"], help="ways to run ours")
    parser.add_argument("--batch", type=at_least(0), default=0, help="examples; 0 is the usual number for each size")
    parser.add_argument("--steps", type=at_least(1), default=20, help="timed steps of each contender")
    parser.add_names("--activation", ["gelu_tanh", "gelu"], default="gelu_tanh")
    parser.add_argument("--losses", type=at_least(0), default=0, help="compare so many steps' losses instead")
    parser.add_argument("--profile", action="store_true", help="also tell where each contender's time goes")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    parser.check_sizes("--sizes", options.sizes)
    device = execution.select_device("auto")
    rows = []
    for size in options.sizes:
        batch = options.batch or BATCHES[size]
        if options.losses:
            from weft.benchmarks.training.training_losses import curves

            rows.append(curves(size, options.batch or 16, options.losses, options.nanogpt, options.variants[0], device))
        else:
            bench = Bench(size, batch, options.steps, options.profile, device, options.activation)
            rows.append(contend(bench, options.variants, options.nanogpt))
    if options.record:
        write_record(options.record, measurements(flat(rows), OF), **parser.run(options))


if __name__ == "__main__":
    main()
