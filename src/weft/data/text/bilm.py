"""Sentences as ELMo reads them: words as characters, and the words to predict in both directions (Peters et al., 2018).

Each sentence is BOS, words, EOS. A sentence with more words or characters than a context holds is split.
Batch: ids (B, T) characters, lengths (B,), words (B, W) the number of each word among the predicted ones, IGNORE behind a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.text.documentation import documents
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.word_characters import BOS, EOS, PADDING, BiLMTokenizer

WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'\u201d\u2019)]*\s+(?=[\"'\u201c\u2018(]*[A-Z])|\n\s*\n")
ENDS = ["<S>", "</S>"]


class Sentences(Dataset):
    def __init__(self, ids: Ragged, words: Ragged):
        self.ids, self.words = ids, words

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        lengths = self.ids.sizes.index_select(0, index)
        return {"ids": self.ids.rows(index).long(), "lengths": lengths, "words": self.words.rows(index).long()}

    def to(self, device: torch.device) -> Dataset:
        return Sentences(self.ids.to(device), self.words.to(device))

    @property
    def device(self) -> torch.device:
        return self.ids.values.device


@dataclass(frozen=True, kw_only=True)
class BiLMSentencesConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them, paragraphs separated by blank lines; empty takes the docstrings of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    vocabulary: int = 10_000
    """Largest number of words that are predicted; any word is read."""
    sentence_per_line: bool = False
    """Whether each line is a sentence whose words stand between spaces; otherwise sentences and words are found in running text."""
    context: int = 40
    """Words of the longest sentence; a longer one is split."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        if self.context < 1 or self.vocabulary < 4:
            raise ConfigError(f"--data.context must be at least 1 and --data.vocabulary 4, not {self.context} and {self.vocabulary}")
        problems = Problems(encoding=check_encoding(self.encoding))
        texts = documents(self.path, self.validation_path, self.validation, problems)
        train, validation = (list(self._sentences(group)) for group in texts)
        if not train:
            raise DataError("the text has no words to learn from; name another file or folder with --data.path")
        if not isinstance(tokenizer, BiLMTokenizer):
            tokenizer = frequent_words(train, self.vocabulary)
        first, second = (dataset(group, tokenizer) for group in (train, validation))
        info = {
            "words": len(tokenizer.words),
            "tokens": first.ids.longest,
            "training_sentences": len(first),
            "training_words": sum(map(len, train)),
            "validation_sentences": len(second),
        }
        return Data(first, second if len(second) else None, info, tokenizer, problems)

    def _sentences(self, group: Iterable[str]) -> Iterator[list[str]]:
        for text in group:
            for sentence in text.split("\n") if self.sentence_per_line else SENTENCE_END.split(text):
                words = sentence.split() if self.sentence_per_line else WORD.findall(sentence)
                for first in range(0, len(words), self.context):
                    yield words[first : first + self.context]


def frequent_words(sentences: Iterable[list[str]], most: int) -> BiLMTokenizer:
    """The words to predict: the unknown one, both ends of a sentence, and the most frequent."""
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: most - 1 - len(ENDS)]
    return BiLMTokenizer([BiLMTokenizer.UNKNOWN, *ENDS, *(word for word, _ in frequent)])


def dataset(sentences: list[list[str]], tokenizer: BiLMTokenizer) -> Sentences:
    encode = dict[str, np.ndarray]()
    rows, words = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for sentence in sentences:
        for word in sentence:
            if word not in encode:
                encode[word] = tokenizer.encode(word)
        rows.append(np.concatenate([[BOS], *(encode[word] for word in sentence), [EOS]]))
        words.append(np.array(tokenizer.word_ids([ENDS[0], *sentence, ENDS[1]])))
    return Sentences(ragged(rows, PADDING), ragged(words, IGNORE))


def ragged(rows: list[np.ndarray], fill: int) -> Ragged:
    """Rows of which the first, an empty one, is left out."""
    sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
    return Ragged(torch.from_numpy(np.concatenate(rows).astype(np.int32)), sizes, fill)
