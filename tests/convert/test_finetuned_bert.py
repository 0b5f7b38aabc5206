"""A BERT that was finetuned goes out with the head of its task, tells others the same, and comes back whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import weft
from tests.contracts.tiny import tiny
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.evaluation.evaluate import evaluate
from weft.inference.predict.find import find
from weft.inference.predict.run import tell
from weft.runs.load import Loaded, load

transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
TASKS = {
    "classify": ("BertForSequenceClassification", ("the cat hates rain.",)),
    "score": ("BertForSequenceClassification", ("the cat hates rain.", "a dog sees the moon.")),
    "tags": ("BertForTokenClassification", ("may sees the moon",)),
    "answers": ("BertForQuestionAnswering", ("a moon near the cat .", "what is near the cat ?")),
    "choice": ("BertForMultipleChoice", ("my friend", "likes rain", "hates rain")),
}


def finetuned(name: str, folder: Path) -> str:
    """A run of a few steps, in pieces of words; where it tells numbers, these are far from 0."""
    cheap = {"train.steps": 3, "train.eval_every": 3, "train.batch": 8, "optim.lr": 1e-2, "optim.schedule.warmup": 0}
    recipe = tiny(f"bert/{name}", folder, {**cheap, "data.tokenizer": "wordpiece", "data.vocabulary": 90})
    if name == "score":
        path = folder / "labelled.tsv"
        path.write_text(path.read_text().replace("\t0.5", "\t20.5").replace("\t1.5", "\t60.5"))
    weft.train(recipe, out=folder / "run")
    return str(folder / "run")


def logits(model: Any, ids: Tensor, segments: Tensor, lengths: Tensor) -> list[Tensor]:
    """What one of ours or of theirs says of the same tokens."""
    if not isinstance(model, Loaded):
        seen = (torch.arange(ids.size(-1)) < lengths[..., None]).long()
        out = model(ids, attention_mask=seen, token_type_ids=segments)
        return [out.start_logits, out.end_logits] if "start_logits" in out else [out.logits]
    own: Any = model.model
    found = getattr(own, own.config.task)(ids, segments, lengths)
    if isinstance(model.tokenizer, LabelledTokenizer) and not model.tokenizer.classes:
        found = found * model.tokenizer.deviation + model.tokenizer.mean
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", TASKS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    kind, words = TASKS[name]
    run = finetuned(name, tmp_path)
    convert(run, tmp_path / "theirs")
    convert(str(tmp_path / "theirs"), tmp_path / "again")
    theirs = getattr(transformers, kind).from_pretrained(tmp_path / "theirs").eval()
    ours, again = load(run, "cpu"), load(tmp_path / "again", "cpu")
    assert theirs.config.architectures == [kind]
    assert again.recipe.name == f"bert/{name}"
    shape = (2, 3, 20) if name == "choice" else (6, 20)
    torch.manual_seed(0)
    given = torch.randint(5, ours.tokenizer.size, shape), torch.randint(0, 2, shape), torch.randint(9, 21, shape[:-1])
    with torch.no_grad():
        expected = logits(ours, *given)
        for other in (theirs, again):
            for mine, told in zip(expected, logits(other, *given), strict=True):
                inside = torch.arange(20) < given[2][:, None] if mine.shape[:2] == (6, 20) else ...
                torch.testing.assert_close(told[inside], mine[inside], atol=1e-4, rtol=1e-5)
    assert tell(find(again), words) == tell(find(ours), words)
    foreign = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    own = getattr(ours.tokenizer, "tokens", ours.tokenizer)
    assert foreign(words[0])["input_ids"][1:-1] == own.encode(words[0]).tolist()
    pair = foreign("one", "two three")
    first, second = (own.encode(text).tolist() for text in ("one", "two three"))
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_names_of_classes_and_the_kind_of_problem(tmp_path: Path) -> None:
    run = finetuned("classify", tmp_path)
    done = convert(run, tmp_path / "theirs")
    assert (done.classes, done.tokenizer) == (2, True)
    told = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert told["id2label"] == {"0": "0", "1": "1"}
    assert told["label2id"] == {"0": 0, "1": 1}
    assert told["problem_type"] == "single_label_classification"
    data = {"path": str(tmp_path / "labelled.tsv")}
    convert(str(tmp_path / "theirs"), tmp_path / "again")
    torch.testing.assert_close(evaluate(str(tmp_path / "again"), data=data).metrics, evaluate(run, data=data).metrics)
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**told, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}))
    convert(str(tmp_path / "theirs"), tmp_path / "unnamed")
    assert load(tmp_path / "unnamed", "cpu").tokenizer.classes == ["0", "1"]
    path.write_text(json.dumps({**told, "problem_type": "multi_label_classification"}))
    with pytest.raises(CheckpointError, match="tells one class of a text"):
        convert(str(tmp_path / "theirs"), tmp_path / "no")
