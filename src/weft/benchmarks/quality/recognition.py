"""Recognition of digits by speakers never heard: strings of AudioMNIST's speakers, and FSDD's speakers one by one, over several seeds.

weft bench recognition strings --audiomnist audiomnist.tar --seeds 0 1 2 --jobs 9 --record results/recognition_strings.json
weft bench recognition speakers --fsdd recordings.tar.gz --audiomnist audiomnist.tar --jobs 15 --record results/recognition_fsdd.json

strings: 10 of AudioMNIST's 48 speakers are set aside; single digits of theirs, and strings of 3 to 8 with gaps of 0 to 300 ms and noise of
10 to 20 dB, in English or as German or Chinese words. speakers: each of FSDD's is left out in turn; the others are learned from, and
--more recordings and AudioMNIST's where these are given. Checkpoints are chosen by training speakers held out for that, never by those who
are tested.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import Row, measurements, write_record
from weft.core.errors import ConfigError
from weft.data.audio.manifest import Utterance, read_utterances
from weft.data.base import Problems
from weft.data.split import shuffled

RECIPES = {"ctc": "conformer_ctc/digits", "rnnt": "transducer/digits", "attention": "conformer_aed/digits"}
ENCODER = {"layers": 6, "heads": 4, "width": 144, "ffn_width": 576, "kernel": 15, "subsampling": 4}
TRAINING = {
    "data.augment.speeds": (0.85, 0.925, 1.0, 1.075, 1.15),
    "data.augment.gain": 6.0,
    "data.augment.noise": (10.0, 30.0),
    "data.augment.masks": 2,
    "optim.lr": 1e-3,
    "train.compile": "off",
    "train.eval_examples": 400,
}
STRINGS = {"data.strings.shortest": 1, "data.strings.longest": 8, "data.strings.gap": 0.3, "data.strings.noise": (10.0, 20.0)}
TESTED = {"strings.number": 1000, "strings.shortest": 3, "strings.longest": 8, "strings.gap": 0.3, "strings.noise": (10.0, 20.0)}
SET_ASIDE, CHOSEN_BY = 10, 4
"""Speakers who are tested, and of the others those by whom a checkpoint is chosen."""


@dataclass(frozen=True)
class Job:
    """A training, and what is tested of it."""

    task: str
    kind: str
    seed: int
    speaker: str
    """Who is left out; empty for those set aside."""
    language: str
    train: str
    chosen: str
    tests: tuple[tuple[str, str], ...]
    """Names and manifests."""
    out: str
    steps: int
    strings: int
    device: str


def speakers_of(utterances: Sequence[Utterance]) -> list[str]:
    return sorted({each.speaker for each in utterances})


def manifest(path: Path, utterances: Sequence[Utterance]) -> str:
    """A table of sounds, with those that came out of an archive beside it."""
    folder = path.with_suffix("")
    rows = []
    for number, each in enumerate(utterances):
        place = each.place
        if isinstance(place, bytes):
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{number}{Path(each.name).suffix}"
            file.write_bytes(place)
            place = file
        rows.append({"path": str(Path(place).absolute()), "text": each.text, "speaker": each.speaker})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def heard(path: str, prefix: str = "") -> list[Utterance]:
    """Sounds with names of speakers that no other source has."""
    return [
        Utterance(each.place, each.name, each.text, f"{prefix}{each.speaker}") for each in read_utterances(path, Problems()) if each.speaker
    ]


def parted(utterances: Sequence[Utterance], speakers: Sequence[str]) -> tuple[list[Utterance], list[Utterance]]:
    """Those of other speakers, and those of these."""
    held = set(speakers)
    return [each for each in utterances if each.speaker not in held], [each for each in utterances if each.speaker in held]


def some(names: Sequence[str], number: int, purpose: str) -> list[str]:
    """So many speakers, the same each time."""
    return [names[i] for i in shuffled(len(names), purpose)[:number].tolist()]


def jobs_of_strings(options: Any, folder: Path) -> list[Job]:
    every = heard(options.audiomnist)
    train, tested = parted(every, some(speakers_of(every), SET_ASIDE, "set aside"))
    learned, chosen = parted(train, some(speakers_of(train), CHOSEN_BY, "chosen by"))
    tables = [manifest(folder / f"{name}.jsonl", part) for name, part in (("learned", learned), ("chosen", chosen), ("tested", tested))]
    tests = [("set aside", tables[2])]
    if options.fsdd:
        tests.append(("fsdd", manifest(folder / "fsdd.jsonl", heard(options.fsdd, "fsdd-"))))
    return [
        Job("strings", kind, seed, "", options.language, tables[0], tables[1], tuple(tests), *common(options, folder, f"{kind}-{seed}"))
        for kind in options.kinds
        for seed in options.seeds
    ]


def jobs_of_speakers(options: Any, folder: Path) -> list[Job]:
    fsdd = heard(options.fsdd, "fsdd-")
    more = [each for number, path in enumerate(options.more) for each in heard(path, f"more{number}-")]
    if options.audiomnist:
        more += heard(options.audiomnist, "audiomnist-")
    found: list[Job] = []
    for speaker in speakers_of(fsdd):
        others, tested = parted(fsdd, [speaker])
        learned, chosen = parted(others, some(speakers_of(others), 1, f"chosen without {speaker}"))
        if more:
            left, further = parted(more, some(speakers_of(more), CHOSEN_BY, "chosen by"))
            learned, chosen = learned + left, chosen + further
        parts = ((f"learned-{speaker}", learned), (f"chosen-{speaker}", chosen), (f"tested-{speaker}", tested))
        tables = [manifest(folder / f"{name}.jsonl", part) for name, part in parts]
        tests = (("left out", tables[2]),)
        for kind in options.kinds:
            for seed in options.seeds:
                rest = common(options, folder, f"{speaker}-{kind}-{seed}")
                found.append(Job("speakers", kind, seed, speaker, "en", tables[0], tables[1], tests, *rest))
    return found


def common(options: Any, folder: Path, name: str) -> tuple[str, int, int, str]:
    return str(folder / f"{name}-{options.language}"), options.steps, options.strings, options.device


def done(job: Job) -> list[Row]:
    """Train, and test on single digits and on strings."""
    from weft.api import train
    from weft.core.config import override
    from weft.evaluation.evaluate import evaluate
    from weft.recipes.base import recipe as find_recipe

    sizes = {f"model.{name}": value for name, value in ENCODER.items()}
    changes = {
        **TRAINING,
        **STRINGS,
        **sizes,
        "data.path": job.train,
        "data.validation_path": job.chosen,
        "data.strings.number": job.strings,
        "data.strings.language": job.language,
        "train.seed": job.seed,
        "train.steps": job.steps,
        "train.eval_every": max(1, job.steps // 8),
        "train.device": job.device,
    }
    train(override(find_recipe(RECIPES[job.kind]), changes), out=job.out, progress=False)
    rows: list[Row] = []
    for name, table in job.tests:
        for what, settings in (("single", {"strings.number": 0}), ("strings", TESTED)):
            found = evaluate(job.out, data={"path": table, **settings}).metrics
            kept = {metric: found[metric] for metric in ("wer", "cer", "exact", "commonest_wer", "commonest_exact")}
            about = {"task": job.task, "kind": job.kind, "tested": name, "what": what, "speaker": job.speaker, "seed": job.seed}
            rows.append({**about, "language": job.language, **kept})
    return rows


def summary(rows: Sequence[Row]) -> list[str]:
    """Mean and worst of each kind."""
    lines = []
    for key in dict.fromkeys((row["kind"], row["tested"], row["what"]) for row in rows):
        own = [row for row in rows if (row["kind"], row["tested"], row["what"]) == key]
        speakers = dict.fromkeys(row["speaker"] for row in own)
        exact = [statistics.mean(row["exact"] for row in own if row["speaker"] == speaker) for speaker in speakers]
        wer = statistics.mean(row["wer"] for row in own)
        lines.append(f"{' '.join(key)}: exact {statistics.mean(exact):.4f}, worst {min(exact):.4f}, WER {wer:.4f}, runs {len(own)}")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "recognition")
    parser.add_names("task", ("strings", "speakers"))
    parser.add_names("--kinds", RECIPES, nargs="+", default=[*RECIPES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--audiomnist", default="", help="folder or archive of AudioMNIST")
    parser.add_argument("--fsdd", default="", help="folder or archive of the Free Spoken Digit Dataset")
    parser.add_argument("--more", nargs="*", default=[], help="further recordings of digits to learn from, such as a synthesiser's")
    parser.add_argument("--language", choices=("en", "de", "zh"), default="en", help="of the words that strings are written in")
    parser.add_argument("--steps", type=at_least(1), default=3000, help="of training")
    parser.add_argument("--strings", type=at_least(1), default=20000, help="to train on")
    parser.add_argument("--jobs", type=at_least(1), default=1, help="trainings at once")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--runs", type=Path, default=Path("runs/recognition"), help="folder of the runs; what is finished is not repeated")
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    needed = "fsdd" if options.task == "speakers" else "audiomnist"
    if not getattr(options, needed):
        raise ConfigError(f"weft bench recognition {options.task} needs the recordings; name them with --{needed}")
    folder = options.runs / options.task
    jobs = (jobs_of_speakers if options.task == "speakers" else jobs_of_strings)(options, folder)
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(done, jobs) if options.jobs > 1 else map(done, jobs):
            for row in found:
                rows.append(row)
                print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))
    print("\n".join(summary(rows)), flush=True)
    if options.record:
        of = ("task", "kind", "tested", "what", "speaker", "language")
        write_record(options.record, measurements(rows, of=of, split="test"), **parser.run(options))


if __name__ == "__main__":
    main()
