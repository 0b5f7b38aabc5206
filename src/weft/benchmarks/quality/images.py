"""Generative models on real images: train, measure, draw a sheet of samples, over several seeds.

python -m weft bench images pixelcnn-mnist                            measured on images kept from training: to select
python -m weft bench images pixelcnn-mnist --seeds 1 2 3 --report     once, on the test images
python -m weft bench images pixelcnn-mnist --seconds 60 --report      what a minute of training gives
Real data are found through WEFT_DATA. The sheet of a run is its samples.png.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.arguments import Arguments, at_least, settings
from weft.benchmarks.record import measurements, write_record
from weft.core.config import override
from weft.core.errors import CapabilityError
from weft.evaluation.evaluate import evaluate
from weft.models.base import Samples, TranslatesImages, offers
from weft.recipes.base import recipe as find_recipe
from weft.report.samples import translated
from weft.results import Baseline, Published, compared
from weft.runs.assemble import adopt
from weft.runs.load import Loaded, load
from weft.training.hooks import Hook
from weft.training.trainer import Trainer
from weft.visual.grids import draw, png

Measure = Callable[[Loaded, dict[str, Any]], dict[str, float]]
"""What a measure of its own is: a loaded model and the changed settings of the data -> numbers by name."""
MEASURES: dict[str, str] = {}
"""Measures beyond the objective's own, by name: "module:function" of a Measure, imported when an experiment asks for it."""
TEST = {"validate_on": "test"}


@dataclass(frozen=True)
class Experiment:
    recipe: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Changes of the recipe."""
    report: dict[str, Any] = field(default_factory=lambda: dict(TEST))
    """Changes of the data settings that give the data that report; none where what is held out from training does."""
    measures: tuple[str, ...] = ()
    """Names in MEASURES, or metrics that are computed when named; "fid=extractor-mnist" is given the run of that experiment."""
    start: str = ""
    """Another experiment whose model it starts from."""
    checkpoint: str = ""
    """Which checkpoint is measured, as "@last"; the best one where none is named."""
    beside: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Target, baselines and published figures by metric, as a record's measurements have them."""
    expected: str = ""
    """What is hoped for, where words say it better."""


def beside(
    metric: str, target: float | None = None, published: float | None = None, source: str = "", note: str | None = None
) -> dict[str, dict[str, Any]]:
    """What stands beside a metric: what is hoped for, and what others have published."""
    theirs = {} if published is None else {"published": (Published(value=published, source=source, note=note),)}
    return {metric: {**({} if target is None else {"target": target}), **theirs}}


def chance(share: float, metric: str = "accuracy") -> dict[str, dict[str, Any]]:
    """What the commonest class of the test images reaches."""
    return {metric: {"baselines": (Baseline(name="commonest class", value=share, computed=True),)}}


def merged(*parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All of them, also where they speak of the same metric."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: {key: value for part in parts for key, value in part.get(name, {}).items()} for name in names}


DIAGONAL = "ResNet with a diagonal posterior"
RIGHT = beside("classified-mnist_extractor", 0.95)
EXPERIMENTS: dict[str, Experiment] = {
    "pixelcnn-mnist": Experiment("pixelcnn/mnist", beside=beside("loss", 82)),
    "gated_pixelcnn-mnist": Experiment("gated_pixelcnn/mnist", beside=beside("loss", 81)),
    "rbm-mnist": Experiment(
        "rbm/mnist",
        checkpoint="@last",
        beside=beside("log_likelihood", -90, -86.34, "Salakhutdinov & Murray (2008)"),
        expected="reverse estimate within 2",
    ),
    "maf-mnist": Experiment("maf/mnist", beside=beside("bits_per_dim", None, 1.89, "Papamakarios et al. (2017)")),
    "maf-mnist-margin": Experiment("maf/mnist", {"model.margin": 0.05}, expected="the same behind the logit that Dinh et al. (2017) took"),
    "realnvp-mnist": Experiment(
        "realnvp/mnist", beside=beside("bits_per_dim", None, 1.93, "Papamakarios et al. (2017)", "without convolutions")
    ),
    "realnvp-cifar10": Experiment("realnvp/cifar10", beside=beside("bits_per_dim", 4.0, 3.49, "Dinh et al. (2017)", "50,000 images")),
    "extractor-mnist": Experiment("classifier/mnist_extractor", beside=chance(0.1135)),
    "extractor-fashion": Experiment("classifier/fashion_extractor", beside=chance(0.1)),
    "extractor-cifar10": Experiment("classifier/cifar10_extractor", beside=chance(0.1)),
    "vae-mnist": Experiment(
        "vae/mnist",
        measures=("iwae=200", "fid=extractor-mnist"),
        beside=beside("loss", 87, 84.08, "Kingma et al. (2016)", DIAGONAL)
        | beside("iwae_200", None, 81.08, "Kingma et al. (2016)", f"-log p(x), {DIAGONAL}"),
    ),
    "vae-mnist-mlp": Experiment(
        "vae/mnist_mlp",
        measures=("iwae=1000",),
        beside=beside("loss", 100) | beside("iwae_1000", None, 86.76, "Burda et al. (2015)", "-log p(x)"),
    ),
    "vae-fashion": Experiment("vae/fashion", measures=("fid=extractor-fashion",)),
    "vae-cifar10": Experiment("vae/cifar10", measures=("fid=extractor-cifar10",)),
    "vae-conditional-mnist": Experiment(
        "vae/conditional_mnist",
        measures=("classified=extractor-mnist", "fid=extractor-mnist"),
        beside=RIGHT,
    ),
    "vae-m2-mnist": Experiment(
        "vae/m2_mnist",
        beside=merged(chance(0.1135), beside("accuracy", 0.88, 0.8803, "Kingma et al. (2014)", "an error of 11.97 ± 1.71 %")),
    ),
    "gan-ring": Experiment("gan/ring", report={}, expected="shown collapsing"),
    "gan-ring-minibatch": Experiment("gan/ring", {"model.minibatch_kernels": 16}, report={}, expected="more of the modes than without"),
    "wgan-ring": Experiment("wgan/ring", report={}),
    "wgan_gp-ring": Experiment("wgan_gp/ring", report={}, beside=beside("modes", 8) | beside("good", 0.9), expected="in 3 of 3 seeds"),
    "gan-mnist": Experiment("gan/mnist", measures=("fid=extractor-mnist",)),
    **{f"dcgan-{data}": Experiment(f"dcgan/{data}", measures=(f"fid=extractor-{data}",)) for data in ("mnist", "fashion", "cifar10")},
    **{f"wgan_gp-{data}": Experiment(f"wgan_gp/{data}", measures=(f"fid=extractor-{data}",)) for data in ("fashion", "cifar10")},
    "gan-conditional_mnist": Experiment(
        "gan/conditional_mnist",
        measures=("classified=extractor-mnist", "fid=extractor-mnist"),
        beside=RIGHT,
    ),
    "gan-semi_mnist": Experiment(
        "gan/semi_mnist", beside=merged(chance(0.1135), beside("accuracy", 0.95, 0.9907, "Salimans et al. (2016)", "an error of 0.93 %"))
    ),
    "bigan-mnist": Experiment(
        "bigan/mnist",
        measures=("nearest_neighbour",),
        checkpoint="@last",
        beside=merged(chance(0.1135, "nearest_neighbour"), beside("nearest_neighbour", 0.97, 0.9739, "Donahue et al. (2016)")),
    ),
    **{
        f"pix2pix-mnist{name}": Experiment("pix2pix/mnist", changes, measures=("translated=extractor-mnist",))
        for name, changes in (("", {}), ("-error", {"objective.adversarial_weight": 0.0}), ("-game", {"objective.l1_weight": 0.0}))
    },
    **{
        f"pix2pix-facades{name}": Experiment("pix2pix/facades", changes, report={}, checkpoint="@last")
        for name, changes in (("", {}), ("-error", {"objective.adversarial_weight": 0.0}), ("-game", {"objective.l1_weight": 0.0}))
    },
    **{
        f"cyclegan-mnist{name}": Experiment(
            "cyclegan/mnist", changes, measures=("translated=extractor-mnist",), checkpoint="@last", beside=hoped, expected=expected
        )
        for name, changes, hoped, expected in (
            ("", {}, beside("translated-mnist_extractor", 0.95), ""),
            ("-no_cycle", {"objective.cycle_weight": 0.0}, {}, "fails: the games alone do not ask for the content"),
        )
    },
}


class Limit(Hook):
    """Ends a training after so many seconds, so that what there is then can be measured."""

    def __init__(self, seconds: float):
        self.seconds, self.begin = seconds, time.monotonic()

    def after_step(self, trainer: Trainer) -> None:
        if time.monotonic() - self.begin > self.seconds and trainer.step < trainer.settings.steps:
            trainer.stop_reason = f"{self.seconds:g} seconds are over"


def trained(name: str, seed: int, folder: Path, changes: dict[str, Any], seconds: float = 0.0) -> str:
    """The run of an experiment, trained now where it is not finished; its last checkpoint where time was over before."""
    experiment = EXPERIMENTS[name]
    out = folder / f"{name}-{seed}"
    recipe = override(find_recipe(experiment.recipe), {"train.seed": seed, **experiment.settings, **changes})
    init = trained(experiment.start, seed, folder, {}) if experiment.start else None
    if init:
        recipe = adopt(recipe, init)
    made = train(recipe, out=out, init=init, extra=[Limit(seconds)] if seconds else [])
    short = made.trainer.step < recipe.train.steps and not recipe.train.patience
    if short and (made.signals.received or not seconds):
        raise SystemExit(f"{out}: {made.trainer.stop_reason}; the same command goes on from there")
    return f"{out}{'@last' if short else experiment.checkpoint}"


def measured(name: str, seed: int, folder: Path, changes: dict[str, Any], report: bool, seconds: float = 0.0) -> dict[str, Any]:
    """One seed of one experiment: all its metrics, and how long training and measuring took."""
    loaded, experiment = load(trained(name, seed, folder, changes, seconds)), EXPERIMENTS[name]
    out, data = folder / f"{name}-{seed}", experiment.report if report else {}
    begin = time.perf_counter()
    found = evaluate(loaded, data=data or None, batch=256)
    numbers = dict(found.metrics)
    for measure in experiment.measures:
        numbers |= find(measure)(loaded, data) if measure in MEASURES else requested(measure, loaded, data, folder)
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    times = {"train_seconds": last["seconds"], "measure_seconds": time.perf_counter() - begin}
    sheet(loaded, out / "samples.png", seed)
    size = sum(p.numel() for p in loaded.model.parameters())
    facts = {"experiment": name, "seed": seed, "parameters": size, "step": loaded.metrics["step"], "examples": found.examples}
    return {**facts, **times, **numbers}


def find(measure: str) -> Measure:
    module, _, function = MEASURES[measure].partition(":")
    found: Measure = getattr(importlib.import_module(module), function)
    return found


def requested(measure: str, loaded: Loaded, data: dict[str, Any], folder: Path) -> dict[str, float]:
    """A metric of `weft evaluate` that is computed when named; a network that it needs is trained now where it is not there yet."""
    metric, _, needed = measure.partition("=")
    argument = trained(needed, 1, folder, {}) if needed in EXPERIMENTS else needed
    return evaluate(loaded, f"{metric}={argument}", data=data or None, batch=256).metrics


def sheet(loaded: Loaded, path: Path, seed: int) -> None:
    """A hundred samples as one PNG, where the model draws images; or images with their translation and what it should be."""
    if offers(loaded.model, Samples):
        with contextlib.suppress(CapabilityError):  # it draws something else
            path.write_bytes(png(draw(loaded.model, 100, seed)))
    elif offers(loaded.model, TranslatesImages):
        path.write_bytes(png(translated(loaded), columns=6))


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "images")
    parser.add_names("experiments", EXPERIMENTS, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--report", action="store_true", help="measure on the data that report, not on those that select")
    parser.add_argument("--change", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the recipe to change")
    parser.add_argument("--seconds", type=at_least(0.0), default=0.0, help="end a training then, and measure what there is; 0 for no limit")
    parser.add_argument("--out", type=Path, default=Path("runs/images"), help="folder of the runs")
    parser.add_argument("--record", type=Path, help="folder to write a JSON file per experiment to")
    options = parser.parse_args(arguments)
    for name in options.experiments:
        rows = []
        for seed in options.seeds:
            rows.append(measured(name, seed, options.out, settings(options.change), options.report, options.seconds))
            print(json.dumps(rows[-1]), flush=True)
        tell(name, rows)
        if options.record:
            write_experiment(name, rows, options, parser)


FACTS = ("experiment", "parameters", "step")
"""Columns of a row that are no results."""


def write_experiment(name: str, rows: list[dict[str, Any]], options: Namespace, parser: Arguments) -> None:
    """The seeds of an experiment as a record."""
    experiment = EXPERIMENTS[name]
    split = "test" if options.report and experiment.report else "validation"
    numbers = [{key: value for key, value in row.items() if key not in FACTS} for row in rows]
    known = {"target", "published", *(("baselines",) if split == "test" else ())}
    beside = {metric: {key: own[key] for key in own if key in known} for metric, own in experiment.beside.items()}
    found = measurements(numbers, split=split, recipe=experiment.recipe, beside=beside)
    details = {"experiment": name, "parameters": rows[0]["parameters"], "steps": [row["step"] for row in rows]}
    details |= {"expected": experiment.expected} if experiment.expected else {}
    seconds = statistics.median(row["train_seconds"] + row["measure_seconds"] for row in rows)
    own = {**parser.run(options), "seconds": seconds, "changed": {**experiment.settings, **settings(options.change)}}
    write_record(options.record / f"images-{name}.json", found, **own, recipe=experiment.recipe, details=details)


def tell(name: str, rows: list[dict[str, Any]]) -> None:
    """Mean and spread of every number over the seeds."""
    for metric in [key for key, value in rows[0].items() if key != "seed" and not isinstance(value, str)]:
        values = [row[metric] for row in rows]
        spread = f" ± {statistics.stdev(values):.4g}" if len(values) > 1 else ""
        print(f"{name} {metric}: {statistics.fmean(values):.6g}{spread}", flush=True)
    experiment = EXPERIMENTS[name]
    if hoped := compared(measurements(rows, recipe=experiment.recipe, beside=experiment.beside).measurements, experiment.expected):
        print(f"{name} hoped for or published: {hoped}", flush=True)


if __name__ == "__main__":
    main()
