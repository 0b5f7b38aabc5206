"""Evaluation: exact means, the state of the objective, other data in the model's own tokens."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import weft
from tests.contracts.tiny import tiny
from weft.core import config
from weft.core.errors import ConfigError, DataError
from weft.data.text.token_windows import TextConfig
from weft.evaluation.evaluate import change_data, evaluate
from weft.training.checkpoint import checkpoint

TEXT = "pack my box with five dozen liquor jugs.\n" * 30
TINY = {
    "data.context": 10,
    "model.layers": 1,
    "model.heads": 2,
    "model.width": 16,
    "train.batch": 4,
    "train.steps": 4,
    "train.eval_every": 2,
    "train.precision": "fp32",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "text.txt").write_text(TEXT)
    weft.train(weft.recipe("gpt/text", {**TINY, "data.path": str(folder / "text.txt")}), out=folder / "run")
    return folder / "run"


def by_hand(loaded: weft.runs.load.Loaded, text: str, context: int = 10) -> float:
    """Mean -log p over every token but the first, window by window."""
    device = next(loaded.model.parameters()).device
    ids = torch.tensor(loaded.tokenizer.encode(text).astype("int64"), device=device)
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(ids) - 1, context):
            window = ids[start : start + context + 1]
            logits = loaded(window[None, :-1])[0]
            total += float(F.cross_entropy(logits.double(), window[1:], reduction="sum"))
    return total / (len(ids) - 1)


def test_the_loss_is_the_exact_mean_for_any_batch_size(run: Path) -> None:
    loaded = weft.load(run)
    expected = by_hand(loaded, TEXT[int(len(TEXT) * 0.9) :])
    for batch in (1, 3, 64):
        found = weft.evaluate(loaded, batch=batch)
        assert found["loss"] == pytest.approx(expected, rel=1e-6)
        assert found["perplexity"] == pytest.approx(math.exp(expected), rel=1e-6)


def test_it_equals_what_training_reported(run: Path) -> None:
    loaded = weft.load(run)
    assert evaluate(loaded)["loss"] == pytest.approx(loaded.metrics["validation"]["loss"], rel=1e-6)


def test_a_path_means_the_whole_of_another_text_in_the_models_own_tokens(run: Path, tmp_path: Path) -> None:
    loaded = weft.load(run)
    other = tmp_path / "other.txt"
    other.write_text("five jugs. " * 9)
    for data in (str(other), other, {"path": str(other)}, TextConfig(path=str(other), validation_path=str(other), context=10)):
        assert weft.evaluate(loaded, "loss", data=data)["loss"] == pytest.approx(by_hand(loaded, "five jugs. " * 9), rel=1e-6)


def test_unknown_characters_are_left_out_counted_and_charged(run: Path, tmp_path: Path) -> None:
    loaded, plain, other = weft.load(run), tmp_path / "plain.txt", tmp_path / "other.txt"
    plain.write_text("five jugs. " * 9)
    other.write_text("five ‘jugs’. " * 9)
    found, without = weft.evaluate(loaded, data=other), weft.evaluate(loaded, data=plain)
    assert found["loss"] == without["loss"]
    assert found.problems == ["18 × characters that the model does not know, left out: '‘' (U+2018), '’' (U+2019), …"]
    bits = without["loss"] / math.log(2) * 99 + 18 * math.log2(0x110000)
    assert found["bits_per_byte"] == pytest.approx(bits / len(other.read_bytes()), rel=1e-9)
    assert found["bits_per_byte"] > without["bits_per_byte"], "what it cannot write does not make it look better"
    other.write_text("学而时习之")
    with pytest.raises(DataError, match=r"has 0 tokens .*5 × characters that the model does not know, left out: '学' \(U\+5B66\)"):
        weft.evaluate(loaded, data=other)


def test_flaws_of_other_data_are_counted_once(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "whole.txt").write_text("the cat " * 30)
    for name in ("empty.txt", "other.csv"):
        (folder / name).touch()
    assert weft.evaluate(run, data=folder).problems == [
        f"1 × files with another suffix, not read: {folder / 'other.csv'}",
        f"1 × empty files: {folder / 'empty.txt'}",
    ]


def test_bits_per_byte_are_those_of_the_other_text(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("box " * 30)
    found = weft.evaluate(run, data=other)
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2), rel=1e-6)


def test_the_embedded_corpus_gives_way_to_a_file_of_the_same_kind(tmp_path: Path) -> None:
    changes = {**TINY, "data.megabytes": 0.05, "train.eval_examples": 4}
    weft.train(weft.recipe("gpt/quickstart", changes), out=tmp_path / "run")
    (tmp_path / "own.txt").write_text("def f(x):\n    return x\n")
    found = weft.evaluate(tmp_path / "run", data=tmp_path / "own.txt")
    assert found.data["type"] == "text"
    assert found.examples == 3


def test_metrics_by_name_and_number_of_examples(run: Path) -> None:
    found = weft.evaluate(run, "perplexity", examples=2)
    assert list(found.metrics) == ["perplexity"]
    assert found.examples == 2
    with pytest.raises(ConfigError, match="did you mean 'perplexity'"):
        weft.evaluate(run, "perplexty")


def test_data_of_another_size_is_refused(run: Path) -> None:
    with pytest.raises(DataError, match="context 64, but this model was built for 10"):
        weft.evaluate(run, data={"context": 64})


def test_the_objective_has_the_state_it_had_in_training(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    changes = {"train.steps": 4, "train.eval_every": 4, "objective.particles": 8, "train.batch": 8}
    weft.train(weft.recipe("rbm/persistent", changes), out=tmp_path / "run")
    loaded = weft.load(tmp_path / "run")
    assert evaluate(loaded)["loss"] == pytest.approx(loaded.metrics["validation"]["loss"], rel=1e-4)


def test_evaluation_changes_nothing(run: Path) -> None:
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    weft.evaluate(run)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
    assert dataclasses.asdict(weft.evaluate(run))["checkpoint"] == str(checkpoint.resolve(run))
    for wrong in ({"examples": -1}, {"batch": 0}):
        with pytest.raises(ConfigError, match="examples must not be negative and batch at least 1"):
            weft.evaluate(run, **wrong)


def test_other_pairs_in_two_files_are_validated_on_with_their_own_targets() -> None:
    own = weft.recipe("transformer/multi30k").data
    found = config.to_dict(change_data(own, {"path": "my.en", "target_path": "my.de"}))
    assert (found["validation_path"], found["validation_target_path"]) == ("my.en", "my.de")
    found = config.to_dict(
        change_data(own, {"path": "my.en", "target_path": "my.de", "validation_path": "a", "validation_target_path": "b"})
    )
    assert (found["validation_path"], found["validation_target_path"]) == ("a", "b")


CLASSIFIERS = (
    "classifier/digits",
    "classifier/table",
    "vit/digits",
    "bert/classify",
    "bert/choice",
    "bert/tags",
    "gpt/classify",
    "gpt/choose",
)


@pytest.mark.parametrize("name", [*CLASSIFIERS, "vae/m2_digits", "gan/semi_digits"])
def test_the_commonest_class_stands_beside_the_accuracy(name: str, tmp_path: Path) -> None:
    recipe = tiny(name, tmp_path, {"train.steps": 1, "train.device": "cpu", "train.eval_every": 0})
    weft.train(recipe, out=tmp_path / "run")
    found = evaluate(tmp_path / "run", batch=3)
    held = recipe.data.build().validation
    assert held is not None
    batch = held.batch(torch.arange(len(held)), torch.arange(len(held)))
    classes = [each for each in batch["tags" if "tags" in batch else "label"].flatten().tolist() if each >= 0]
    assert found["majority_class"] == pytest.approx(max(map(classes.count, classes)) / len(classes))
    names = list(found.metrics)
    assert names.index("majority_class") == names.index("accuracy") + 1


def test_the_commonest_class_is_that_of_the_examples_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("text\tlabel\n" + "".join(f"word {n % 5}\t{'no' if n % 4 == 0 else 'yes'}\n" for n in range(40)))
    recipe = tiny(
        "bert/classify", tmp_path, {"data.path": str(path), "data.validation_path": str(path), "train.steps": 1, "train.eval_every": 0}
    )
    weft.train(recipe, out=tmp_path / "run")
    assert evaluate(tmp_path / "run")["majority_class"] == 0.75
    assert evaluate(tmp_path / "run", examples=1)["majority_class"] == 1.0
