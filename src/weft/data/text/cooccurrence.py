"""Skip-gram data: centre words and the context words around them (Mikolov et al., 2013, arXiv:1310.4546).

An example is one position in the text. Its window reaches 1 to W words to each side, drawn uniformly, so that near words count
more; a word with frequency f is dropped with probability 1 - sqrt(t / f) (subsampling). Both are drawn anew, from the example's key,
each time. Words too rare for the vocabulary are removed from the text before; windows end with their document.

Batch: centre (B,), context (B, 2W) with IGNORE where there is no word.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.base import keep_probabilities as keep_probabilities
from weft.data.io.encodings import check_encoding
from weft.data.text.documentation import documents
from weft.data.tokenizers.base import Tokenizer, WordTokenizer

LETTERS = re.compile(r"[^\W\d_]+")
SPACE = re.compile(r"\s")
PIECE = 1 << 20
"""Characters that are cut into words at once, to the next space."""


class Cooccurrences(Dataset):
    def __init__(self, tokens: Tensor, document: Tensor, keep_probability: Tensor, window: int):
        """tokens (N,), the document of each (N,), the probability to keep each word (V,)."""
        self.tokens, self.document, self.keep_probability, self.window = tokens, document, keep_probability, window

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        offset = torch.arange(2 * self.window, device=index.device) - self.window
        offset = offset + (offset >= 0)  # -W … -1, 1 … W
        position = index[:, None] + offset  # (B, 2W)
        in_window = offset.abs() <= 1 + random.integers(random.fold(key, "reach"), self.window, 1)
        in_window &= (position >= 0) & (position < len(self))
        position = position.clamp(0, len(self) - 1)
        in_window &= self.document[position] == self.document[index, None]
        words = self.tokens[torch.cat([index[:, None], position], dim=1)].long()  # (B, 1 + 2W)
        is_kept = random.uniform(random.fold(key, "subsample"), words.size(1)) < self.keep_probability[words]
        in_window &= is_kept[:, :1] & is_kept[:, 1:]
        return {"centre": words[:, 0], "context": words[:, 1:].masked_fill(~in_window, IGNORE)}

    def to(self, device: torch.device) -> Dataset:
        return Cooccurrences(self.tokens.to(device), self.document.to(device), self.keep_probability.to(device), self.window)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


@dataclass(frozen=True, kw_only=True)
class CooccurrenceConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them; empty takes the docstrings and comments of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    vocabulary: int = 10_000
    """Largest number of words."""
    min_count: int = 5
    """Rarest word of the vocabulary: occurrences that a word must have."""
    window: int = 5
    """Farthest context word W."""
    subsample: float = 1e-3
    """Frequency t above which words are subsampled; 0 keeps every word."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        if self.window < 1 or self.vocabulary < 2:
            raise ConfigError(f"--data.window must be at least 1 and --data.vocabulary 2, not {self.window} and {self.vocabulary}")
        problems = Problems(encoding=check_encoding(self.encoding))
        train, validation = documents(self.path, self.validation_path, self.validation, problems, with_comments=True)
        counts = Counter[str]()
        for document in train:
            counts.update(words(document))
        if not isinstance(tokenizer, WordTokenizer):
            tokenizer = self._vocabulary(counts)
        frequencies = (0, *(counts[word] for word in tokenizer.words[1:]))
        first, second = (self._dataset(*encode(group, tokenizer), frequencies) for group in (train, validation))
        if not len(first):
            raise DataError(f"the text has none of the {tokenizer.size:,} words this model knows; give another text with --data.path")
        return Data(first, second if len(second) else None, self._info(frequencies, first, second), tokenizer, problems)

    def _info(self, frequencies: tuple[int, ...], train: Dataset, validation: Dataset) -> dict[str, Any]:
        facts = {"training_words": len(train), "validation_words": len(validation)}
        return {"vocabulary": len(frequencies), "frequencies": frequencies, "tokens": 1, **facts}

    def _vocabulary(self, counts: Counter[str]) -> WordTokenizer:
        frequent = sorted((-n, word) for word, n in counts.items() if n >= self.min_count)[: self.vocabulary - 1]
        if len(frequent) < 2:
            raise DataError(
                f"the text has {len(frequent)} words that occur {self.min_count} times, and at least 2 are needed; "
                "give more text, or lower --data.min_count"
            )
        return WordTokenizer([WordTokenizer.UNKNOWN, *(word for _, word in frequent)])

    def _dataset(self, tokens: Tensor, document: Tensor, frequencies: tuple[int, ...]) -> Dataset:
        """tokens (N,), the document of each (N,)."""
        return Cooccurrences(tokens, document, keep_probabilities(frequencies, self.subsample), self.window)


def encode(group: list[str], tokenizer: WordTokenizer) -> tuple[Tensor, Tensor]:
    """Texts -> the words that a vocabulary has (N,) and the number of the text of each (N,), int32; a piece at a time is cut into words."""
    ids = {word: number for number, word in enumerate(tokenizer.words)}
    tokens, sizes = array("i"), array("i")
    for text in group:
        before = len(tokens)
        tokens.extend(ids[word] for word in words(text) if word in ids)
        sizes.append(len(tokens) - before)
    number = torch.arange(len(sizes), dtype=torch.int32).repeat_interleave(torch.tensor(sizes, dtype=torch.int32))
    return torch.tensor(tokens, dtype=torch.int32), number


def words(text: str) -> Iterator[str]:
    """Runs of letters, in lower case; of a long text, of which a list of all would take many times its size, a piece at a time."""
    start = 0
    while start < len(text):
        space = SPACE.search(text, start + PIECE)
        stop = space.start() if space else len(text)
        yield from LETTERS.findall(text[start:stop].lower())
        start = stop
