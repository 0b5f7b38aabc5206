"""Whole answers and whole sentences: windows joined, the threshold of no answer, and what `weft evaluate` prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft
from tests.contracts.tiny import tiny
from weft.cli.evaluate import main
from weft.data.annotated.spans import Spans, SpansConfig
from weft.data.annotated.squad import SpanExample
from weft.data.base import DataLoader, Problems
from weft.data.text.sentence_pairs import SPECIAL_TOKENS, BERTWordTokenizer
from weft.evaluation.best_span import measure
from weft.evaluation.evaluate import TaskMetrics
from weft.objectives.language.extractive_qa import ExtractiveQAConfig

WORDS = [f"w{number}" for number in range(12)]
TOKENIZER = BERTWordTokenizer([*SPECIAL_TOKENS, *WORDS])
SURE = {"w3": 9.0, "w8": 7.0}
"""How much the model thinks of a word as the whole answer."""


class Points(nn.Module):
    """Takes the words it is sure of for the answer, and else [CLS]."""

    def answer(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.zeros(ids.shape)
        for word, sure in SURE.items():
            scores = scores.masked_fill(ids == TOKENIZER.encode(word)[0], sure)
        scores[:, 0] = 5.0
        return scores, scores


def data(*questions: tuple[str, tuple[int, int], str]) -> Spans:
    asked = [SpanExample(name, "w0", text, (text[slice(*span)],) if any(span) else (), span, name) for name, span, text in questions]
    return SpansConfig(context=10, stride=3).dataset(asked, TOKENIZER, Problems())


def measured(held: Spans, examples: int = 0, size: int = 2, **settings: float) -> TaskMetrics:
    examples = examples or len(held)
    source = DataLoader(held, 0, torch.device("cpu"), shuffle=False)
    batches = (source.batch(first, min(size, examples - first)) for first in range(0, examples, size))
    loaded: Any = SimpleNamespace(model=Points())
    return measure(loaded, ExtractiveQAConfig(**settings).build(), held, batches)  # type: ignore[arg-type]


LONG, SHORT, NONE = " ".join(WORDS), "w1 w8 w2", "w1 w2"


def said(findings: TaskMetrics) -> dict[str, str]:
    found: dict[str, str] = json.loads(findings.content)
    return found


@pytest.mark.parametrize("size", [1, 2, 64])
def test_the_best_of_all_windows_is_the_answer(size: int) -> None:
    held = data(("long", (9, 11), LONG), ("short", (3, 5), SHORT))
    assert len(held) > 3
    found = measured(held, size=size)
    assert said(found) == {"long": "w3", "short": "w8"}
    assert found.metrics == {"exact_match": 1.0, "f1": 1.0}


def test_a_question_of_which_not_all_windows_were_seen_is_left_out() -> None:
    held = data(("short", (3, 5), SHORT), ("long", (9, 11), LONG))
    assert said(measured(held, examples=2)) == {"short": "w8"}


def test_no_answer_is_given_only_where_some_questions_have_none() -> None:
    assert said(measured(data(("none", (0, 2), NONE)))) == {"none": "w1"}
    held = data(("none", (0, 0), NONE), ("short", (3, 5), SHORT))
    found = measured(held)
    assert said(found) == {"none": "", "short": "w8"}
    assert (found.metrics["f1"], found.metrics["unanswerable_f1"], found.metrics["best_f1"]) == (1.0, 1.0, 1.0)
    assert said(measured(held, null_score_threshold=1e9)) == {"none": "w1", "short": "w8"}
    assert said(measured(held, null_score_threshold=-1e9)) == {"none": "", "short": ""}
    best = measured(held, null_score_threshold=-1e9).metrics["best_threshold"]
    assert measured(held, null_score_threshold=best).metrics["f1"] == 1.0


def evaluated(name: str, folder: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> tuple[str, dict[str, Any], str]:
    """What a trained recipe's evaluation prints, its record and its predictions."""
    weft.train(tiny(name, folder, {"train.eval_every": 0, "train.device": "cpu", **changes}), folder / "run")
    assert main([str(folder / "run")]) == 0
    record, predictions = sorted((folder / "run" / "evaluations").iterdir(), key=lambda file: "predictions" in file.name)
    return capsys.readouterr().out, json.loads(record.read_bytes()), predictions.read_text()


def test_weft_evaluate_reports_answers_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed, record, predictions = evaluated("bert/answers", tmp_path, capsys, **{"train.steps": 60, "train.batch": 32, "optim.lr": 1e-2})
    assert "exact_match" in printed and "predictions written to" in printed
    assert record["metrics"]["f1"] > 0.6
    assert "findings" not in record
    assert set(json.loads(predictions)) == {str(number) for number in range(60)}
    assert set(weft.evaluate(tmp_path / "run", "f1").metrics) == {"f1"}
    content = json.loads((tmp_path / "answers.json").read_text())
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
    (tmp_path / "version2.json").write_text(json.dumps(content))
    for threshold, given in ((1e9, 60), (-1e9, 0)):
        found = weft.evaluate(tmp_path / "run", data={"path": str(tmp_path / "version2.json"), "null_score_threshold": threshold})
        assert found.findings is not None
        assert sum(text != "" for text in said(found.findings).values()) == given
        assert found["unanswerable_f1"] == float(given == 0)


def test_weft_evaluate_reports_entities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed, record, predictions = evaluated("bert/tags", tmp_path, capsys, **{"train.steps": 40, "optim.lr": 1e-2})
    assert "sentence_accuracy" in printed
    assert record["metrics"]["f1"] > 0.9
    sentences = predictions.strip("\n").split("\n\n")
    assert len(sentences) == 36
    word, tag, told = sentences[0].split("\n")[0].split("\t")
    assert word in ("may", "will") and tag == told == "B-who"


def test_tags_of_another_kind_have_no_entities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, record, predictions = evaluated("bert/brown", tmp_path, capsys, **{"train.steps": 2, "data.context": 8, "data.validation": 0.1})
    assert "f1" not in record["metrics"] and "sentence_accuracy" in record["metrics"]
    assert predictions.count("\n\n") == 11


def test_sentences_in_pieces_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_text("".join("may\tB-who\nsees\tO\n" * 9 + "\n" for _ in range(4)))
    changes = {"train.steps": 2, "train.device": "cpu", "data.path": str(path), "data.context": 9, "data.validation": 0.5}
    weft.train(tiny("bert/tags", tmp_path, changes), tmp_path / "run")
    for examples, lines in ((0, 18 + 1 + 18), (5, 18)):  # five pieces are one sentence and a part of the other
        found = weft.evaluate(tmp_path / "run", examples=examples).findings
        assert found is not None
        assert found.content.count("\n") == lines
