"""Responses in everyday dialogues: how often the right one of ten is the likeliest, beside TF-IDF."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from weft.benchmarks.applications.base import Contender, Files, Task, metrics
from weft.benchmarks.record import Row
from weft.data.io.files import locate, read_bytes
from weft.data.split import shuffled
from weft.data.text.dialogues import DialoguesConfig
from weft.evaluation.responses import TFIDF, best, groups
from weft.runs.load import Loaded

RESPONSES = "dailydialog/dailydialogpp_positives.jsonl.gz"
OFFERED = 10


def prepare(folder: Path, options: Namespace) -> Files:
    """Contexts with five responses each, a tenth of the contexts to select by and a fifth to report on."""
    lines = [line for line in read_bytes(locate(RESPONSES)).decode().splitlines() if line.strip()]
    order = [lines[i] for i in shuffled(len(lines), "dailydialog")]
    dev, test = len(order) // 10, len(order) // 5
    parts = {"dev": order[:dev], "test": order[dev : dev + test], "train": order[dev + test :]}
    files = {part: folder / f"{part}.jsonl" for part in parts}
    for part, file in files.items():
        file.write_text("\n".join(parts[part]) + "\n", encoding="utf-8")
    return files


def pairs(file: Path) -> list[tuple[str, str]]:
    return list(DialoguesConfig(path=str(file), validation=0.0, tokenizer="words").build().train.texts)  # type: ignore[attr-defined]


def baselines(files: Files, options: Namespace) -> list[Row]:
    vectors, found = TFIDF(pairs(files["train"])), groups(pairs(files["test"]), OFFERED)
    number = sum(map(len, found))
    right = sum(best(vectors.similarities(group)) for group in found)
    return [{"model": "TF-IDF", "examples": number, "recall_at_1": right / number}]


def measure(loaded: Loaded, files: Files, options: Namespace) -> Row:
    found = metrics(loaded, files["test"], f"recall_at_1={OFFERED}", examples=64)
    return {"recall_at_1": found["recall_at_1"], "examples": OFFERED * len(groups(pairs(files["test"]), OFFERED))}


TASK = Task(
    {
        "transformer": Contender(
            "dialogue/transformer",
            {
                "model.layers": 4,
                "model.width": 256,
                "model.dropout": 0.3,
                "train.steps": 6000,
                "train.batch": 128,
                "train.eval_every": 500,
                "train.save_every": 500,
                "optim.lr": 5e-4,
                "progress.metric": "log_loss",
                "progress.goal": "min",
            },
            {"model.layers": 2, "model.width": 96, "train.steps": 600, "train.batch": 32, "train.eval_every": 200, "train.save_every": 200},
        )
    },
    prepare,
    baselines,
    measure,
)
