"""What context in the vectors of words is worth to a tagger: ELMo's layers against vectors that know none, on the Brown corpus.

python -m weft bench elmo --out runs/elmo --seeds 1 2 3 --record results/elmo_brown.json
A language model in both directions reads novels once; taggers then learn from a few tagged sentences, with all of its layers, its last
one, or only its vectors of words by themselves. Beside them are taggers with vectors that word2vec made of the same novels, with random
ones, and with their own. Data are found through WEFT_DATA. What has been done is kept in --out, and the same command goes on from there.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from weft.api import train
from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import measurements, write_record
from weft.convert.convert import convert
from weft.convert.vectors import files
from weft.convert.vectors.files import WordVectors
from weft.core.config import override
from weft.core.errors import DataError
from weft.data.annotated.sentences import Sentence
from weft.data.annotated.tagged import TaggedConfig
from weft.data.base import Problems
from weft.data.split import shuffled
from weft.evaluation.evaluate import evaluate
from weft.inference.neighbours import word_table
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.results import Baseline
from weft.runs.assemble import adopt
from weft.runs.load import load

BROWN = TaggedConfig(path="nltk/brown.zip", cut="-+*")
PRETRAIN = {
    "data.path": "novels/novels_18.tar.xz",
    "data.vocabulary": 8000,
    "data.validation": 0.02,
    "train.steps": 1500,
    "train.eval_every": 500,
    "train.save_every": 500,
    "optim.schedule.warmup": 100,
}
TAGGERS: dict[str, dict[str, Any]] = {
    "ELMo, all layers": {"model.representation": "mix"},
    "ELMo, last layer": {"model.representation": "last"},
    "ELMo, words alone": {"model.representation": "token"},
    "word2vec": {"train.embedding": "word2vec", "train.freeze_embedding": True},
    "random vectors": {"train.embedding": "random", "train.freeze_embedding": True},
    "own vectors": {},
}
"""What each tagger reads; vectors of words are those of a run in --out, and stay as they are; the last ones learn their own."""
VECTORS = {"data.path": PRETRAIN["data.path"], "data.validation": 0.0, "train.steps": 225, "train.eval_every": 0, "model.width": 100}
"""Static vectors of the same text: five epochs."""


def write(sentences: list[Sentence], path: Path) -> str:
    """A word, a tab and its tag on each line."""
    lines = ("".join(f"{word}\t{tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) for one in sentences)
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def sentences(options: Namespace) -> dict[str, list[Sentence]]:
    """Three parts of the corpus without a sentence in common: to learn from, to select by, and to report on."""
    everything = BROWN.read(BROWN.path, Problems())
    order, sizes = shuffled(len(everything), "elmo").tolist(), (options.sentences, *options.held_out)
    ends = [sum(sizes[: number + 1]) for number in range(3)]
    found = ([everything[i] for i in order[end - size : end]] for end, size in zip(ends, sizes, strict=True))
    return dict(zip(("train", "dev", "test"), found, strict=True))


def pretrained(folder: Path, changes: dict[str, Any]) -> Path:
    """The language model, trained now where it is not there yet."""
    return trained(override(find_recipe("elmo/pretrain"), {**PRETRAIN, **changes}), folder / "bilm")


def trained(recipe: Recipe, out: Path, init: str | None = None) -> Path:
    """A run, which goes on where it was cut."""
    run = train(recipe, out=out, init=init, progress=False)
    if run.trainer.step < recipe.train.steps and run.trainer.stop_reason.startswith("received"):
        raise DataError(f"{out} was stopped at step {run.trainer.step} of {recipe.train.steps}; the same command goes on")
    return out


def static(folder: Path) -> None:
    """Vectors of words of the same text, and random ones of the same words and spread, each as a run."""
    if (folder / "random").exists():
        return
    loaded = load(trained(override(find_recipe("word2vec/text"), VECTORS), folder / "word2vec"), "cpu")
    words, vectors = word_table(loaded.model, loaded.tokenizer)
    noise = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0)) * vectors.std()
    (folder / "random.bin").write_bytes(files.write(folder / "random.bin", WordVectors(words, noise.numpy())))
    convert(str(folder / "random.bin"), folder / "random")


def most_frequent_tags(parts: dict[str, list[Sentence]]) -> float:
    """What is right where each word has its most frequent tag of training, and an unknown one the commonest of all."""
    by_word: dict[str, Counter[str]] = {}
    for one in parts["train"]:
        for word, tag in zip(one.words, one.tags, strict=True):
            by_word.setdefault(word, Counter())[tag] += 1
    commonest = sum(by_word.values(), Counter()).most_common(1)[0][0]
    pairs = [pair for one in parts["test"] for pair in zip(one.words, one.tags, strict=True)]
    return sum((by_word[word].most_common(1)[0][0] if word in by_word else commonest) == tag for word, tag in pairs) / len(pairs)


def commonest_tag(parts: dict[str, list[Sentence]]) -> float:
    tag = Counter(tag for one in parts["train"] for tag in one.tags).most_common(1)[0][0]
    tags = [one for sentence in parts["test"] for one in sentence.tags]
    return tags.count(tag) / len(tags)


def tagged(name: str, seed: int, files: dict[str, str], bilm: Path, options: Namespace) -> dict[str, Any]:
    """One tagger, by the data that report."""
    with_elmo = "model.representation" in TAGGERS[name]
    changes = {
        "data": override(find_recipe("tagger/elmo" if with_elmo else "tagger/words").data, {"path": files["train"]}),
        "data.validation_path": files["dev"],
        "train.seed": seed,
        "train.log_every": 50,
        "train.steps": options.steps,
        "optim.lr": options.rate,
        "train.eval_every": max(1, options.steps // 2),
        "train.eval_examples": 0,
        **TAGGERS[name],
    }
    if "train.embedding" in changes:
        changes["train.embedding"] = str(options.out / changes["train.embedding"])
    made = override(find_recipe("tagger/elmo" if with_elmo else "tagger/words"), changes)
    init = str(bilm) if with_elmo else None
    out = options.out / f"{name.replace(', ', '-').replace(' ', '_')}-{seed}"
    begun = time.process_time()
    trained(adopt(made, init) if init else made, out, init)
    seconds = time.process_time() - begun
    found = evaluate(load(out), data={"path": files["test"], "validation_path": files["test"]})
    return {"tagger": name, "seed": seed, "examples": found.examples, "accuracy": found["accuracy"], "cpu_seconds": seconds}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "elmo")
    parser.add_argument("--out", type=Path, default=Path("runs/elmo"), help="folder of the runs")
    parser.add_argument("--sentences", type=int, default=2000, help="tagged sentences to learn from")
    parser.add_argument("--steps", type=int, default=600, help="steps of each tagger")
    parser.add_argument("--rate", type=float, default=1e-2, help="learning rate of the taggers")
    parser.add_argument("--pretraining", type=int, default=1500, help="steps of the language model")
    parser.add_argument("--bilm", type=Path, help="a run of elmo/pretrain to take instead of training one")
    parser.add_argument("--held-out", type=int, nargs=2, default=(500, 2000), help="sentences that select, and that report")
    parser.add_names("--taggers", TAGGERS, nargs="+", default=list(TAGGERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    parts, notes = sentences(options), options.out / "rows.jsonl"
    texts = {part: write(some, options.out / f"{part}.tsv") for part, some in parts.items()}
    bilm = options.bilm or pretrained(options.out, {"train.steps": options.pretraining})
    static(options.out)
    kept = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    rows = []
    for seed in options.seeds:
        for name in options.taggers:
            row = next((row for row in kept if (row["tagger"], row["seed"]) == (name, seed)), None)
            if row is None:
                row = tagged(name, seed, texts, bilm, options)
                with notes.open("a") as out:
                    print(json.dumps(row), file=out)
            rows.append(row)
            print(f"{name:20} seed {seed}: {row['accuracy']:.4f} in {row['cpu_seconds']:.0f} s of the processor", flush=True)
    baselines = (
        Baseline(name="commonest tag", value=commonest_tag(parts)),
        Baseline(name="most frequent tag of each word", value=most_frequent_tags(parts)),
    )
    for one in baselines:
        print(f"{one.name:32} {one.value:.4f}")
    if options.record:
        found = measurements(rows, ("tagger",), split="test", beside={"accuracy": {"better": "higher", "baselines": baselines}})
        details = {
            "bilm": {"step": load(bilm).metrics["step"], **(load(bilm).metrics.get("validation") or {})},
            "sentences": {part: len(some) for part, some in parts.items()},
        }
        write_record(options.record, found, **parser.run(options), recipe="tagger/elmo", details=details)


if __name__ == "__main__":
    main()
