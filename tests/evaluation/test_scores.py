"""Scores with intervals: those that validation reports, of every example, beside what is trivial."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch

import weft
from weft.evaluation.evaluate import evaluate
from weft.evaluation.scores import measure
from weft.metrics.intervals import wilson
from weft.report.reliability import figures

TINY = {"train.steps": 4, "train.batch": 8}


def test_a_classifier_has_its_predictions_and_wilsons_interval(tmp_path: Path) -> None:
    rows = ["x\ty\tlabel"] + [f"{i % 7}\t{i % 5}\t{'no' if i % 3 else 'yes'}" for i in range(120)]
    (tmp_path / "t.tsv").write_text("\n".join(rows))
    weft.train(weft.recipe("classifier/table", {**TINY, "data.path": str(tmp_path / "t.tsv")}), out=tmp_path / "run", progress=False)
    loaded = weft.load(tmp_path / "run")
    scores, found = measure(loaded), evaluate(loaded)
    assert scores is not None and scores.classes is not None
    by_name = {score.name: score for score in scores.scores}
    for name, score in by_name.items():
        assert score.value == pytest.approx(found[name], rel=1e-5)
    assert scores.classes.names == ("no", "yes")
    right = int((scores.classes.probabilities.argmax(-1) == scores.classes.label).sum())
    assert by_name["accuracy"].interval == wilson(right, scores.examples)
    assert by_name["accuracy"].baseline == ("commonest class", found["majority_class"])
    assert by_name["loss"].interval is not None and by_name["loss"].interval[0] < by_name["loss"].value < by_name["loss"].interval[1]
    share = found["majority_class"]
    assert by_name["loss"].baseline is not None
    assert by_name["loss"].baseline[1] == pytest.approx(-share * math.log(share) - (1 - share) * math.log(1 - share))
    assert "Reliability of the numbers" in (tmp_path / "run" / "report.html").read_text()


def test_a_text_model_is_compared_with_unigram_frequencies(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("the quick brown fox jumps over the lazy dog and runs away.\n" * 40)
    changes = {**TINY, "data.path": str(tmp_path / "t.txt"), "data.context": 16, "model.layers": 1, "model.heads": 2, "model.width": 16}
    weft.train(weft.recipe("gpt/text", changes), out=tmp_path / "run", progress=False)
    loaded = weft.load(tmp_path / "run")
    data = loaded.recipe.data.build_with(loaded.tokenizer)
    scores = measure(loaded, data)
    assert scores is not None and scores.classes is None

    def targets(dataset: object) -> list[int]:
        every = torch.arange(len(dataset))  # type: ignore[arg-type]
        return [t for t in dataset.batch(every, every)["targets"].flatten().tolist() if t >= 0]  # type: ignore[attr-defined, no-any-return]

    counts, held = Counter(targets(data.train)), targets(data.validation)
    total = sum(counts.values()) + data.info["vocabulary"]
    nats = -sum(math.log((counts[token] + 1) / total) for token in held) / len(held)
    [loss] = [score for score in scores.scores if score.name == "loss"]
    assert loss.baseline == ("unigram", pytest.approx(nats, rel=1e-6))
    assert loss.interval is not None and loss.interval[0] <= loss.value <= loss.interval[1]


def test_a_regression_is_compared_with_the_mean(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["x,y,price", *(f"{i % 7},{i % 5},{3 * (i % 7) + i % 3}" for i in range(120))]))
    weft.train(weft.recipe("regression/table", {**TINY, "data.path": str(tmp_path / "t.csv")}), out=tmp_path / "run", progress=False)
    loaded = weft.load(tmp_path / "run")
    scores, found = measure(loaded), evaluate(loaded)
    assert scores is not None
    by_name = {score.name: score for score in scores.scores}
    assert by_name["rmse"].baseline == ("mean", pytest.approx(found["rmse_of_mean"], rel=1e-5))
    assert by_name["mae"].baseline == ("median", pytest.approx(found["mae_of_median"], rel=1e-5))
    assert "rmse_of_mean" not in by_name
    assert scores.numbers is not None
    assert (scores.numbers.name, len(scores.numbers.label)) == ("price", scores.examples)
    assert all(value == pytest.approx(round(value), abs=1e-3) for value in scores.numbers.label.tolist()), "in their own units"
    errors = scores.numbers.predicted - scores.numbers.label
    assert float(errors.square().mean().sqrt()) == pytest.approx(found["rmse"], rel=1e-4)
    [figure] = figures(scores)
    assert figure.csv.splitlines()[0] == "true price,predicted price"
    assert len(figure.csv.splitlines()) == 1 + scores.examples
