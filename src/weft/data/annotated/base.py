"""Texts with what is to be told of them, be it a class, a choice, tags or a span: what every source of such texts has in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weft.data.base import Data, DataConfig, Dataset, Problems
from weft.data.split import both, check_share, hold_out
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import Unit, check_context, given_or_learned


@dataclass(frozen=True, kw_only=True)
class AnnotatedConfig(DataConfig):
    path: str = ""
    """The file that holds the examples."""
    validation_path: str = ""
    """Examples to validate on; by default a share of `path`."""
    validation: float = 0.1
    """Share of the examples kept for validation where no validation_path is given; 0 for no validation."""
    unit: Unit = "wordpiece"
    """What a token is, where no model says so."""
    vocabulary: int = 0
    """Largest number of tokens to learn; 0 is 10,000."""
    context: int = 128
    """Longest sequence of tokens, marks included; what is longer is cut."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems()
        return self.prepare(*self.split(problems), tokenizer, problems)

    def check(self) -> None:
        """Refuse settings that cannot work."""
        check_share(self.validation)
        check_context(self.context, self.vocabulary)

    def split(self, problems: Problems) -> tuple[list[Any], list[Any]]:
        """The examples to train on, and those to validate on."""
        examples, others = both(partial(self.read, problems=problems), self.path, self.validation_path or self.path)
        if self.validation_path:
            return examples, others
        train, held = hold_out(self.classes_of(examples), self.validation, problems)
        return [examples[i] for i in train], [examples[i] for i in held]

    def read(self, path: str, problems: Problems) -> list[Any]:
        """The examples of a file."""
        raise NotImplementedError

    def classes_of(self, examples: list[Any]) -> np.ndarray:
        """A class number for each (N,): none validates whose class would be missing from training."""
        return np.zeros(len(examples), dtype=np.int64)

    def prepare(self, train: list[Any], held: list[Any], known: Tokenizer | None, problems: Problems) -> Data:
        """The examples in tokens: those of a model that exists already, or learned from the training examples."""
        raise NotImplementedError

    def tokens(self, known: Tokenizer | None, texts: list[str]) -> Any:
        """The tokenizer of a model that exists already, without its labels or, where there is none, one learned from texts."""
        return given_or_learned(known, self.unit, texts, self.vocabulary)

    def finish(self, train: Dataset, held: Dataset, tokenizer: Tokenizer, problems: Problems, facts: dict[str, Any]) -> Data:
        """Datasets with what other parts want to know of them."""
        info = {"vocabulary": tokenizer.size, "context": self.context, **facts}
        return Data(train, held if len(held) else None, info, tokenizer, problems)
