"""lm-evaluation-harness asks a model twice: in its own process, and over HTTP as it asks any server of OpenAI's form.

Run: python -m weft bench harness [CKPT] [--record results/harness.json]
Three small tasks with their questions in this file, so that nothing is fetched: a choice (log-probabilities of answers), a text
(log-probability of all of it) and an answer in writing. Without CKPT a small GPT with random weights is asked. Texts fit the context:
longer ones the harness cuts into windows, which over HTTP are one token shorter, as it has one written to each that it throws away.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from weft.benchmarks.arguments import Arguments
from weft.benchmarks.inference.serving import serving, write_model
from weft.benchmarks.record import measurements, write_record
from weft.core.errors import WeftError, require
from weft.evaluation.lm_eval import adapter

TOLERANCE = 1e-4
SMALL: dict[str, Any] = {"context": 256, "layers": 2, "heads": 2, "width": 64}
RECORDS = [
    {"question": "The capital of France is", "answers": ["Paris", "a river", "Berlin, which lies far away"], "right": 0},
    {"question": "Grüße aus", "answers": ["München", "der Küche", "…"], "right": 0},
    {"question": "2 + 2 =", "answers": ["3", "4", "5"], "right": 1},
    {"question": "def add(a, b):\n    return", "answers": ["a + b", "a - b", "print(a)"], "right": 0},
]
CHOICE = {"output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{answers}}", "doc_to_target": "right"}
WHOLE = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{(question + ' ' + answers[right] + '. ') * 3}}"}
WRITING = {
    "output_type": "generate_until",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answers[right]}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16, "do_sample": False, "temperature": 0.0},
}
FORMS: dict[str, dict[str, Any]] = {"choice": CHOICE, "whole_text": WHOLE, "writing": WRITING}


def tasks(folder: Path) -> list[dict[str, Any]]:
    """The tasks as the harness reads them, their records in a file."""
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test"}
    return [{"task": f"weft_{name}", **data, **form} for name, form in FORMS.items()]


def samples_of(results: Any) -> dict[str, list[Any]]:
    """What a model answered to every question of every task: log-probabilities as numbers, or texts."""
    found = {}
    for name, samples in results["samples"].items():
        ordered = sorted(samples, key=lambda sample: sample["doc_id"])
        found[name] = [number(reply) for sample in ordered for reply in sample["resps"]]
    return found


def number(reply: Any) -> Any:
    while isinstance(reply, list | tuple):
        reply = reply[0]
    return reply if not isinstance(reply, str) or not reply.lstrip("-").replace(".", "", 1).isdigit() else float(reply)


def compare(checkpoint: Path) -> list[dict[str, Any]]:
    """For each task, how far apart the answers are, and the metrics of both ways."""
    harness, api = require("lm_eval", "eval"), require("lm_eval.models.openai_completions", "eval").LocalCompletionsAPI
    settings = {"log_samples": True, "bootstrap_iters": 0}
    with tempfile.TemporaryDirectory(prefix="weft-") as place, serving(checkpoint, slots=8, max_queue=64) as server:
        base = f"http://{server.host}:{server.port}"
        remote = {"model": checkpoint.name, "base_url": f"{base}/v1/completions", "tokenizer_backend": "remote", "num_concurrent": 2}
        own = adapter(checkpoint, device="cpu")
        asked = tasks(Path(place))
        here = harness.simple_evaluate(model=own, tasks=asked, **settings)
        limits = {"max_length": own.max_length, "custom_prefix_token_id": own.prefix_token_id}
        there = harness.simple_evaluate(model=api(**remote, **limits), tasks=asked, **settings)
    rows = []
    for name, mine in samples_of(here).items():
        other = samples_of(there)[name]
        apart = max((abs(a - b) for a, b in zip(mine, other, strict=True) if isinstance(a, float)), default=0.0)
        same = all(a == b for a, b in zip(mine, other, strict=True) if isinstance(a, str))
        metrics = {way: found["results"][name] for way, found in (("in_process", here), ("over_http", there))}
        compared = {"numbers": sum(isinstance(a, float) for a in mine), "texts": sum(isinstance(a, str) for a in mine)}
        rows.append({"task": name, **compared, "largest_difference": apart, "same_texts": same, "metrics": metrics})
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "harness")
    parser.add_argument("checkpoint", nargs="?", default="", help="a model folder or a run's checkpoint")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory(prefix="weft-") as place:
        checkpoint = Path(options.checkpoint or Path(place) / "small")
        if not options.checkpoint:
            write_model(checkpoint, SMALL)
        rows = compare(checkpoint)
    for row in rows:
        print(json.dumps(row, default=str), flush=True)
    if options.record:
        versions = {"lm_eval": require("lm_eval", "eval").__version__}
        write_record(options.record, measurements(rows, ("task",)), **parser.run(options), versions=versions)
    worst = max(rows, key=lambda row: float(row["largest_difference"]))
    if worst["largest_difference"] > TOLERANCE or not all(row["same_texts"] for row in rows):
        raise WeftError(
            f"harness: {worst['task']} is {worst['largest_difference']:.1e} apart, more than {TOLERANCE:.0e}, or a text differs"
        )


if __name__ == "__main__":
    main()
