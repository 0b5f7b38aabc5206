"""The birthplace task on the real data: pretrain, finetune, answer, over several seeds.

python -m weft bench birthplace reference best [--seeds 1 2 3] [--record results/birthplace.json]
python -m weft bench birthplace best --held 300 --finetune optim.lr=5e-5     select on training questions set aside

With --held the development set is not looked at: both stages leave out the same rows, and these are asked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft import run
from weft.benchmarks.record import write_record
from weft.birthplace.answers import ask, score
from weft.config import override
from weft.data.base import Problems
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe

STAGES = {
    "questions_only": ("birthplace/questions_only",),
    "reference": ("birthplace/reference", "birthplace/questions"),
    "perceiver": ("birthplace/perceiver", "birthplace/questions"),
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
            recipe = run.adopt(recipe, before)
        out = folder / f"{name}-{seed}" / stage.rpartition("/")[2]
        begin = time.perf_counter()
        made = run.train(recipe, out=out, init=before)
        found[f"{'finetune' if asks else 'pretrain'}_seconds"] = time.perf_counter() - begin
        if not asks:
            found |= {"parameters": sum(p.numel() for p in made.trainer.model.parameters()), **pace(out)}
        before = f"{out}@last"
    loaded = run.load(str(before))
    _, rows = recipe.data.rows(Problems())  # type: ignore[attr-defined]
    total, correct = score(ask(loaded.model, loaded.tokenizer, [(row.question, row.place) for row in rows]))
    return {**found, "total": total, "correct": correct, "accuracy": correct / total}


def set_aside(recipe: Recipe, held: int, asks: bool) -> dict[str, Any]:
    """Settings that keep so many training rows away from both stages; without any, the development set is asked."""
    if not held:
        return {}
    if asks:
        return {"data.held": held, "data.validation_path": "", "train.eval_every": 10}
    return {"data.questions_held": held} if getattr(recipe.data, "questions", 0.0) else {}


def pace(folder: Path) -> dict[str, float]:
    """Loss at the end, and milliseconds a step takes after compilation (median over the lines of the log)."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    took = [(b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in pairwise(lines)]
    steady = statistics.median(took) * 1e3 if took else 0.0
    return {"loss": lines[-1]["train"]["loss"], "step_ms": steady, "steps": lines[-1]["step"]}


def settings(words: list[str]) -> dict[str, Any]:
    """name=value pairs, values as JSON where they are JSON."""
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="+", choices=list(STAGES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--held", type=int, default=0, help="training questions set aside and asked, instead of the development set")
    parser.add_argument("--pretrain", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the first stage to change")
    parser.add_argument("--finetune", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the second stage to change")
    parser.add_argument("--out", type=Path, default=Path("runs/birthplace"), help="folder of the runs")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.systems:
        for seed in options.seeds:
            row = experiment(name, seed, options.out, options.held, settings(options.pretrain), settings(options.finetune))
            rows.append(row)
            print(json.dumps(row), flush=True)
        own = [row["accuracy"] for row in rows if row["system"] == name]
        spread = f" ± {100 * statistics.stdev(own):.1f}" if len(own) > 1 else ""
        print(f"{name}: {100 * statistics.fmean(own):.1f} %{spread} ({len(own)} seeds)", flush=True)
    if options.record:
        command = "weft bench birthplace " + " ".join(options.systems)
        write_record(options.record, "birthplace", command, {"rows": rows})


if __name__ == "__main__":
    main()
