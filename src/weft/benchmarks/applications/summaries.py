"""Summaries of BBC's news by a pointer-generator, beside the first sentences, as many as are best on the articles that select."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from weft.benchmarks.applications.base import Contender, Files, Task, metrics
from weft.benchmarks.record import Row
from weft.data.base import Problems
from weft.data.io.records import read_records
from weft.data.split import shuffled
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.summaries import LEADS, leads
from weft.runs.load import Loaded

SOURCE = "bbc_summary/bbc_summary.jsonl.gz"
SHARES = {"dev": 0.1, "test": 0.1}


def prepare(folder: Path, options: Namespace) -> Files:
    rows = read_records(SOURCE, Problems())
    article, summary = rows.column("article", "article"), rows.column("summary", "summary")
    pairs = [(cells[article].partition("\n\n")[2].strip(), cells[summary].strip()) for cells in rows.cells]  # without the headline
    pairs = [pairs[i] for i in shuffled(len(pairs), "bbc") if all(pairs[i])]
    files, begun = {part: folder / f"{part}.jsonl" for part in (*SHARES, "train")}, 0
    for part, file in files.items():
        some = pairs[begun : begun + round(SHARES.get(part, 1.0) * len(pairs))]
        begun += len(some)
        file.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in some), encoding="utf-8")
    return files


def read(file: Path) -> list[AnswerRow]:
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [AnswerRow(row["source"], "", (row["target"],)) for row in rows]


def baselines(files: Files, options: Namespace) -> list[Row]:
    dev, test = read(files["dev"]), read(files["test"])
    best = max(LEADS, key=lambda k: leads(dev, k)["rougeL"])
    return [{"model": f"first {best} sentences", "examples": len(test), **leads(test, best)}]


def measure(loaded: Loaded, files: Files, options: Namespace) -> Row:
    found = metrics(loaded, files["test"])
    return {name: found[name] for name in ("rouge1", "rouge2", "rougeL", "copied", "examples")}


GENERATOR = Contender(
    "summaries/pointer_generator",
    {
        "data.max_length": 500,
        "data.vocabulary": 20_000,
        "data.oov_words": 128,
        "model.layers": 3,
        "model.width": 256,
        "model.ffn_width": 512,
        "model.dropout": 0.3,
        "train.steps": 8000,
        "train.batch": 16,
        "train.eval_every": 500,
        "train.save_every": 500,
        "train.eval_examples": 64,
        "optim.lr": 5e-4,
    },
    {"data.max_length": 120, "model.layers": 1, "model.width": 64, "model.ffn_width": 128, "train.steps": 200, "train.eval_every": 100},
)
TASK = Task({"pointer-generator": GENERATOR}, prepare, baselines, measure)
