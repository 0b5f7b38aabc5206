"""Tiny language models with random weights over bytes, and small files in the layout of each task."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.core import registry
from weft.data.tokenizers.base import ByteTokenizer
from weft.models.language import gpt, llama
from weft.runs.load import Loaded

CONTEXT = 48
CONFIGS: dict[str, Any] = {name: replace(kind.TINY, vocabulary=256, context=CONTEXT) for name, kind in {"gpt": gpt, "llama": llama}.items()}


def tiny(name: str = "gpt") -> Loaded:
    """A model whose weights are large enough for its opinions to differ."""
    torch.manual_seed(0)
    model = CONFIGS[name].build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.2)
    return Loaded(Path("runs/tiny/checkpoints/1"), SimpleNamespace(name=name), model, ByteTokenizer(), {})  # type: ignore[arg-type]


class Bigram(nn.Module):
    """The next byte from the last: probabilities that can be written down."""

    def __init__(self, likely: dict[str, str]):
        super().__init__()
        self.config = SimpleNamespace(context=CONTEXT)
        table = torch.zeros(256, 256)
        for before, after in likely.items():
            table[ord(before), ord(after)] = 20.0
        self.table = nn.Parameter(table)

    def hidden(self, ids: Tensor) -> Tensor:
        return nn.functional.one_hot(ids, 256).float()

    def head(self, hidden: Tensor) -> Tensor:
        return hidden @ self.table


def bigram(chain: str) -> Loaded:
    """A model that goes through a chain of different characters, and on from its end to its beginning."""
    model = Bigram(dict(zip(chain, chain[1:] + chain[0], strict=True)))
    return Loaded(Path("runs/bigram/checkpoints/1"), SimpleNamespace(name="bigram"), model, ByteTokenizer(), {})  # type: ignore[arg-type]


def choice(number: int) -> dict[str, Any]:
    return {"query": f"Question: is {number} even?", "choices": ["yes", "no"], "gold": number % 2}


def schema(number: int) -> dict[str, Any]:
    return {
        "context_options": [f"Ann {number} saw Bob, so Ann", f"Ann {number} saw Bob, so Bob"],
        "continuation": "was seen.",
        "gold": 1,
    }


LAMBADA = [{"text": f"She had {number} apples and ate one more apple"} for number in range(6)]
CHOICES = [choice(number) for number in range(6)]
SCHEMAS = [schema(number) for number in range(6)]
WMT = [{"en": f"The house number {number}.", "fr": f"La maison numéro {number}."} for number in range(6)]
STORY = {f"InputSentence{number}": f"Sentence {number}." for number in range(1, 5)}
RECORDS: dict[str, list[dict[str, Any]]] = {
    "lambada": LAMBADA,
    "lambada_fill_in": LAMBADA,
    "hellaswag_val_1000": [
        {
            "activity_label": "Rowing",
            "ctx_a": f"A man rows [step] boat {number}.",
            "ctx_b": "he",
            "endings": ["rows on.", "sinks.", "sings.", "sleeps."],
            "label": 0,
            "source_id": f"video {number}",
        }
        for number in range(6)
    ],
    "storycloze": [
        {
            **STORY,
            "InputStoryid": f"{number}",
            "RandomFifthSentenceQuiz1": "The end.",
            "RandomFifthSentenceQuiz2": "No, wait.",
            "AnswerRightEnding": "2",
            "InputSentence4": f"It was day {number}.",
        }
        for number in range(6)
    ],
    **dict.fromkeys(("copa", "piqa", "arc_easy", "arc_challenge", "openbook_qa", "commonsense_qa", "siqa", "boolq"), CHOICES),
    "winogrande": SCHEMAS,
    "winograd_wsc": SCHEMAS,
    "triviaqa_sm_sub": [{"context": f"Question: who is {n}?\nAnswer:", "answer": "Ann", "aliases": ["Anna", "Ann"]} for n in range(6)],
    "nq_open_dev": [{"question": f"when was {number}", "answer": ["1972", "December 1972"]} for number in range(6)],
    "jeopardy_all": [{"context": f"HISTORY: He was number {number}", "continuation": "Adams", "category": "h"} for number in range(6)],
    "simple_arithmetic_nospaces": [{"context": f"{number}+1=", "continuation": f"{number + 1}"} for number in range(6)],
    "gsm8k": [{"context": f"What is {n} and 1,000?", "chain_of_thought": "Add them.", "answer": f"1,00{n}"} for n in range(6)],
    "wmt14_en_fr": WMT,
    "wmt14_fr_en": WMT,
}


def write(folder: Path, name: str, records: list[dict[str, Any]]) -> Path:
    """Records in the file of a task, below a folder."""
    path = folder / registry.find("tasks", name).file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        rows = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
        path.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    else:
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data sets with every task's file, named by WEFT_DATA."""
    for name, records in RECORDS.items():
        write(tmp_path / "data", name, records)
    monkeypatch.setenv("WEFT_DATA", str(tmp_path / "data"))
    return tmp_path / "data"
