"""The grammar that parsers are compared with finds what nltk's parser finds; a benchmark runs from data to record."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path

import pytest

from weft.benchmarks.applications.main import main
from weft.benchmarks.applications.pcfg import PCFG, TOP, parsed
from weft.data.tokenizers.word_shapes import WordShapes
from weft.data.trees.brackets import parse
from weft.data.trees.grammar import sentences


def grammar(trees: int) -> PCFG:
    pytest.importorskip("nltk")
    made = sentences(trees, 3)
    words = WordShapes.train("\n".join(" ".join(tree.words()) for tree in made), 0, 1)
    assert isinstance(words, WordShapes)
    return PCFG(made, words)


def test_trees_are_as_likely_as_those_of_nltk() -> None:
    nltk, made = pytest.importorskip("nltk"), grammar(40)
    rules = [
        nltk.ProbabilisticProduction(
            nltk.Nonterminal(made.names[left]),
            [nltk.Nonterminal(made.names[one]), nltk.Nonterminal(made.names[other])],
            prob=math.exp(logprob),
        )
        for left, one, other, logprob in zip(
            made.left.tolist(), made.first.tolist(), made.second.tolist(), made.logprob.tolist(), strict=True
        )
    ]
    rules += [
        nltk.ProbabilisticProduction(nltk.Nonterminal(made.names[kind]), [word], prob=math.exp(logprob))
        for word, kinds in made.leaves.items()
        for kind, logprob in kinds
    ]
    rules += [
        nltk.ProbabilisticProduction(nltk.Nonterminal(TOP), [nltk.Nonterminal(made.names[kind])], prob=math.exp(logprob))
        for kind, logprob in made.top.items()
    ]
    viterbi = nltk.ViterbiParser(nltk.PCFG(nltk.Nonterminal(TOP), rules))
    for tree in sorted(sentences(40, 3), key=lambda tree: len(tree.words()))[:8]:
        [theirs], ours = viterbi.parse(tree.words()), made.parse(tree.words())
        assert ours is not None and ours[1] == pytest.approx(theirs.logprob() * math.log(2), rel=1e-6)
        assert ours[0].words() == tree.words()


def test_what_the_grammar_cannot_parse_is_right_branching() -> None:
    tree = parse("(S (NP (NN cat)) (VP (VBD cat) (NP (NN cat))))")
    assert parsed(grammar(5), tree).words() == ["cat"] * 3


def test_a_benchmark_runs_from_data_to_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    chance = random.Random(0)
    rows = []
    for number in range(120):
        topics = chance.sample(["grain", "crude", "gold"], chance.randint(1, 2))
        body = f"the price of {' and of '.join(topics)} rose for the {number % 7}th time"
        rows.append({"title": "news", "body": body, "topics": topics})
    (tmp_path / "reuters21578").mkdir()
    with gzip.open(tmp_path / "reuters21578/reuters21578.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    main(
        ["labels", "--small", "--models", "sigmoid", "--runs", str(tmp_path / "runs"), "--record", str(tmp_path / "applications-test.json")]
    )
    record = json.loads((tmp_path / "applications-test.json").read_text())
    [found] = [one for one in record["measurements"] if one["metric"] == "micro_f1"]
    assert found["of"]["model"] == "sigmoid" and found["values"][0] > 0.95
    assert found["baselines"][0]["name"] == "linear SVM over TF-IDF" and found["baselines"][0]["value"] > 0.95
