"""Questions of SQuAD answered in words by a pointer-generator and a T5, beside the sentence that shares most words with the question."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from weft.benchmarks.applications.base import Contender, Files, Task, metrics
from weft.benchmarks.record import Row
from weft.data.annotated.squad import read_squad
from weft.data.base import Problems
from weft.data.io.files import locate, read_bytes
from weft.data.text.question_answers import pair_of
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.question_answers import best_sentence
from weft.evaluation.squad import exact, f1
from weft.runs.load import Loaded

TRAIN, TEST = "squad/squad_part_train.json.gz", "squad/squad_part_valid.json.gz"
SIZES: dict[str, Any] = {
    "train.steps": 12_000,
    "train.batch": 32,
    "train.eval_every": 1000,
    "train.save_every": 1000,
    "train.eval_examples": 256,
    "model.layers": 4,
    "model.width": 256,
}
TINY: dict[str, Any] = {"data.max_length": 120, "train.steps": 150, "train.eval_every": 75, "train.save_every": 75}


def prepare(folder: Path, options: Namespace) -> Files:
    """The last tenth of the articles to learn from selects; other articles report."""
    articles = [json.loads(read_bytes(locate(path))) for path in (TRAIN, TEST)]
    learned, cut = articles[0]["data"], max(1, len(articles[0]["data"]) // 10)
    parts = {"train": learned[:-cut], "dev": learned[-cut:], "test": articles[1]["data"]}
    files = {part: folder / f"{part}.json" for part in parts}
    for part, file in files.items():
        file.write_text(json.dumps({"data": parts[part]}), encoding="utf-8")
    return files


def baselines(files: Files, options: Namespace) -> list[Row]:
    pairs = [pair_of(one) for group in read_squad(str(files["test"]), Problems()) for one in group if one.references]
    rows = [AnswerRow(source, best_sentence(source), wanted.references) for source, wanted in pairs]  # type: ignore[attr-defined]
    found = {name: sum(score(row.said, row.references) for row in rows) / len(rows) for name, score in (("exact_match", exact), ("f1", f1))}
    return [{"model": "sentence that shares most words", "examples": len(rows), **found}]


def measure(loaded: Loaded, files: Files, options: Namespace) -> Row:
    found = metrics(loaded, files["test"])
    return {name: found[name] for name in ("exact_match", "f1", "examples")}


GENERATOR = {**SIZES, "model.ffn_width": 512, "model.dropout": 0.3, "optim.lr": 5e-4}
T5 = {**SIZES, "data.vocabulary": 8000, "data.max_length": 480}
TASK = Task(
    {"pointer-generator": Contender("questions/pointer_generator", GENERATOR, TINY), "t5": Contender("questions/t5", T5, TINY)},
    prepare,
    baselines,
    measure,
)
