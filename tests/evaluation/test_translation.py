"""BLEU and chrF are of the texts of the data, whatever the model's tokenizer makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.data.base import Data, DataLoader
from weft.data.text.pairs import PairsConfig
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.evaluation.answers import measure
from weft.evaluation.evaluate import TaskMetrics

PAIRS = [("the dog is called trouble", "Der Hund heißt Ärger"), ("the cat sleeps on the mat", "die Katze schläft auf der Matte")]


class Lower(Tokenizer):
    """Characters in lower case, without accents."""

    name, size = "lower", 256

    def encode(self, text: str) -> Any:
        return torch.tensor([ord(c) for c in text.lower().replace("ß", "ss").replace("ä", "a")]).numpy()

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def data(folder: Path) -> Data:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    config = PairsConfig(path=str(path), validation_path=str(path), header="no", max_length=40)
    return config.build_with(Seq2SeqTokenizer(Lower()))


class Perfect:
    """An objective whose model has learned every target by heart."""

    config = SimpleNamespace(decode=True, lowercase=False, tokenize="")

    def __init__(self, made: Data):
        assert made.validation is not None
        batch = made.validation.batch(torch.arange(2), torch.zeros(2, dtype=torch.int64))
        self.known = {tuple(s): t[1:] for s, t in zip(batch["source"].tolist(), batch["target"].tolist(), strict=True)}

    def answers(self, model: Any, source: Tensor, lengths: Tensor) -> list[list[int]]:
        return [self.known[tuple(row)] for row in source.tolist()]

    def search(self, model: Any) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("batch", [1, 2])
def test_references_are_the_texts_of_the_data(tmp_path: Path, batch: int) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    made = data(tmp_path)
    assert made.validation is not None
    order = DataLoader(made.validation, 0, torch.device("cpu"), shuffle=False)
    loaded: Any = SimpleNamespace(model=None, tokenizer=made.tokenizer)
    objective: Any = Perfect(made)
    batches = (order.batch(first, batch) for first in range(0, 2, batch))
    found = measure(loaded, objective, made.validation, batches)
    assert isinstance(found, TaskMetrics)
    rows = json.loads(found.content)["translations"]
    assert [(row["source"], row["reference"]) for row in rows] == PAIRS
    said = ["der hund heisst arger", "die katze schlaft auf der matte"]
    assert [row["translation"] for row in rows] == said
    assert found.metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(said, [[target for _, target in PAIRS]]).score)
    assert found.metrics["bleu"] < 50 and found.metrics["exact"] == 0.0
