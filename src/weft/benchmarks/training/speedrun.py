"""Time to quality: the classical GPT-2 recipe against gpt/speedrun, on one corpus of Python source, to the same validation loss.

Run: python -m weft bench speedrun --size 30m --seeds 1 2 --record results      (or --size 124m; tiny is for a CPU)
The corpus (`weft data python`) and its tokens are made first, once. Then, each alone on the device:
- the classical recipe is trained to its end, under one epoch, with learning rates a factor of 2 apart until one is better than both
  its neighbours, judged on documents held out of the training packages; the next seeds use that rate;
- the speedrun recipe gets a share of the classical recipe's training time and is asked when it first has its final loss.
Losses that are reported are of packages that nothing was trained or chosen on. Seconds are those of training; compiling and validating
are not in them, and are given apart. A model is compiled once and begun anew for each run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least, settings
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import synchronise, timed
from weft.core.config import override, to_dict
from weft.data.base import DataLoader
from weft.data.shards.build_state import BuildConfig
from weft.data.shards.builder import build
from weft.data.shards.workers import cores
from weft.data.text.python_corpus import build_corpus
from weft.data.tokenizers.training import train_tokenizer
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.assemble import build as build_run
from weft.training import execution
from weft.training.hooks import evaluate
from weft.training.trainer import Trainer

WARM_UP = 8
"""Steps until all is compiled and captured."""
POINTS = {"classical": 5, "speedrun": 12}
"""Validations of a run, evenly spread."""


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    head: dict[str, int]
    """Width of an attention head, by recipe."""
    tokens: float
    """Millions that the classical recipe reads."""
    rate: float
    """Where the search for its learning rate begins."""
    batch: dict[str, int]
    context: int = 1024
    vocabulary: int = 32768
    examples: int = 256
    """Windows to validate on."""


SIZES = {
    "tiny": Size(2, 64, {"classical": 16, "speedrun": 32}, 0.08, 4e-3, {"classical": 4, "speedrun": 2}, 128, 512, 32),
    "30m": Size(8, 384, {"classical": 64, "speedrun": 64}, 24.0, 2e-3, {"classical": 32, "speedrun": 16}),
    "124m": Size(12, 768, {"classical": 64, "speedrun": 128}, 20.0, 1e-3, {"classical": 32, "speedrun": 16}),
}


def prepared(folder: Path, folders: list[str], vocabulary: int) -> dict[str, Any]:
    """The corpus and its shards, made now where they are not there yet; its description."""
    if not (folder / "corpus.json").is_file():
        build_corpus(folder, folders)
    parts = {name: str(folder / f"{name}.jsonl") for name in ("train", "held_out")}
    if not (folder / f"held_out-{vocabulary}" / "manifest.json").is_file():
        tokenizer = train_tokenizer("byte_bpe", vocabulary, [parts["train"]], BuildConfig())
        for name, path in parts.items():
            build([path], folder / f"{name}-{vocabulary}", tokenizer, BuildConfig(), cores())
    description: dict[str, Any] = json.loads((folder / "corpus.json").read_text())
    return description


def recipe_of(name: str, size: Size, corpus: Path, changes: dict[str, Any]) -> Recipe:
    """One of the two recipes at a size, on the shards of a corpus."""
    sized = {
        "data.path": (str(corpus / f"train-{size.vocabulary}"),),
        "data.validation": 0.01,
        "data.context": size.context,
        "model.layers": size.layers,
        "model.width": size.width,
        "model.heads": size.width // size.head[name],
        "train.batch": size.batch[name],
        "train.nonfinite": "skip",
        "train.compile": "on" if torch.cuda.is_available() else "off",
    }
    return override(find_recipe(f"gpt/{name}"), sized | changes)


class Course:
    """A recipe whose model is compiled once and trained from the start as often as wanted."""

    def __init__(self, name: str, recipe: Recipe, held: str, examples: int):
        begin = time.perf_counter()
        data = recipe.data.build()
        self.name, self.recipe, self.examples = name, recipe.resolve(data.info), examples
        model, objective = build_run(self.recipe)
        optim: Any = self.recipe.optim
        plan = execution.choose(self.recipe.train, model, objective, optim)
        source = DataLoader(data.train, 1, plan.device)
        self.trainer = Trainer(model, objective, source, self.recipe.train, optim, plan, tokens=data.info["tokens"])
        self.updater = self.trainer.updaters[""]
        self.peaks, self.lr = self.updater.peaks, optim.lr
        report = dataclasses.replace(recipe.data, validation_path=(held,)).build().validation  # type: ignore[call-arg]
        assert data.validation is not None and report is not None
        self.sets = {"chosen_on": data.validation, "loss": report}
        self.sources = {key: DataLoader(dataset, 1, plan.device, shuffle=False) for key, dataset in self.sets.items()}
        self.facts = {"parameters": sum(p.numel() for p in model.parameters()), **data.info}
        self.validate("loss")
        self.step_seconds = timed(self.trainer.run_step, 10, WARM_UP) / 1e3
        self.compile_seconds = time.perf_counter() - begin

    @property
    def tokens(self) -> int:
        """Of a step."""
        return int(self.recipe.train.batch * self.facts["context"])

    def begin(self, seed: int, lr: float, steps: int) -> None:
        """Forget everything: new weights of a seed, into the same memory, and a schedule of its own."""
        trainer = self.trainer
        fresh = build_run(dataclasses.replace(self.recipe, train=dataclasses.replace(self.recipe.train, seed=seed)))[0]
        trainer.model.load_state_dict(fresh.state_dict())
        for optimizer in self.updater.optimizers:
            for state in optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
        self.updater.refused.zero_()
        self.updater.peaks = [[peak * lr / self.lr for peak in group] for group in self.peaks]
        trainer.means.clear()
        trainer.source.reseed(seed)
        trainer.settings = dataclasses.replace(trainer.settings, seed=seed, steps=steps)
        trainer.step = trainer.cursor = 0

    def train(self, seed: int, lr: float, steps: int) -> dict[str, Any]:
        """One run from the start to the end: the loss over the seconds of training."""
        self.begin(seed, lr, steps)
        begun, seconds, every = time.perf_counter(), 0.0, max(1, steps // POINTS[self.name])
        curve: list[list[float]] = []
        while self.trainer.step < steps:
            synchronise()
            start = time.perf_counter()
            for _ in range(min(every, steps - self.trainer.step)):
                self.trainer.run_step()
            synchronise()
            seconds += time.perf_counter() - start
            curve.append([self.trainer.step, round(seconds, 4), round(self.validate("loss"), 5)])
        return {
            "recipe": self.name,
            "seed": seed,
            "lr": lr,
            "steps": steps,
            "tokens": steps * self.tokens,
            "seconds": round(seconds, 4),
            "wall_seconds": round(time.perf_counter() - begun, 2),
            "refused_updates": int(self.updater.refused),
            "loss": curve[-1][2],
            "chosen_on": round(self.validate("chosen_on"), 5),
            "curve": curve,
        }

    def validate(self, which: str) -> float:
        plan, source = self.trainer.plan, self.sources[which]
        with plan.tf32(), plan.autocast():
            given = self.trainer.model, self.trainer.objective, source, min(self.examples, len(source.dataset)), self.recipe.train.batch
            return evaluate(*given)["loss"]


RECIPE = "gpt/speedrun"
LOSSES = ("loss", "chosen_on", "classical_loss", "speedrun_final_loss")
RUN = ("recipe", "lr", "steps", "tokens")
"""What tells one run of a seed from another."""


class Race:
    """All runs of a size, told and written down as they come."""

    def __init__(self, options: argparse.Namespace, command: str):
        self.options, self.size, self.command = options, SIZES[options.size], command
        self.begun = time.perf_counter()
        self.corpus = prepared(options.corpus, options.folder, self.size.vocabulary)
        self.record: dict[str, Any] = {"size": options.size, "corpus": self.corpus, "runs": [], "results": []}
        self.tell("corpus", {"seconds": time.perf_counter() - self.begun, "megabytes": self.corpus["train"]["bytes"] / 1e6})

    def tell(self, what: str, numbers: dict[str, Any]) -> None:
        shown = {key: f"{value:.5g}" if isinstance(value, float) else value for key, value in numbers.items() if key != "curve"}
        print(f"{self.options.size} {what}: " + ", ".join(f"{key} {value}" for key, value in shown.items()), flush=True)
        if self.options.record:
            self.record["total_seconds"] = round(time.perf_counter() - self.begun, 1)
            self.write()

    def write(self) -> None:
        """The record as it is by now, once there is a run."""
        runs, ends = self.record["runs"], self.record["results"]
        details = {key: value for key, value in self.record.items() if key not in ("runs", "results", "total_seconds")}
        if runs:
            path = self.options.record / f"speedrun-{self.options.size}.json"
            own = {"command": self.command, "benchmark": "speedrun", "seconds": self.record["total_seconds"]}
            write_record(
                path,
                measurements([*runs, *ends], RUN, split=dict.fromkeys(LOSSES, "validation"), recipe=RECIPE),
                **own,
                recipe=RECIPE,
                details=details,
            )

    def course(self, name: str) -> Course:
        changes = settings(getattr(self.options, name))
        made = Course(name, recipe_of(name, self.size, self.options.corpus, changes), self.held, self.size.examples)
        facts = {"step_ms": made.step_seconds * 1e3, "tokens_per_second": made.tokens / made.step_seconds}
        self.record[name] = {**facts, **made.facts, "compile_seconds": round(made.compile_seconds, 1), "settings": to_dict(made.recipe)}
        self.tell(name, {"parameters": made.facts["parameters"], **facts, "compile_seconds": made.compile_seconds})
        return made

    @property
    def held(self) -> str:
        return str(self.options.corpus / f"held_out-{self.size.vocabulary}")

    def train(self, course: Course, seed: int, lr: float, steps: int) -> dict[str, Any]:
        row = course.train(seed, lr, steps)
        self.record["runs"].append(row)
        self.tell(f"run {course.name}", row)
        return row

    def search(self, course: Course, steps: int) -> dict[str, Any]:
        """The run of the first seed whose rate is better than its neighbours."""
        rows: dict[int, dict[str, Any]] = {}
        around = [-1, 0, 1] if self.options.search else [0]
        best, last = 0, -1
        while best != last:
            last = best
            for power in (last + step for step in around):
                if power not in rows:
                    lr = (self.options.rate or self.size.rate) * 2.0**power
                    rows[power] = self.train(course, self.options.seeds[0], lr, steps)
            best = min(rows, key=lambda power: (math.isnan(rows[power]["chosen_on"]), rows[power]["chosen_on"]))
        return rows[best]

    def run(self) -> None:
        first = self.course("classical")
        wanted = int((self.options.tokens or self.size.tokens) * 1e6)
        steps = min(wanted, first.facts["training_tokens"]) // first.tokens
        chosen = self.search(first, steps)
        second = self.course("speedrun")
        for seed in self.options.seeds:
            slow = chosen if seed == self.options.seeds[0] else self.train(first, seed, chosen["lr"], steps)
            short = max(1, int(self.options.share * slow["seconds"] / second.step_seconds))
            fast = self.train(second, seed, second.lr, short)
            self.record["results"].append(compared(slow, fast))
            self.tell("result", self.record["results"][-1])


def compared(slow: dict[str, Any], fast: dict[str, Any]) -> dict[str, Any]:
    """When a fast run first has the loss that a slow one ends with, as a share of what that took."""
    reached = next((point for point in fast["curve"] if point[2] <= slow["loss"]), None)
    return {
        "seed": slow["seed"],
        "classical_loss": slow["loss"],
        "classical_seconds": slow["seconds"],
        "speedrun_final_loss": fast["loss"],
        "speedrun_seconds": fast["seconds"],
        "reached_seconds": reached[1] if reached else None,
        "reached_steps": reached[0] if reached else None,
        "share": round(reached[1] / slow["seconds"], 4) if reached else None,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "speedrun")
    parser.add_names("--size", SIZES, default="30m")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--corpus", type=Path, default=Path("runs/python-corpus"), help="folder of the corpus and its shards")
    parser.add_argument("--folder", nargs="*", default=[], help="folders of packages to make the corpus of; what is installed by default")
    parser.add_argument("--tokens", type=at_least(0.0), default=0.0, help="millions that the classical recipe reads")
    parser.add_argument("--rate", type=at_least(0.0), default=0.0, help="classical learning rate to begin the search at")
    parser.add_argument("--no-search", dest="search", action="store_false", help="use that rate as it is")
    parser.add_argument("--share", type=at_least(0.0), default=0.32, help="of the classical recipe's seconds that the other gets")
    parser.add_argument("--classical", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the classical recipe to change")
    parser.add_argument("--speedrun", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the other to change")
    parser.add_argument("--record", type=Path, help="folder to write speedrun-SIZE.json to")
    options = parser.parse_args(arguments)
    Race(options, parser.command(options)).run()


if __name__ == "__main__":
    main()
