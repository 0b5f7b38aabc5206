"""Base settings of annotated texts: with classes, choices, tags or answer spans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weft.data.base import Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.split import check_share, hold_out, map_splits
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import Unit, check_context, encoder_tokenizer


@dataclass(frozen=True, kw_only=True)
class AnnotatedConfig(DataConfig):
    path: str = ""
    """The file of the examples."""
    validation_path: str = ""
    """Examples to validate on; by default a share of `path`."""
    validation: float = 0.1
    """Share of the examples held out for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    tokenizer: Unit = "wordpiece"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of tokens to learn; 0 is 10,000."""
    context: int = 128
    """Longest sequence of tokens, special tokens included; longer ones are truncated."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems(encoding=check_encoding(self.encoding))
        return self.prepare(*self.split(problems), tokenizer, problems)

    def check(self) -> None:
        """Refuse invalid settings."""
        check_share(self.validation)
        check_context(self.context, self.vocabulary)

    def split(self, problems: Problems) -> tuple[list[Any], list[Any]]:
        """The examples to train on, and those to validate on."""
        examples, validation_examples = map_splits(partial(self.read, problems=problems), self.path, self.validation_path or self.path)
        if self.validation_path:
            return examples, validation_examples
        train, validation = hold_out(self.classes_of(examples), self.validation, problems)
        return [examples[i] for i in train], [examples[i] for i in validation]

    def read(self, path: str, problems: Problems) -> list[Any]:
        """The examples of a file."""
        raise NotImplementedError

    def classes_of(self, examples: list[Any]) -> np.ndarray:
        """The class of each example (N,), so that no class is held out whole."""
        return np.zeros(len(examples), dtype=np.int64)

    def prepare(self, train: list[Any], validation: list[Any], tokenizer: Tokenizer | None, problems: Problems) -> Data:
        """Tokenise the examples, with the tokenizer of a trained model (None: one learned from the training examples)."""
        raise NotImplementedError

    def tokens(self, tokenizer: Tokenizer | None, texts: list[str]) -> Any:
        """The tokenizer of a trained model, without its labels, or else one learned from texts."""
        return encoder_tokenizer(tokenizer, self.tokenizer, texts, self.vocabulary)

    def finish(self, train: Dataset, validation: Dataset, tokenizer: Tokenizer, problems: Problems, facts: dict[str, Any]) -> Data:
        """The datasets with the facts that model and objective need."""
        info = {"vocabulary": tokenizer.size, "context": self.context, **facts}
        return Data(train, validation if len(validation) else None, info, tokenizer, problems)
