"""Topics of Reuters' news: a sigmoid for each label and labels written one by one, beside a linear SVM over TF-IDF."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from weft.benchmarks.applications.base import Contender, Files, Task, metrics
from weft.benchmarks.record import Row
from weft.core.errors import require
from weft.data.annotated.label_sets import LabelSetsConfig, canonical, joined, labels_of
from weft.data.annotated.labelled_texts import LabelledExample
from weft.data.base import Problems
from weft.data.split import shuffled
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.label_sets import scores
from weft.runs.load import Loaded

REUTERS = LabelSetsConfig(path="reuters21578/reuters21578.jsonl.gz", text="title", second="body", label="topics")
SHARES = {"dev": 0.15, "test": 0.2}
PENALTIES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The SVM's C, of which the best on the articles that select is taken."""
EVERY: dict[str, Any] = {"train.eval_every": 500, "train.save_every": 500, "train.log_every": 100}
CONTENDERS = {
    "sigmoid": Contender(
        "labels/sigmoid",
        {**EVERY, "model.width": 100, "data.vocabulary": 30_000, "data.buckets": 100_000, "train.steps": 3000, "optim.lr": 2e-2},
        {"train.steps": 400, "train.eval_every": 100, "train.save_every": 100},
    ),
    "generated": Contender(
        "labels/generated",
        {
            **EVERY,
            "data.max_length": 256,
            "data.vocabulary": 16_000,
            "model.width": 256,
            "model.layers": 3,
            "model.dropout": 0.3,
            "train.steps": 8000,
            "train.batch": 64,
            "optim.lr": 5e-4,
        },
        {"data.max_length": 64, "model.width": 64, "model.layers": 1, "train.steps": 500, "train.batch": 32, "optim.lr": 2e-3},
    ),
}


def prepare(folder: Path, options: Namespace) -> Files:
    return parts(folder)


def baselines(files: Files, options: Namespace) -> list[Row]:
    """The SVM, and the commonest set of labels, which is the measure's own."""
    found = svm(files)
    common = {"model": "commonest set", "set_f1": found.pop("commonest_set_f1"), "examples": found["examples"]}
    return [{"model": "linear SVM over TF-IDF", **found}, common]


def measure(loaded: Loaded, files: Files, options: Namespace) -> Row:
    found = metrics(loaded, files["test"])
    names = ("set_f1", "micro_f1", "macro_f1", "exact", "top1_set_f1", "top2_set_f1", "top3_set_f1", "examples")
    return {name: found[name] for name in names if name in found}


def parts(folder: Path) -> dict[str, Path]:
    """Articles with a topic in three files: to learn from, to select by, and to report on."""
    rows = [row for row in REUTERS.read(REUTERS.path, Problems()) if row.label]
    order = [rows[i] for i in shuffled(len(rows), "reuters")]
    found, begun = {}, 0
    for name, share in {**SHARES, "train": 1 - sum(SHARES.values())}.items():
        some = order[begun : begun + round(share * len(order))]
        begun += len(some)
        found[name] = folder / f"{name}.jsonl"
        found[name].write_text("".join(line(row) for row in some), encoding="utf-8")
    return found


def line(row: LabelledExample) -> str:
    return json.dumps({"text": "\n".join(row.texts.parts), "labels": labels_of(row.label)}) + "\n"


def read(path: Path) -> list[LabelledExample]:
    return LabelSetsConfig(path=str(path)).read(str(path), Problems())


def svm(files: dict[str, Path]) -> Row:
    """One linear SVM for each label, over TF-IDF of words and pairs of words."""
    text, svms = require("sklearn.feature_extraction.text", "images"), require("sklearn.svm", "images")
    rows = {name: read(path) for name, path in files.items()}
    names = canonical((labels_of(row.label) for row in rows["train"]), 2)
    words = text.TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    x = {
        name: (words.fit_transform if name == "train" else words.transform)([r.texts.parts[0] for r in rows[name]])
        for name in sorted(rows)[::-1]
    }
    said: dict[float, dict[str, np.ndarray]] = {penalty: {} for penalty in PENALTIES}
    for penalty in PENALTIES:
        columns = {name: [] for name in ("dev", "test")}  # type: dict[str, list[np.ndarray]]
        for label in names:
            true = np.array([label in labels_of(row.label) for row in rows["train"]])
            model = svms.LinearSVC(C=penalty).fit(x["train"], true)
            for name in columns:
                columns[name].append(model.decision_function(x[name]) > 0)
        said[penalty] = {name: np.stack(found, 1) for name, found in columns.items()}
    results = {penalty: measured(said[penalty]["dev"], rows["dev"], names)["micro_f1"] for penalty in PENALTIES}
    best = max(results, key=results.__getitem__)
    return {"C": str(best), "examples": len(rows["test"]), **measured(said[best]["test"], rows["test"], names)}


def measured(predicted: np.ndarray, rows: list[LabelledExample], names: list[str]) -> dict[str, float]:
    """told (N, C) -> the scores of sets of labels; labels that training does not have count as missed."""
    answers = [
        AnswerRow("", joined(name for name, yes in zip(names, each, strict=True) if yes), (row.label,))
        for each, row in zip(predicted, rows, strict=True)
    ]
    return scores(answers, None).metrics


TASK = Task(CONTENDERS, prepare, baselines, measure)
