"""Multi30k from English to German by recurrent models and a Transformer, over several seeds, on the scale of the papers about it.

python -m weft bench translation rnn rnn-fixed transformer --seeds 1 2 3 --jobs 9 --minutes 9   trains side by side; again to go on
python -m weft bench translation rnn-risk rnn-risk-constant --seeds 1 2 3 --jobs 6              begins from the runs above
python -m weft bench translation rnn rnn-fixed transformer --seeds 1 2 3 --report --record results/translation.json

Which checkpoint of a run counts is chosen on the validation data; --report searches the test sentences of 2016 with it, once. bleu_lc is
BLEU of lower-cased, normalised and tokenised text (Moses), as the papers have it; bleu is that of sacrebleu's 13a, cased, of the text as it
is.
Real data are found through WEFT_DATA.
"""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.arguments import Arguments, settings
from weft.benchmarks.quality.side_by_side import side_by_side
from weft.benchmarks.record import Row, measurements, write_record
from weft.core.config import override
from weft.data.base import Problems
from weft.data.text.pairs import PairsConfig
from weft.evaluation.evaluate import evaluate
from weft.evaluation.translation import bleu
from weft.objectives.language.scheduled_sampling import ScheduledSamplingConfig
from weft.recipes.base import recipe as find_recipe
from weft.results import Baseline, Measurement
from weft.runs import record
from weft.runs.assemble import adopt
from weft.training.checkpoint import checkpoint

TEST = {"path": "multi30k/test_2016_flickr.en.gz", "target_path": "multi30k/test_2016_flickr.de.gz"}
MOSES = "moses-de"
PAPERS = {"lowercase": True, "tokenize": MOSES}
LOWERED = f"bleu_lc_{MOSES}"
"""How evaluation names what these settings ask for, the scale of the papers."""
CANDIDATES = ("", "@average5", "@average10")
"""Checkpoints of a run: the best of those that were validated, and mean weights of the last few."""
LENGTHS = (8, 11, 14, 18)
"""Most words of a source in each class of lengths but the last."""
LESS = {"train.eval_every": 1000, "train.save_every": 250, "train.keep_checkpoints": 12}
"""Searching the validation sentences takes as long as hundreds of updates."""
MORE = {"train.steps": 2000, "train.eval_every": 500, "train.save_every": 100, "train.keep_checkpoints": 12, "optim.lr": 5e-4}
"""Of a run that goes on from a trained one."""
RISK = {"train.eval_every": 250, "train.save_every": 100, "train.keep_checkpoints": 12}


@dataclass(frozen=True)
class Contender:
    recipe: str
    settings: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    """The contender whose run of the same seed it begins from."""
    target: float | None = None
    """BLEU on the scale of the papers that is hoped for."""


SCHEDULED = ScheduledSamplingConfig(decay="linear", decay_steps=4000.0, min_epsilon=0.5)
CONTENDERS = {
    "rnn": Contender("rnn_seq2seq/multi30k", LESS, target=38.0),
    "rnn-fixed": Contender("rnn_seq2seq/multi30k", {**LESS, "model.attention": "none", "model.input_feeding": False}),
    "transformer": Contender("transformer/multi30k", LESS, target=41.0),
    "rnn-risk": Contender("rnn_seq2seq/multi30k_risk", RISK, "rnn"),
    "rnn-risk-constant": Contender("rnn_seq2seq/multi30k_risk", {**RISK, "objective.reward": "constant"}, "rnn"),
    "transformer-risk": Contender("transformer/multi30k_risk", RISK, "transformer"),
    "transformer-risk-constant": Contender("transformer/multi30k_risk", {**RISK, "objective.reward": "constant"}, "transformer"),
    "rnn-scheduled": Contender("rnn_seq2seq/multi30k", {**MORE, "objective": SCHEDULED}, "rnn"),
    "rnn-continued": Contender("rnn_seq2seq/multi30k", {**MORE, "objective.r_drop": 0.0}, "rnn"),
}


def trained(name: str, seed: int, options: Namespace) -> Path:
    """The finished run of a contender, trained now where it is not there yet, or further where it was interrupted."""
    contender, out = CONTENDERS[name], folder(name, seed, options)
    recipe = override(find_recipe(contender.recipe), {**contender.settings, "train.seed": seed, **settings(options.change)})
    init = None
    if contender.start:
        begun = folder(contender.start, seed, options, label="")
        if not finished(begun):
            raise SystemExit(f"{out} begins from {begun}, which is not finished; first: weft bench translation {contender.start}")
        init = f"{begun}{chosen(begun)[0]}"
        recipe = adopt(recipe, init)
    made = train(recipe, out=out, init=init, progress=False)
    if made.trainer.step < recipe.train.steps:
        raise SystemExit(f"{out}: {made.trainer.stop_reason}; the same command goes on from there")
    return out


def folder(name: str, seed: int, options: Namespace, label: str | None = None) -> Path:
    label = options.label if label is None else label
    out: Path = options.out / "-".join(filter(None, [name, label, str(seed)]))
    return out


def finished(run: Path) -> bool:
    there = record.recipe_of(run)
    return bool(there) and checkpoint.saved_step(run) == there["train"]["steps"]


def chosen(run: Path) -> tuple[str, dict[str, float]]:
    """The best candidate on the validation data, and BLEU of each there; searched once."""
    here = [each for each in CANDIDATES if not each or len(checkpoint.folders(run)) >= int(each.removeprefix("@average"))]
    scores: dict[str, float] = once(
        run / f"chosen-{checkpoint.saved_step(run)}.json",
        lambda: {each: evaluate(f"{run}{each}", settings=PAPERS)[LOWERED] for each in here},
    )
    return max(scores, key=lambda each: scores[each]), scores


def once(path: Path, find: Callable[[], Any]) -> Any:
    """What was found before, else now."""
    if not path.exists():
        path.write_text(json.dumps(find(), ensure_ascii=False))
    return json.loads(path.read_text())


def measured(name: str, seed: int, options: Namespace) -> list[Row]:
    """What one run reaches: on validation data, and where they are to be reported on test sentences, by the length of the source too."""
    run = trained(name, seed, options)
    best, scores = chosen(run)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    row: Row = {"model": name, "seed": seed, "checkpoint": best.lstrip("@") or "best", "train_seconds": last["seconds"]}
    rows = [{**row, "bleu_validation": scores[best]}]
    for label, data in (tests(options) if options.report else {}).items():
        found = once(run / f"{label}.json", partial(reported, f"{run}{best}", data))
        rows += [{"model": name, "seed": seed, "test": label, **each} for each in found]
    return rows


def reported(path: str, data: dict[str, str]) -> list[Row]:
    """BLEU of a checkpoint on test sentences, of all and by the length of the source."""
    found = evaluate(path, data=data, settings=PAPERS)
    whole = {"examples": found.examples, "bleu_lc": found[LOWERED], **{name: found[name] for name in ("bleu", "chrf", "exact")}}
    assert found.findings is not None
    return [whole, *by_length(json.loads(found.findings.content)["translations"])]


def gained(rows: list[Row], options: Namespace) -> list[Row]:
    """How much more BLEU each run has than the one that it began from."""
    found = []
    for row in rows:
        start = CONTENDERS[row["model"]].start
        before = folder(start, row["seed"], options, label="") / f"{row.get('test')}.json"
        if start and "words" not in row and "bleu_lc" in row and before.exists():
            gain = row["bleu_lc"] - json.loads(before.read_text())[0]["bleu_lc"]
            found.append({"model": row["model"], "seed": row["seed"], "test": row["test"], "bleu_lc_gained": gain})
    return found


def tests(options: Namespace) -> dict[str, dict[str, str]]:
    """Sentences to report on, by their name; the first are those of 2016."""
    found = {"test_2016_flickr": TEST}
    if options.also:
        found[Path(options.also[0]).name.partition(".")[0]] = dict(zip(("path", "target_path"), options.also, strict=True))
    return found


def by_length(pairs: list[dict[str, str]]) -> list[Row]:
    """BLEU as the papers have it, of sources in classes by their number of words."""
    rows: list[Row] = []
    for low, high in zip((0, *LENGTHS), (*LENGTHS, None), strict=True):
        held = [pair for pair in pairs if low < len(pair["source"].split()) <= (high or 1 << 30)]
        if held:
            score, _ = bleu([pair["translation"] for pair in held], [pair["reference"] for pair in held], True, MOSES)
            words = f"{low + 1} to {high}" if high else f"{low + 1} and more"
            rows.append({"words": words, "examples": len(held), "bleu_lc": score})
    return rows


def copied() -> float:
    """What the sources themselves would have as translations of 2016."""
    pairs = PairsConfig().read(TEST["path"], TEST["target_path"], Problems())
    return bleu([source for source, _ in pairs], [target for _, target in pairs], True, MOSES)[0]


def with_target(one: Measurement, baseline: float) -> Measurement:
    """With the bar of a contender on the test sentences of 2016, and what is trivial there."""
    if one.metric != "bleu_lc" or one.of.get("test") != "test_2016_flickr" or "words" in one.of:
        return one
    trivial = Baseline(name="the source itself", value=baseline, computed=True)
    return dataclasses.replace(one, target=CONTENDERS[str(one.of["model"])].target, baselines=(trivial,))


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "translation")
    parser.add_names("models", CONTENDERS, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--change", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the recipes to change")
    parser.add_argument("--label", default="", help="put into the names of the runs, where others have them already")
    parser.add_argument("--out", type=Path, default=Path("runs/translation"), help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs that train at once, each in a process of its own")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop processes after so long; the same command goes on. 0: never")
    parser.add_argument("--report", action="store_true", help="search the test sentences too")
    parser.add_argument("--also", nargs=2, metavar=("SOURCES", "TARGETS"), help="two more files of sentences to report on")
    parser.add_argument("--record", type=Path, help="file to write the record to, with --report")
    options = parser.parse_args(arguments)
    pairs = [(name, seed) for name in options.models for seed in options.seeds]
    if options.jobs > 1 or options.minutes:
        side_by_side({f"{name}-{seed}": alone(name, seed, options) for name, seed in pairs}, options.jobs, options.minutes, options.out)
    rows = [row for name, seed in pairs for row in measured(name, seed, options)]
    rows += gained(rows, options)
    for row in rows:
        print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()), flush=True)
    if options.record:
        splits = {"bleu_validation": "validation", **dict.fromkeys(("bleu_lc", "bleu_lc_gained", "bleu", "chrf", "exact"), "test")}
        found, trivial = measurements(rows, of=("model", "test", "words"), split=splits), copied()
        found = dataclasses.replace(found, measurements=tuple(with_target(one, trivial) for one in found.measurements))
        write_record(options.record, found, changed=settings(options.change), **parser.run(options))


def alone(name: str, seed: int, options: Namespace) -> list[str]:
    """The words of a command that trains and measures one run."""
    changes = ["--change", *options.change] if options.change else []
    label = ["--label", options.label] if options.label else []
    also = ["--also", *options.also] if options.also else []
    report = ["--report"] * options.report
    return ["bench", "translation", name, "--seeds", str(seed), "--out", str(options.out), *label, *changes, *also, *report]


if __name__ == "__main__":
    main()
