"""Analogies by vectors of weft and of gensim behind as many epochs of the same text."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.words.peer import Peer
from weft.benchmarks.words.speed import recipe_of
from weft.convert.convert import convert
from weft.core.config import override
from weft.core.errors import DataError
from weft.evaluation.words import ANALOGIES, run
from weft.runs.load import load

Row = dict[str, Any]
WIDTH, WORDS = 200, 30_000
EPOCHS = {"skip_gram": 5, "cbow": 10}


def steps_of(epochs: int, passages: int, batch: int) -> int:
    return -(-epochs * passages // batch)


def score(folder: Path, questions: Path) -> dict[str, Any]:
    """Share of right answers, as weft's own task tells it, and beside it what random vectors and the most frequent word have."""
    found = run(load(folder, "cpu"), "analogies", ANALOGIES, str(questions), WORDS)
    return {"examples": found.examples, **found.metrics}


def measured(options: Namespace, corpus: Path, peer: Peer | None) -> Iterator[Row]:
    if options.questions is None:
        raise DataError("--parts analogies: name the file of questions with --questions questions-words.txt")
    for architecture in options.architectures:
        epochs = EPOCHS[architecture]
        about = {"part": "analogies", "architecture": architecture, "epochs": epochs, "width": WIDTH}
        for seed in options.seeds:
            of = {"contender": "weft", "device": options.device, **({"length": options.length} if options.length else {}), "seed": seed}
            yield {**about, **of, **own(architecture, epochs, seed, corpus, options)}
        if peer:
            yield {**about, "contender": "gensim", "seed": 1, **theirs(architecture, epochs, corpus, peer, options)}


def own(architecture: str, epochs: int, seed: int, corpus: Path, options: Namespace) -> Row:
    """A run of the recipe, which goes on where it was cut."""
    changes = {"model.width": WIDTH, "train.seed": seed, "train.save_every": 100}
    recipe = recipe_of(architecture, corpus, options, **changes)
    recipe = override(recipe, {"train.steps": steps_of(epochs, len(recipe.data.build().train), recipe.train.batch)})
    out, begin = options.out / f"{architecture}-{options.device}-{options.length}-{seed}", time.perf_counter()
    trained = train(recipe, out=out, progress=False)
    if trained.trainer.step < recipe.train.steps:
        raise DataError(f"{out} was stopped at step {trained.trainer.step} of {recipe.train.steps}; the same command goes on")
    return {**score(out, options.questions), "train_seconds": time.perf_counter() - begin}


def theirs(architecture: str, epochs: int, corpus: Path, peer: Peer, options: Namespace) -> Row:
    """gensim's vectors by weft's task, and what its own says of them."""
    out = options.out / f"gensim-{architecture}"
    given = {"corpus": str(corpus), "skip_gram": architecture == "skip_gram", "width": WIDTH, "epochs": epochs, "until": epochs}
    answer = peer.ask("train", **given, out=str(out))
    convert(str(out / "vectors.bin"), out / "run")
    said = peer.ask("analogies", path=str(out / "vectors.bin"), questions=str(options.questions), words=WORDS)
    return {**score(out / "run", options.questions), "gensim_accuracy": said["accuracy"], "cpu_seconds": answer["cpu_seconds"]}
