"""A tokenizer with the labels of texts, saved in the checkpoint so that new texts are labelled as those of training were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.data.base import UNLABELLED
from weft.data.io.records import number
from weft.data.tokenizers.base import Tokenizer


def standard(values: Sequence[float]) -> tuple[float, float]:
    """The mean and deviation by which numbers are standardised; a deviation of 1 where they do not vary."""
    mean, deviation = float(np.mean(values)), float(np.std(values))
    return mean, deviation if deviation > 1e-9 * abs(mean) else 1.0


class LabelledTokenizer(Tokenizer):
    """A tokenizer and the names of the classes; without names the labels are numbers, standardised by mean and deviation."""

    name = "labelled"

    def __init__(self, tokens: Tokenizer, classes: list[str], mean: float = 0.0, deviation: float = 1.0, columns: Sequence[str] = ()):
        """columns: those of the one text or two of an example, as training's file called them; none where the checkpoint does not say."""
        self.tokens, self.classes, self.mean, self.deviation, self.columns = tokens, classes, mean, deviation, list(columns)
        self.size = tokens.size

    @classmethod
    def of_numbers(cls, tokens: Tokenizer, labels: list[str], columns: Sequence[str] = ()) -> LabelledTokenizer:
        return cls(tokens, [], *standard([float(label) for label in labels]), columns)

    @property
    def texts(self) -> int:
        """Texts of an example; 0 where it is not known."""
        return len(self.columns)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.tokens.around

    def encode(self, text: str) -> np.ndarray:
        return self.tokens.encode(text)

    def unknown(self, text: str) -> str:
        return self.tokens.unknown(text)

    def decode(self, ids: list[int]) -> str:
        return self.tokens.decode(ids)

    def encode_labels(self, labels: list[str]) -> Tensor:
        """(N,) the class of each label as int64, UNLABELLED where unknown; or the standardised number as float32."""
        if not self.classes:
            values = np.array([number(label) or 0.0 for label in labels])
            return torch.from_numpy(np.clip((values - self.mean) / self.deviation, -1e6, 1e6).astype(np.float32))
        index_of = {name: index for index, name in enumerate(self.classes)}
        return torch.tensor([index_of.get(label, UNLABELLED) for label in labels], dtype=torch.int64)

    def to_json(self) -> dict[str, Any]:
        labels = {"classes": self.classes, "mean": self.mean, "deviation": self.deviation, "columns": self.columns}
        return {"type": self.name, "tokens": self.tokens.to_json(), **labels}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LabelledTokenizer:
        tokens: Tokenizer = registry.find("tokenizers", data["tokens"]["type"]).from_json(data["tokens"])
        return cls(tokens, data["classes"], data["mean"], data["deviation"], data.get("columns", ()))
