"""From pretraining to each task: the body's weights and tokens are kept, the head starts afresh, and the class names are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import weft
from tests.contracts.tiny import text_file, tiny
from weft.cli import train
from weft.evaluation.evaluate import evaluate
from weft.models.language.bert import BERT
from weft.runs.assemble import assemble
from weft.runs.load import read_tokenizer
from weft.runs.run import Run
from weft.training.checkpoint import checkpoint

SHORT = ["--train.steps", "40", "--train.batch", "16", "--train.eval-every", "40", "--train.device", "cpu", "--optim.lr", "3e-3"]
FILES = ["--data.context", "32", "--data.validation", "0.3"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrained")
    changes = {"data.path": str(text_file(folder)), "train.steps": 4, "train.eval_every": 0, "model.layers": 1, "train.device": "cpu"}
    assemble(weft.recipe("bert/pairs", changes), folder / "run").trainer.fit()
    return folder / "run"


def started(task: str, init: Path, folder: Path) -> Run:
    """What `weft train bert/TASK --init INIT` assembles."""
    path = str(tiny(f"bert/{task}", folder).data.path)  # type: ignore[attr-defined]
    recipe, place = train.parse(f"bert/{task}", ["--data.path", path, *FILES, *SHORT, "--init", str(init), "--out", str(folder / task)])
    return assemble(recipe, Path(place.out), place.init)


@pytest.mark.parametrize(("task", "outputs"), [("classify", 2), ("score", 1), ("choice", 1)])
def test_the_body_is_kept_and_the_head_is_fresh(task: str, outputs: int, pretrained: Path, tmp_path: Path) -> None:
    found = checkpoint.read(checkpoint.resolve(pretrained))
    made = started(task, pretrained, tmp_path)
    model, before = made.trainer.model, found.tensors("model.safetensors")
    assert isinstance(model, BERT)
    assert isinstance(model.head, nn.Linear)
    body = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(BERT.task_parts)}
    assert body.keys() == {name for name in before if not name.startswith(BERT.task_parts)}
    assert all(torch.equal(tensor, before[name]) for name, tensor in body.items())
    assert tuple(model.head.weight.shape) == (outputs, 64)
    assert not model.head.bias.any()
    tokens = getattr(made.data.tokenizer, "tokens", made.data.tokenizer)
    assert tokens.to_json() == read_tokenizer(found).to_json()


def test_a_finetuned_model_knows_its_classes(pretrained: Path, tmp_path: Path) -> None:
    made = started("classify", pretrained, tmp_path)
    made.trainer.fit()
    assert made.validation is not None
    assert made.validation.latest.keys() == {"loss", "accuracy", "f1", "matthews"}
    assert made.validation.latest["accuracy"] > 0.9
    loaded = weft.load(tmp_path / "classify", device="cpu")
    assert loaded.tokenizer.classes == ["0", "1"]
    other = tmp_path / "other.tsv"
    other.write_text("a dog hates rain.\t0\na dog likes rain.\t1\nmy friend hates a tree.\t0\nwhat is this?\tzebra\n")
    result = evaluate(loaded, data=other)
    assert (result.examples, result["accuracy"]) == (3, 1.0)
    assert "other.tsv:4 ('zebra')" in result.problems[0]
    again = started("choice", tmp_path / "classify", tmp_path)
    assert again.data.tokenizer.to_json() == loaded.tokenizer.tokens.to_json()


def test_an_lstm_is_added_to_a_model_that_read_from_left_to_right(tmp_path: Path) -> None:
    small = tiny("bert/pretrain_left_to_right", tmp_path, {"train.steps": 2, "train.eval_every": 0, "train.device": "cpu"})
    assemble(small, tmp_path / "first").trainer.fit()
    path = str(tiny("bert/sst2", tmp_path).data.path)  # type: ignore[attr-defined]
    words = [
        "--data.path",
        path,
        "--data.context",
        "24",
        "--data.validation",
        "0.3",
        *SHORT,
        "--optim.schedule.warmup",
        "4",
        "--model.lstm",
    ]
    recipe, place = train.parse("bert/sst2", [*words, "--init", str(tmp_path / "first"), "--out", str(tmp_path / "second")])
    made = assemble(recipe, Path(place.out), place.init)
    before = checkpoint.read(checkpoint.resolve(tmp_path / "first")).tensors("model.safetensors")
    model = made.trainer.model
    assert isinstance(model, BERT)
    assert model.config.causal and model.lstm is not None
    assert torch.equal(model.embed.weight[: len(before["embed.weight"])], before["embed.weight"])
    made.trainer.fit()
    assert made.validation is not None
    assert made.validation.latest["accuracy"] > 0.9
