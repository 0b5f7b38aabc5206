"""Centre words and the words around them (Mikolov et al., 2013, arXiv:1310.4546).

An example is one place in the text. Its window reaches 1 to W words to each side, evenly drawn, so that near words count
more; of a word with share f of the text a part 1 - sqrt(t / f) is left out. Both are drawn anew, from the example's key,
each time it is used. Words too rare to have a vector are taken out of the text before; windows end with their document.

Batch: centre (B,), context (B, 2W) with IGNORE where there is no word.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.text.documentation import documents
from weft.data.tokenizers.base import Tokenizer, WordTokenizer

LETTERS = re.compile(r"[^\W\d_]+")


class Cooccurrences(Dataset):
    def __init__(self, tokens: Tensor, document: Tensor, kept: Tensor, window: int):
        """tokens (N,), the document each belongs to (N,), the share of each word that is kept (V,)."""
        self.tokens, self.document, self.kept, self.window = tokens, document, kept, window

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        offset = torch.arange(2 * self.window, device=index.device) - self.window
        offset = offset + (offset >= 0)  # -W … -1, 1 … W
        place = index[:, None] + offset  # (B, 2W)
        near = offset.abs() <= 1 + random.integers(random.fold(key, "reach"), self.window, 1)
        near &= (place >= 0) & (place < len(self))
        place = place.clamp(0, len(self) - 1)
        near &= self.document[place] == self.document[index, None]
        words = self.tokens[torch.cat([index[:, None], place], dim=1)].long()  # (B, 1 + 2W)
        kept = random.uniform(random.fold(key, "subsample"), words.size(1)) < self.kept[words]
        near &= kept[:, :1] & kept[:, 1:]
        return {"centre": words[:, 0], "context": words[:, 1:].masked_fill(~near, IGNORE)}

    def to(self, device: torch.device) -> Dataset:
        return Cooccurrences(self.tokens.to(device), self.document.to(device), self.kept.to(device), self.window)

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
    vocabulary: int = 10_000
    """Largest number of words."""
    minimum: int = 5
    """Occurrences a word must have."""
    window: int = 5
    """Farthest context word W."""
    subsample: float = 1e-3
    """Share t of the text above which a word is left out at times; 0 keeps every word."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        if self.window < 1 or self.vocabulary < 2:
            raise ConfigError(f"--data.window must be at least 1 and --data.vocabulary 2, not {self.window} and {self.vocabulary}")
        problems = Problems()
        found = documents(self.path, self.validation_path, self.validation, problems, with_comments=True)
        train, held = ([words(document) for document in group] for group in found)
        counts = Counter(word for document in train for word in document)
        if not isinstance(tokenizer, WordTokenizer):
            tokenizer = self._frequent(counts)
        frequencies = (0, *(counts[word] for word in tokenizer.words[1:]))
        first, second = (self._dataset(group, tokenizer, frequencies) for group in (train, held))
        if not len(first):
            raise DataError(f"the text has none of the {tokenizer.size:,} words this model knows; give another text with --data.path")
        info = {
            "vocabulary": tokenizer.size,
            "frequencies": frequencies,
            "tokens": 1,
            "training_words": len(first),
            "validation_words": len(second),
        }
        return Data(first, second if len(second) else None, info, tokenizer, problems)

    def _frequent(self, counts: Counter[str]) -> WordTokenizer:
        frequent = sorted((-n, word) for word, n in counts.items() if n >= self.minimum)[: self.vocabulary - 1]
        if len(frequent) < 2:
            raise DataError(
                f"the text has {len(frequent)} words that occur {self.minimum} times, and at least 2 are needed; "
                "give more text, or lower --data.minimum"
            )
        return WordTokenizer([WordTokenizer.UNKNOWN, *(word for _, word in frequent)])

    def _dataset(self, group: list[list[str]], tokenizer: WordTokenizer, frequencies: tuple[int, ...]) -> Cooccurrences:
        ids = {word: number for number, word in enumerate(tokenizer.words)}
        found = [(ids[word], number) for number, document in enumerate(group) for word in document if word in ids]
        tokens, document = torch.tensor(found, dtype=torch.int32).view(-1, 2).mT.contiguous()
        return Cooccurrences(tokens, document, kept_share(frequencies, self.subsample), self.window)


def words(text: str) -> list[str]:
    """Runs of letters, in lower case."""
    return LETTERS.findall(text.lower())


def kept_share(frequencies: tuple[int, ...], threshold: float) -> Tensor:
    """min(1, sqrt(t / f)) of every word (V,), f its share of the text."""
    count = torch.tensor(frequencies, dtype=torch.float64)
    share = threshold * count.sum() / count.clamp(min=1)
    return share.sqrt().clamp(max=1).float() if threshold else torch.ones(len(frequencies))
