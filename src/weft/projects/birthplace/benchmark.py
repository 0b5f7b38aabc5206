"""The birthplace task on the real data: pretrain, finetune, answer, over several seeds.

python -m weft bench birthplace reference best [--seeds 1 2 3] [--record results]
python -m weft bench birthplace best --held-out 300 --finetune optim.lr=5e-5     select on training questions set aside

With --held-out the development set is not looked at: both stages leave out the same rows, and these are asked.
"""

from __future__ import annotations

import json
import statistics
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.arguments import Arguments, at_least, settings
from weft.benchmarks.record import measurements, write_record
from weft.core.config import override
from weft.data.base import Problems
from weft.projects.birthplace.answers import ask, score
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.assemble import adopt
from weft.runs.load import load

STAGES = {
    "questions_only": ("birthplace/questions_only",),
    "reference": ("birthplace/reference", "birthplace/questions"),
    "perceiver": ("birthplace/perceiver", "birthplace/questions_perceiver"),
    "rotary": ("birthplace/rotary", "birthplace/questions_mixed"),
    "perceiver_ar": ("birthplace/perceiver_ar", "birthplace/questions_mixed"),
    "best": ("birthplace/best", "birthplace/questions_mixed"),
}


def experiment(name: str, seed: int, folder: Path, held: int, pretrain: dict[str, Any], finetune: dict[str, Any]) -> dict[str, Any]:
    """One seed of one system: its accuracy, and how long each stage took."""
    found: dict[str, Any] = {"system": name, "seed": seed}
    before, recipe = None, find_recipe(STAGES[name][-1])
    for stage in STAGES[name]:
        asks = stage == STAGES[name][-1]
        recipe = override(find_recipe(stage), {"train.seed": seed, **set_aside(find_recipe(stage), held, asks)})
        recipe = override(recipe, finetune if asks else pretrain)
        if before:
            recipe = adopt(recipe, before)
        out = folder / f"{name}-{seed}" / stage.rpartition("/")[2]
        begin = time.perf_counter()
        made = train(recipe, out=out, init=before, progress=False)
        if made.trainer.step < recipe.train.steps:
            raise SystemExit(f"{out}: {made.trainer.stop_reason}; the same command goes on from there")
        found[f"{'finetune' if asks else 'pretrain'}_seconds"] = time.perf_counter() - begin
        if not asks:
            found |= {"parameters": sum(p.numel() for p in made.trainer.model.parameters()), **pace(out)}
        before = f"{out}@last"
    loaded = load(str(before))
    _, rows = recipe.data.rows(Problems())  # type: ignore[attr-defined]
    total, correct = score(ask(loaded.model, loaded.tokenizer, [(row.question, row.place) for row in rows]))
    return {**found, "total": total, "correct": correct, "accuracy": correct / total}


def set_aside(recipe: Recipe, held: int, asks: bool) -> dict[str, Any]:
    """Settings that keep so many training rows away from both stages; without any, the development set is asked."""
    if not held:
        return {}
    if asks:
        return {"data.held_out": held, "data.validation_path": "", "train.eval_every": 10}
    return {"data.questions_held_out": held} if getattr(recipe.data, "questions", 0.0) else {}


def pace(folder: Path) -> dict[str, float]:
    """Loss at the end, milliseconds a step takes (median over the lines of the log), and seconds that all take after compilation."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    first, last = lines[0], lines[-1]
    found = {"loss": last["train"]["loss"], "steps": last["step"]}
    if len(lines) == 1:
        return found
    steady = statistics.median((b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in pairwise(lines))
    # what lies before the first line holds the compilation: its steps count as long as those after it
    compiled = (last["seconds"] - first["seconds"]) * last["step"] / (last["step"] - first["step"])
    return {**found, "step_ms": steady * 1e3, "compiled_seconds": compiled}


FACTS = ("system", "parameters", "steps", "total")
"""Columns of a row that are no results."""


def write_system(name: str, rows: list[dict[str, Any]], options: Namespace, parser: Arguments) -> None:
    """The seeds of a system as a record."""
    found = measurements(
        [{"examples": row["total"], **{key: value for key, value in row.items() if key not in FACTS}} for row in rows],
        split=dict.fromkeys(("accuracy", "correct"), "validation" if options.held_out else "dev") | {"loss": "train"},
        recipe=STAGES[name][-1],
    )
    facts: dict[str, Any] = {key: rows[0][key] for key in ("system", "parameters") if key in rows[0]}
    facts |= {"steps": [row["steps"] for row in rows]} if "steps" in rows[0] else {}
    details = {**facts, "recipes": STAGES[name], "held": options.held_out}
    given = {"pretrain": settings(options.pretrain), "finetune": settings(options.finetune)}
    seconds = statistics.median(row.get("pretrain_seconds", 0.0) + row["finetune_seconds"] for row in rows)
    own = {**parser.run(Namespace(**{**vars(options), "systems": [name]})), "seconds": seconds}
    own["changed"] = {f"{stage}:{setting}": value for stage, changes in given.items() for setting, value in changes.items()}
    file = "-".join(["birthplace", name, *options.pretrain, *options.finetune])
    write_record(options.record / f"{file}.json", found, **own, recipe=STAGES[name][-1], details=details)


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "birthplace")
    parser.add_names("systems", STAGES, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--held-out", type=at_least(0), default=0, help="training questions set aside and asked, not the development set")
    parser.add_argument("--pretrain", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the first stage to change")
    parser.add_argument("--finetune", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the second stage to change")
    parser.add_argument("--out", type=Path, default=Path("runs/birthplace"), help="folder of the runs")
    parser.add_argument("--record", type=Path, help="folder to write a JSON file per system to")
    options = parser.parse_args(arguments)
    for name in options.systems:
        rows = []
        for seed in options.seeds:
            row = experiment(name, seed, options.out, options.held_out, settings(options.pretrain), settings(options.finetune))
            rows.append(row)
            print(json.dumps(row), flush=True)
        scores = [row["accuracy"] for row in rows]
        spread = f" ± {100 * statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
        print(f"{name}: {100 * statistics.fmean(scores):.1f} %{spread} ({len(scores)} seeds)", flush=True)
        if options.record:
            write_system(name, rows, options, parser)


if __name__ == "__main__":
    main()
