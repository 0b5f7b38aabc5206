"""Tokens a second of a GPT-2 that continues prompts, beside transformers' generate, both in one run, greedily.

Run: python -m weft bench generation [--sizes gpt2 gpt2-xl] [--batches 1 32] [--precision bf16] [--record results/generation.json]
Weights are random and the same for both; a prompt has 64 tokens and 128 are added. The rate counts the whole answer, its prompt included.
Beside it stands how many answers are not the same alone and in the batch, and what it costs that all are (invariant). On a GPU it also
tells how long a step takes without the rest (step_ms).
With --divergence: how many of --prompts greedy answers, --added tokens each, are not the same alone and among 8 or 32 (--batches), with and
without batch invariance, and tokens a second of each; of a converted model (--run FOLDER), or of random weights. There is no peer then:
python -m weft bench generation --divergence --run runs/smollm2-135m --prompts 200 --added 64 --batches 8 32 --precision bf16
On a CPU (--device cpu) weights of 8 bits run too, and the peer's static cache, which is not compiled there. Where other work shares the
processors, what counts is the fastest turn of each (fastest).
"""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.inference import divergence
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import synchronise, timed
from weft.convert.gpt2 import FAMILY
from weft.core.errors import require
from weft.inference.engine import Engine, generate_all
from weft.inference.quantize import quantize_model
from weft.inference.request import Request, Sampling
from weft.inference.runner import ModelRunner
from weft.models.language.gpt import PRESETS
from weft.runs.load import load

PROMPT, ADDED = 64, 128
STEPS, WARM_UP = 40, 5
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Numbers:
    """Tokens that nobody reads."""

    def __init__(self, size: int):
        self.size = size

    def decode(self, ids: list[int]) -> str:
        return "." * len(ids)


def ours(model: Any, prompts: torch.Tensor, added: int, batch_invariant: bool = False) -> Callable[[], Any]:
    engine = Engine(model, Numbers(model.config.vocabulary), slots=len(prompts), prefixes=0, batch_invariant=batch_invariant)
    sampling = Sampling(temperature=0.0, max_new_tokens=added)
    requests = [Request(tuple(row), sampling) for row in prompts.tolist()]
    return lambda: [[token.id for token in answer.tokens] for answer in generate_all(engine, requests)]


def theirs(twin: Any, prompts: torch.Tensor, added: int, cache: str | None) -> Callable[[], Any]:
    settings = {"max_new_tokens": added, "min_new_tokens": added, "do_sample": False, "pad_token_id": 0, "cache_implementation": cache}
    mask = torch.ones_like(prompts)

    def run() -> Any:
        with torch.inference_mode():
            return twin.generate(prompts, attention_mask=mask, **settings)[:, prompts.size(1) :].tolist()

    return run


def rates(runs: dict[str, Callable[[], Any]], tokens: int, repeats: int) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """Tokens a second of each, in turns, after a run that counts for nothing: the median and the fastest -> and what each said."""
    said = {name: run() for name, run in runs.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            synchronise()
            begin = time.perf_counter()
            run()
            synchronise()
            taken[name].append(time.perf_counter() - begin)
    kinds: dict[str, Callable[[list[float]], float]] = {"tokens_per_second": statistics.median, "fastest": min}
    return {kind: {name: tokens / of(times) for name, times in taken.items()} for kind, of in kinds.items()}, said


def step_ms(model: Any, rows: int, length: int, batch_invariant: bool = False) -> float:
    """Milliseconds of a step of rows that hold so many tokens, without prompts, choosing and the rest of the engine."""
    runner = ModelRunner(model, batch_invariant=batch_invariant)
    runner.add_rows(rows)
    assert runner.state
    runner.state.reserve(rows, length + WARM_UP + STEPS)
    runner.state.count([length] * rows)
    last = torch.zeros(rows, dtype=torch.int64, device=runner.device)
    return timed(lambda: runner.decode(last), STEPS, WARM_UP)


def apart(first: list[list[int]], second: list[list[int]]) -> float:
    """Share of the answers that are not the same."""
    return statistics.fmean(a != b for a, b in zip(first, second, strict=True))


def measure(size: str, batches: list[int], precision: str, device: torch.device, options: Any) -> list[dict[str, Any]]:
    transformers = require("transformers", "hf")
    torch.manual_seed(0)
    config = PRESETS[size]
    with device:
        model = config.build()
        twin = transformers.GPT2LMHeadModel(transformers.GPT2Config(**FAMILY.describe(config)))
    tensors = FAMILY.table(config).to_foreign({name: p.detach() for name, p in model.named_parameters()})
    twin.load_state_dict(tensors, strict=False)
    kind = PRECISIONS[precision]
    rounded = copy.deepcopy(model).eval() if device.type == "cpu" else None
    if rounded:
        quantize_model(rounded, "int8")
    made, peer = model.to(device, kind).eval(), twin.to(device, kind).eval()
    rows = []
    for batch in batches:
        prompts = torch.randint(0, config.vocabulary, (batch, PROMPT), generator=torch.Generator().manual_seed(1)).to(device)
        runs = {"weft": ours(made, prompts, options.added), "weft invariant": ours(made, prompts, options.added, batch_invariant=True)}
        runs["transformers"] = theirs(peer, prompts, options.added, None)
        if rounded:
            runs["weft int8"] = ours(rounded, prompts, options.added)
        if options.static or rounded:
            runs["transformers static"] = theirs(peer, prompts, options.added, "static")
        found, said = rates(runs, batch * options.added, options.repeats)
        row: dict[str, Any] = {"model": size, "batch": batch, "precision": precision} | found
        if device.type == "cuda":
            kinds, length = {"weft": False, "weft invariant": True}, PROMPT + options.added // 2
            row["step_ms"] = {name: step_ms(made, batch, length, batch_invariant) for name, batch_invariant in kinds.items()}
        row["differ_from_transformers"] = apart(said["weft"], said["transformers"])
        if batch > 1:  # the same prompts, each by itself
            for name, batch_invariant in (("weft", False), ("weft invariant", True)):
                alone = [ours(made, one[None], options.added, batch_invariant)()[0] for one in prompts[: options.alone]]
                row[f"{name}: differ alone"] = apart(said[name][: options.alone], alone)
        rows.append(row)
        print(json.dumps(rows[-1]), flush=True)
    return rows


METRICS = {"tokens_per_second": "tokens_per_second", "fastest": "fastest_tokens_per_second", "step_ms": "step_ms"}


def flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each contender."""
    found = []
    for row in rows:
        about = {name: row[name] for name in ("model", "batch", "precision")}
        for contender in row["tokens_per_second"]:
            own = {metric: row[name][contender] for name, metric in METRICS.items() if contender in row.get(name, {})}
            differ = {"differ_from_transformers": row["differ_from_transformers"]} if contender == "weft" else {}
            alone = f"{contender}: differ alone"
            found.append({**about, "contender": contender, **own, **differ, **({"differ_alone": row[alone]} if alone in row else {})})
    return found


def diverging(options: Any) -> list[dict[str, Any]]:
    """Rows of `benchmarks.inference.divergence`, for a model from a folder or for each of the sizes."""
    rows = []
    for name in [options.run] if options.run else options.sizes:
        if options.run:
            loaded = load(options.run, options.device)
            model, tokenizer = loaded.model, loaded.tokenizer
            prompts = divergence.prompts_of(tokenizer, options.prompts)
        else:
            torch.manual_seed(0)
            model = PRESETS[name].build().to(options.device).eval()
            tokenizer = Numbers(model.config.vocabulary)
            prompts = divergence.random_prompts(model.config.vocabulary, options.prompts)
        quantize_model(model, options.precision)
        for row in divergence.measure(model, tokenizer, prompts, options.batches, options.added):
            rows.append({"model": Path(name).name, "precision": options.precision, "prompts": len(prompts), "added": options.added, **row})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "generation")
    parser.add_names("--sizes", (name for name in PRESETS if name.startswith("gpt2")), nargs="+", default=["gpt2"])
    parser.add_argument("--batches", type=at_least(1), nargs="+", default=[1])
    parser.add_names("--precision", (*PRECISIONS, "int8"), default="bf16")
    parser.add_argument("--added", type=at_least(1), default=ADDED, help="tokens to add")
    parser.add_argument("--alone", type=at_least(0), default=32, help="prompts of a batch that are also asked alone")
    parser.add_argument("--repeats", type=at_least(1), default=3)
    parser.add_argument("--static", action="store_true", help="also transformers' static cache, which it compiles")
    parser.add_argument("--divergence", action="store_true", help="answers alone and in company, without a peer")
    parser.add_argument("--run", default="", help="with --divergence: a run or converted model")
    parser.add_argument("--prompts", type=at_least(1), default=200, help="with --divergence: how many are continued")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=at_least(0), default=0, help="of the processor; 0 for as many as torch takes")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    if options.precision == "int8" and not options.divergence:
        parser.error("--precision int8 is for --divergence; the comparison with a peer measures it on a CPU anyway")
    rows = diverging(options) if options.divergence else []
    for size in [] if options.divergence else options.sizes:
        rows += measure(size, options.batches, options.precision, torch.device(options.device), options)
    if options.record:
        of = (
            ("model", "precision", "prompts", "added", "company", "invariant")
            if options.divergence
            else ("model", "batch", "precision", "contender")
        )
        write_record(options.record, measurements(rows if options.divergence else flat(rows), of), **parser.run(options))


if __name__ == "__main__":
    main()
