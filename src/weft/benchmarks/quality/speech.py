"""Spoken digits of speakers never heard: each of the Free Spoken Digit Dataset is left out in turn.

python -m weft bench speech --fsdd fsdd/recordings.tar.gz --seeds 1 2 3 --record results/speech_fsdd.json
python -m weft bench speech --fsdd fsdd/recordings.tar.gz --beside audiomnist/audiomnist_8k_48_speakers.tar --models audiomnist
python -m weft bench speech --fsdd fsdd/recordings.tar.gz --select     what to choose by: two speakers are left out at a time

The score is of the last step, never of the best on who is left out. Settings are chosen by `--select`: a pair is left out, and each of the
two is judged by a model that has heard neither, so that for every speaker there are scores of all others by models that never heard either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from weft.api import train
from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import Row, measurements, write_record
from weft.core import config
from weft.core.config import override
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.manifest import read_utterances
from weft.data.base import DataLoader, Problems
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import load
from weft.training.hooks import evaluate

RECIPE = "audio_classifier/digits"
PLAIN: dict[str, Any] = {"data.augment.speeds": (), "data.augment.noise": (), "data.augment.masks": 0}
ESPEAK: dict[str, Any] = {"data.espeak.number": 4500}
FORMANTS: dict[str, Any] = {"data.made_up.beside": True, "data.made_up.voices": 100}


@dataclass(frozen=True)
class Contender:
    settings: dict[str, Any] = field(default_factory=dict)
    beside: bool = False
    """Whether it also learns from the speakers of --beside."""


CONTENDERS = {
    "plain": Contender(PLAIN),
    "augmented": Contender(),
    "espeak": Contender(ESPEAK),
    "formants": Contender(FORMANTS),
    "espeak and formants": Contender({**ESPEAK, **FORMANTS}),
    "audiomnist": Contender({**ESPEAK, **FORMANTS}, beside=True),
}


def speakers_of(path: str) -> list[str]:
    return sorted({each.speaker for each in read_utterances(path, Problems())})


def measured(name: str, left: Sequence[str], seed: int, options: Any, changes: dict[str, Any]) -> Iterator[Row]:
    """Train without some speakers, and test on each of them."""
    contender = CONTENDERS[name]
    own = dict(contender.settings)
    speaks = bool(options.spoken and own.pop("data.espeak.number", 0))
    path = ",".join([options.fsdd, *([options.beside] if contender.beside else []), *([options.spoken] if speaks else [])])
    made = find_recipe(RECIPE)
    settings = {"data.path": path, "data.validation": 0.0, "data.without_speakers": tuple(left), "train.seed": seed, "train.eval_every": 0}
    recipe = override(made, {**own, "train.steps": 3000, "train.batch": 64, **settings, **changes})
    out = options.runs / f"{name.replace(' ', '_')}-{'-'.join(left)}-{seed}"
    train(recipe, out=out, progress=False)
    loaded = load(f"{out}@last", options.device)
    device = next(loaded.model.parameters()).device
    assert isinstance(recipe.data, ClipsConfig)
    for speaker in left:
        others = tuple(each for each in speakers_of(options.fsdd) if each != speaker)
        asked = {"path": options.fsdd, "validation_path": options.fsdd, "without_speakers": others}
        data = config.override(recipe.data, asked).build_with(loaded.tokenizer)
        assert data.validation is not None
        objective = recipe.resolve(data.info).objective.build()
        found = evaluate(loaded.model, objective, DataLoader(data.validation, 0, device, shuffle=False), len(data.validation), 100)
        labels = data.validation.batch(torch.arange(len(data.validation)), torch.arange(len(data.validation)))["label"]
        row = {"model": name, "speaker": speaker, "seed": seed, "examples": len(labels), "accuracy": found["accuracy"]}
        row["majority_class"] = float(labels.bincount().max()) / len(labels)
        yield row | ({"without": "+".join(each for each in left if each != speaker)} if len(left) > 1 else {})


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "speech")
    parser.add_argument("--fsdd", required=True, help="recordings of the Free Spoken Digit Dataset: a folder or an archive")
    parser.add_argument("--beside", default="", help="other recordings to learn from, such as AudioMNIST's")
    parser.add_argument("--spoken", default="", help="recordings of espeak-ng, named as FSDD's, where the program itself is not installed")
    parser.add_names("--models", CONTENDERS, nargs="+", default=["plain", "augmented", "espeak"])
    parser.add_argument("--speakers", nargs="+", default=[], help="whom to leave out; by default each")
    parser.add_argument("--select", action="store_true", help="leave out two speakers at a time, to choose settings by")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=0, help="of training, where not 3,000")
    parser.add_argument("--channels", type=int, nargs="+", default=[], help="of the model, where not as the recipe says")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--runs", type=Path, default=Path("runs/speech"), help="folder of the runs; what is finished is not repeated")
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    speakers = speakers_of(options.fsdd)
    if unknown := [name for name in options.speakers if name not in speakers]:
        parser.error(f"--speakers: there is no {unknown[0]} among {', '.join(speakers)}")
    if not options.beside and any(CONTENDERS[name].beside for name in options.models):
        parser.error("--beside: name the recordings that `audiomnist` also learns from")
    changes: dict[str, Any] = {"train.device": options.device}
    changes |= {"train.steps": options.steps} if options.steps else {}
    changes |= {"model.channels": tuple(options.channels)} if options.channels else {}
    left = [pair for pair in combinations(speakers, 2) if not options.speakers or {*pair} & {*options.speakers}]
    groups = left if options.select else [(each,) for each in options.speakers or speakers]
    rows: list[Row] = []
    for name in options.models:
        for seed in options.seeds:
            for group in groups:
                for row in measured(name, group, seed, options, changes):
                    rows.append(row)
                    show(row)
    rows += [summed for name in options.models for seed in options.seeds for summed in over_speakers(rows, name, seed)]
    if options.record:
        beside = {"mean_accuracy": {"target": 0.9}, "worst_accuracy": {"target": 0.8}}
        found = measurements(rows, of=("model", "speaker", "without"), split="test", beside=beside)
        write_record(options.record, found, changed=changes, **parser.run(options))


def over_speakers(rows: list[Row], name: str, seed: int) -> Iterator[Row]:
    """The mean over speakers, and the worst of them."""
    own = [row for row in rows if (row["model"], row["seed"]) == (name, seed)]
    each = {who: [row["accuracy"] for row in own if row["speaker"] == who] for who in dict.fromkeys(row["speaker"] for row in own)}
    means = [sum(found) / len(found) for found in each.values()]
    summed = {"model": name, "seed": seed, "mean_accuracy": sum(means) / len(means), "worst_accuracy": min(means)}
    show(summed)
    yield summed


def show(row: Row) -> None:
    print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()), flush=True)
