"""Train recipes on their embedded data and compare each with the number it must reach.

python -m demos [--all] [--only gan] [--seeds 1 2 3] [--record results]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import weft
from demos import notebooks, quickstart
from weft.benchmarks.record import measurements, write_record
from weft.results import Baseline


@dataclass(frozen=True)
class Demo:
    recipe: str
    metric: str
    bound: float
    better: Literal["min", "max"]
    """Whether the metric must be at most or at least the bound."""
    baselines: dict[str, float | tuple[float, float]]
    """What trivial methods reach."""
    in_ci: bool = True

    def reached(self, value: float) -> bool:
        return value <= self.bound if self.better == "min" else value >= self.bound


FRECHET: dict[str, float | tuple[float, float]] = {"independent pixels": 1.82, "real against real": (0.16, 0.20)}
DEMOS = [
    Demo("gpt/quickstart", "loss", 1.45, "min", {"characters by frequency": 3.2}),
    Demo("classifier/digits", "accuracy", 0.96, "max", {"commonest class": 0.134}),
    Demo("vae/digits", "loss", 19.5, "min", {"independent pixels": 25.45}),
    Demo("vae/semi_supervised", "accuracy", 0.80, "max", {"commonest class": 0.134}),
    Demo("vae/beta", "reconstruction", 21.0, "min", {"independent pixels": 25.45}, in_ci=False),
    Demo("vae/inpainting", "hidden_error", 0.06, "min", {"trained without hiding": 0.087, "mean image": 0.101}, in_ci=False),
    Demo("vae/conditional_digits", "loss", 17.0, "min", {"independent pixels of each class": 18.55}),
    Demo("vae/m2_digits", "accuracy", 0.80, "max", {"commonest class": 0.134}, in_ci=False),
    Demo("classifier/digits_extractor", "accuracy", 0.96, "max", {"commonest class": 0.134}, in_ci=False),
    Demo("gan/digits", "frechet_pixels", 0.7, "min", FRECHET),
    Demo("gan/conditional_digits", "frechet_pixels", 0.6, "min", FRECHET, in_ci=False),
    Demo("gan/semi_digits", "accuracy", 0.93, "max", {"commonest class": 0.134}, in_ci=False),
    Demo("dcgan/digits", "frechet_pixels", 0.8, "min", FRECHET),
    Demo("wgan_gp/digits", "frechet_pixels", 0.5, "min", FRECHET),
    Demo("bigan/digits", "reconstruction", 2.8, "min", {"mean image": 4.72}, in_ci=False),  # 2.86 on a CPU without bf16
    Demo("pix2pix/digits", "pixel_error", 0.08, "min", {"commonest grey inside and outside the outline": 0.094}),
    Demo("cyclegan/digits", "translation_error", 0.08, "min", {"mean image of the other domain": 0.129, "without the cycle": 0.128}),
    Demo("rbm/digits", "pseudo_log_likelihood", -14.0, "max", {"independent pixels": -24.94}),
    Demo("rbm/persistent", "pseudo_log_likelihood", -14.0, "max", {"independent pixels": -24.94}),
    Demo("boltzmann/digits", "completion_error", 0.18, "min", {"mean image": 0.2226}),
    Demo("hopfield/patterns", "recalled", 0.95, "max", {"as damaged": 0.8}),
    Demo("hopfield/digits", "recalled", 0.95, "max", {"as damaged": 0.8, "by Hebb's rule": 0.82}),
    Demo("realnvp/moons", "loss", 1.15, "min", {"one Gaussian": 1.92, "the true density": 0.98}),
    Demo("maf/moons", "loss", 1.10, "min", {"one Gaussian": 1.92, "the true density": 0.98}),
    Demo("iaf/lobes", "loss", 0.10, "min", {"one round Gaussian": 3.27, "one of two lobes": 0.69}),
    Demo("iaf/distilled", "loss", 1.40, "min", {"one Gaussian": 1.92}, in_ci=False),
    Demo("planar/lobes", "loss", 0.30, "min", {"one round Gaussian": 3.27, "one of two lobes": 0.69}),
    Demo("realnvp/digits", "loss", 95.0, "min", {"independent pixels": 108.1}, in_ci=False),
    Demo("maf/digits", "loss", 101.0, "min", {"independent pixels": 108.1}, in_ci=False),
    Demo("pixelcnn/digits", "loss", 19.0, "min", {"independent pixels": 25.45}),
    Demo("gated_pixelcnn/digits", "loss", 19.0, "min", {"independent pixels": 25.45}),
    Demo("word2vec/source", "loss", 2.58, "min", {"best score from frequencies alone": 2.684}),
    Demo("fasttext/classify", "accuracy", 0.5, "max", {"commonest class": 0.2}),
    Demo("elmo/pretrain", "perplexity", 330.0, "min", {"words by frequency": 640.0}, in_ci=False),
    Demo("speaker/voices", "accuracy", 0.9, "max", {"commonest class": 0.125}, in_ci=False),
    Demo("tagger/words", "accuracy", 0.9, "max", {"commonest tag": 0.44}),
    Demo("bert/pairs", "token_accuracy", 0.20, "max", {"commonest word": 0.068}),
    Demo("vit/digits", "accuracy", 0.96, "max", {"commonest class": 0.134}),
    Demo("swin/digits", "accuracy", 0.96, "max", {"commonest class": 0.134}, in_ci=False),
    Demo("transformer/numbers", "token_bleu", 97.0, "max", {"nothing is right by chance": 0.0}),
    Demo("pointer_generator/names", "exact", 0.95, "max", {"without copying": 0.0}),
    Demo("pointer/sort", "exact", 0.95, "max", {"an order at random, of five": 0.0083}),
    Demo("pointer/hull", "exact", 0.7, "max", {"nothing is right by chance": 0.0}, in_ci=False),
    Demo("rnn_seq2seq/reverse", "token_bleu", 97.0, "max", {"nothing is right by chance": 0.0, "without attention": 62.0}),
    Demo("rnn_seq2seq/numbers", "token_bleu", 97.0, "max", {"nothing is right by chance": 0.0}, in_ci=False),
    Demo("nat/numbers", "token_bleu", 85.0, "max", {"nothing is right by chance": 0.0}, in_ci=False),
    Demo("t5/text", "log_loss", 4.4, "min", {"tokens by frequency": 5.6}, in_ci=False),
    Demo("llama/python", "loss", 1.45, "min", {"characters by frequency": 3.2}, in_ci=False),
    Demo("lstm/python", "loss", 1.75, "min", {"characters by frequency": 3.2}),
    Demo("gpt/bytes", "bits_per_byte", 2.2, "min", {"bytes by frequency": 4.6}, in_ci=False),
]


def train(demo: Demo, seed: int, folder: Path) -> tuple[float, float]:
    """The validation metric of the best checkpoint, and the seconds a whole run takes."""
    begin = time.perf_counter()
    out = folder / f"{demo.recipe.replace('/', '-')}-{seed}"
    weft.train(weft.recipe(demo.recipe, {"train.seed": seed}), out=out, progress=False)
    value: float = weft.load(out).metrics["validation"][demo.metric]
    return value, time.perf_counter() - begin


def write(folder: Path, demo: Demo, seeds: list[int], values: list[float], seconds: list[float]) -> None:
    """The record of a recipe that was trained as it is."""
    rows = [{"seed": seed, demo.metric: value} for seed, value in zip(seeds, values, strict=True)]
    better = "lower" if demo.better == "min" else "higher"
    baselines = tuple(Baseline(name=name, value=value) for name, value in demo.baselines.items())
    beside = {demo.metric: {"target": demo.bound, "better": better, "baselines": baselines}}
    found = measurements(rows, split="validation", recipe=demo.recipe, beside=beside)
    path = folder / f"recipe-{demo.recipe.replace('/', '-')}.json"
    write_record(path, found, recipe=demo.recipe, command=f"weft train {demo.recipe}", seconds=statistics.median(seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every demo, not only those of CI")
    parser.add_argument("--only", default="", help="recipes whose name contains this")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--record", type=Path, help="folder to write a JSON file per recipe to")
    options = parser.parse_args()
    chosen = [d for d in DEMOS if (d.in_ci or options.all) and options.only in d.recipe]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for demo in chosen:
            values, seconds = zip(*(train(demo, seed, Path(folder)) for seed in options.seeds), strict=True)
            passed = all(map(demo.reached, values))
            failed += not passed
            shown = " ".join(f"{value:.4f}" for value in values)
            trivial = ", ".join(str(Baseline(name=name, value=value)) for name, value in demo.baselines.items())
            bound = f"{'<=' if demo.better == 'min' else '>='} {demo.bound}; {trivial}"
            print(f"{'ok' if passed else 'FAILED':6} {demo.recipe:20} {demo.metric} {shown} ({bound})  {max(seconds):.0f} s", flush=True)
            if options.record:
                write(options.record, demo, options.seeds, list(values), list(seconds))
        if options.only in "quickstart":
            failed += not quickstart.check(options.seeds, Path(folder), options.record)
        failed += notebooks.check(options.only, Path(folder) / "notebooks")
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
