"""Pointing and copying on embedded data, over several seeds: what generalises, and what does not.

python -m weft bench copying names --seeds 1 2 3 --record results/copying.json      names that were never seen, by several models
python -m weft bench copying sort hull --seeds 1 2 3 --record results/pointer.json  more inputs than in training, by several encoders
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import Row, measurements, write_record
from weft.core import config
from weft.core.config import override
from weft.data.base import DataLoader
from weft.data.text.introductions import CHINESE, ENGLISH, IntroductionsConfig
from weft.data.text.pairs import Pairs
from weft.inference.translate import answer
from weft.models.language.transformer import TransformerConfig
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import Loaded, load
from weft.training.hooks import evaluate

PLAIN = TransformerConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1)
"""The pointer-generator of the recipe without what copies."""
SUBWORDS = {"data.min_count": 1, "data.oov_words": 0, "data.max_length": 96}

VOCABULARY = 500
"""Pieces of words of BPE, of which names are made."""
PIECES = {"model": PLAIN, **SUBWORDS, "data.tokenizer": "byte_bpe", "data.vocabulary": VOCABULARY}


@dataclass(frozen=True)
class Contender:
    task: str
    recipe: str
    settings: dict[str, Any] = field(default_factory=dict)


CONTENDERS = {
    "pointer-generator": Contender("names", "pointer_generator/names"),
    "words": Contender("names", "pointer_generator/names", {"model": PLAIN, "data.oov_words": 0}),
    "words with placeholders": Contender("names", "pointer_generator/names", {"model": PLAIN}),
    "BPE": Contender("names", "pointer_generator/names", PIECES),
    "BPE, ten times as long": Contender("names", "pointer_generator/names", {**PIECES, "train.steps": 3000, "train.eval_every": 1000}),
    "characters": Contender("names", "pointer_generator/names", {"model": PLAIN, **SUBWORDS, "data.tokenizer": "characters"}),
    "set": Contender("sort", "pointer/sort"),
    "set, chosen not masked": Contender("sort", "pointer/sort", {"model.mask_chosen": False}),
    "recurrent, chosen masked": Contender("sort", "pointer/sort", {"model.encoder": "recurrent", "model.layers": 1}),
    "recurrent": Contender("sort", "pointer/sort", {"model.encoder": "recurrent", "model.layers": 1, "model.mask_chosen": False}),
    "attention": Contender("hull", "pointer/hull"),
    "recurrent encoder": Contender("hull", "pointer/hull", {"model.encoder": "recurrent", "model.layers": 1}),
}
TASKS = tuple(dict.fromkeys(each.task for each in CONTENDERS.values()))
LENGTHS = {"sort": (10, 20, 40), "hull": (10, 20)}
"""Inputs of the sequences that are tested; training has 5 to 10."""


def carried(loaded: Loaded, pairs: Pairs) -> Row:
    """Of pairs that were not trained on, the share of answers that are exact, and of names that stand where they belong."""
    said = answer(loaded.model, loaded.tokenizer, [source for source, _ in pairs.texts], beams=1, length_penalty=0.0)
    exact = names = right = 0
    for text, (_, wanted) in zip(said, pairs.texts, strict=True):
        exact += text == wanted
        mine, theirs = words_of(text), words_of(wanted)
        places = [place for place, word in enumerate(theirs) if word not in SENTENCES]
        names += len(places)
        right += sum(mine[place : place + 1] == theirs[place : place + 1] for place in places)
    return {"exact": exact / len(said), "name_accuracy": right / names, "examples": len(said)}


def words_of(text: str) -> list[str]:
    """Between spaces, without punctuation."""
    return [word.strip(",.!?") for word in text.split()]


SENTENCES = {word for pair in (*ENGLISH, *CHINESE) for sentence in pair for word in words_of(sentence)}
"""Words that are no names."""


def measured(name: str, seed: int, folder: Path, changes: dict[str, Any]) -> Iterator[Row]:
    """Train a contender, and test it on what it did not see."""
    contender = CONTENDERS[name]
    recipe = override(find_recipe(contender.recipe), {**contender.settings, "train.seed": seed, **changes})
    out = folder / f"{name.replace(' ', '_').replace(',', '')}-{seed}"
    train(recipe, out=out, progress=False)
    loaded, row = load(f"{out}@last", "cpu"), {"model": name, "task": contender.task, "seed": seed}
    if contender.task == "names":
        assert isinstance(recipe.data, IntroductionsConfig)
        held = recipe.data.build_with(loaded.tokenizer).validation
        assert isinstance(held, Pairs)
        yield {**row, **carried(loaded, held)}
        return
    for length in LENGTHS[contender.task]:
        data = config.override(recipe.data, {"min_length": length, "max_length": length, "seed": 1}).build()
        assert data.validation is not None
        source = DataLoader(data.validation, seed, next(loaded.model.parameters()).device, shuffle=False)
        objective = recipe.resolve(data.info).objective.build()
        found = evaluate(loaded.model, objective, source, len(data.validation), 100)
        kept: Row = {metric: found[metric] for metric in ("exact", "position_accuracy", "area", "simple") if metric in found}
        yield {**row, "length": length, "examples": len(data.validation), **kept}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "copying")
    parser.add_names("tasks", TASKS, nargs="+")
    parser.add_names("--models", CONTENDERS, nargs="+", default=list(CONTENDERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=0, help="of training, where not as the recipes say")
    parser.add_argument("--runs", type=Path, default=Path("runs/copying"), help="folder of the runs; what is finished is not repeated")
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    changes = {"train.steps": options.steps} if options.steps else {}
    rows: list[Row] = []
    for name in [name for name, each in CONTENDERS.items() if each.task in options.tasks and name in options.models]:
        for seed in options.seeds:
            for row in measured(name, seed, options.runs, changes):
                rows.append(row)
                print(
                    "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()),
                    flush=True,
                )
    if options.record:
        beside = {"exact": {"target": 0.95}}
        found = measurements(rows, of=("task", "model", "length"), split="validation", beside=beside)
        write_record(options.record, found, changed=changes, **parser.run(options))
