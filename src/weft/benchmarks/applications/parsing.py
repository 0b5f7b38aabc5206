"""Parsing the sample of the Penn Treebank that nltk has, by article, beside a PCFG of the same trees and right-branching ones."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from weft.benchmarks.applications.base import Contender, Files, Task, metrics
from weft.benchmarks.applications.pcfg import PCFG, parsed
from weft.benchmarks.record import Row
from weft.data.base import Problems
from weft.data.io.archives import read_members
from weft.data.io.files import locate
from weft.data.tokenizers.word_shapes import WordShapes
from weft.data.trees.brackets import Tree, cleaned, parse, parse_all, right_branching, written
from weft.evaluation.brackets import agreement
from weft.runs.load import Loaded

TREEBANK = "treebank/treebank.zip"
SHORT = 15
"""Words of the longest sentence of the small form."""
SEARCH = {"objective.beams": 8}
EVERY = {"train.eval_every": 500, "train.save_every": 500, "train.log_every": 100, "train.eval_examples": 0, "objective.beams": 8}
MODEL = {"model.layers": 3, "model.width": 192, "model.heads": 6, "model.dropout": 0.3, "optim.lr": 1e-3}
SMALL = {"model.layers": 2, "model.width": 96, "model.heads": 4, "model.dropout": 0.2, "optim.lr": 2e-3}


def contender(leaves: str) -> Contender:
    whole = {**EVERY, **MODEL, "data.leaves": leaves, "train.steps": 6000, "train.batch": 64}
    return Contender(
        "parser/transformer", whole, {**SMALL, "train.steps": 900, "train.batch": 32, "train.eval_every": 300, "train.save_every": 300}
    )


RNN = Contender(
    "parser/rnn",
    {**EVERY, "model.width": 256, "model.dropout": 0.4, "train.steps": 5000, "train.batch": 64, "optim.lr": 2e-3},
    {"model.width": 96, "train.steps": 400, "train.batch": 32, "train.eval_every": 200, "train.save_every": 200},
)


def prepare(folder: Path, options: Namespace) -> Files:
    """Of every ten articles eight to learn from, the ninth to select by, and the tenth to report on."""
    texts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for number, (name, data) in enumerate(read_members(locate(TREEBANK), (".mrg",), Problems())):
        part = {8: "dev", 9: "test"}.get(number % 10, "train")
        trees = [tree for raw, _ in parse_all(data.decode(), str(name)) if (tree := cleaned(raw))]
        texts[part] += [written(tree) for tree in trees if not options.small or len(tree.words()) <= SHORT]
    files = {part: folder / f"{part}.mrg" for part in texts}
    for part, file in files.items():
        file.write_text("\n".join(texts[part]) + "\n", encoding="utf-8")
    return files


def read(file: Path) -> list[Tree]:
    return [parse(line) for line in file.read_text(encoding="utf-8").splitlines()]


def baselines(files: Files, options: Namespace) -> list[Row]:
    """The PCFG knows the tags of training's words; words of the others it takes as the parsers do."""
    train, test = read(files["train"]), read(files["test"])
    words = WordShapes.train("\n".join(" ".join(tree.words()) for tree in train), 0, 2)
    assert isinstance(words, WordShapes)
    grammar = PCFG(train, words)
    found = {
        "nltk's PCFG": [(parsed(grammar, tree), tree) for tree in test],
        "right-branching trees": [(right_branching(list(tree.leaves())), tree) for tree in test],
    }
    return [{"model": name, "examples": len(test), **agreement(pairs).scores()} for name, pairs in found.items()]


def measure(loaded: Loaded, files: Files, options: Namespace) -> Row:
    free = metrics(loaded, files["test"], unconstrained=True)
    names = ("f1", "bracket_precision", "bracket_recall", "exact_tree", "valid_trees", "examples")
    found = metrics(loaded, files["test"])
    return {name: found[name] for name in names} | {"unconstrained_f1": free["f1"], "unconstrained_valid_trees": free["valid_trees"]}


TASK = Task(
    {"transformer": contender("words"), "transformer, XX": contender("placeholders"), "transformer, tags": contender("tags"), "rnn": RNN},
    prepare,
    baselines,
    measure,
)
