"""Pairs of texts from a TSV, CSV or JSONL file: sentence and translation, prompt and completion.

Batch: source (B, S), its tokens and END; target (B, T), START, its tokens and END; both int64 and padded with PAD;
source_length and target_length (B,), without padding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.io.records import Header, Records, Separator, read_records
from weft.data.io.text import read_text
from weft.data.split import check_share, hold_out, map_splits
from weft.data.text.length_buckets import LengthBuckets
from weft.data.text.ragged import Ragged
from weft.data.text.token_windows import Unit, check_sizes
from weft.data.tokenizers.base import Tokenizer, WordTokenizer
from weft.data.tokenizers.extended_vocabulary import MOST, ExtendedVocabulary
from weft.data.tokenizers.special_tokens import PAD, Seq2SeqTokenizer
from weft.data.tokenizers.unknown import note_unknown


@dataclass(frozen=True, kw_only=True)
class PairsConfig(DataConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a pair per row; with target_path, a text with a source on each line."""
    target_path: str = ""
    """A text whose lines are the targets of those of `path`."""
    validation_path: str = ""
    """Pairs to validate on; by default a share of `path`."""
    validation_target_path: str = ""
    """The target lines of validation_path, where the pairs are in two files."""
    validation: float = 0.1
    """Share of the pairs kept for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    source: str = ""
    """Column of the first text, by name or by number from 1; by default the one called source, else the first."""
    target: str = ""
    """Column of the second text; by default the one called target, else the second."""
    header: Header = "detect"
    """Whether the first line names the columns."""
    separator: Separator = "detect"
    """The delimiter between cells."""
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000. Bytes and characters need no limit."""
    min_count: int = 1
    """Words that fewer training pairs than this hold are unknown words, of the tokenizer `words`."""
    oov_words: int = 0
    """Extended vocabulary, of the tokenizer `words`: so many unknown words of a source have ids of their own, which a pointer-generator
    copies; 0 for none."""
    max_length: int = 256
    """Longest text in tokens; longer ones are truncated."""
    batch_tokens: int = 0
    """Tokens of a batch of pairs of similar length, on the mean of both sides and without padding, to within 5 % where there are ten
    batches; an example is then a whole batch. 0 for single pairs."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self._check()
        problems = Problems(encoding=check_encoding(self.encoding))
        train, validation = self._read(problems)
        if not isinstance(tokenizer, Seq2SeqTokenizer):
            tokenizer = self._tokenizer(train, validation)
        first, second = map_splits(partial(self._dataset, tokenizer=tokenizer, problems=problems), train, validation)
        info: dict[str, Any] = {
            "vocabulary": tokenizer.size,
            "oov_words": getattr(tokenizer, "oov_words", 0),
            "context": self.max_length + 2,
            "start": tokenizer.start,
            "end": tokenizer.end,
            "tokens": self.batch_tokens or first.source.longest + first.target.longest,
            "training_examples": len(first),
            "validation_examples": len(second),
        }
        if not self.batch_tokens:
            return Data(first, second if len(second) else None, info, tokenizer, problems)
        batches = LengthBuckets(first, self.batch_tokens, self.max_length + 2)
        info |= {"batches": len(batches), "padding": batches.padding}
        return Data(batches, second if len(second) else None, info, tokenizer, problems)

    def _tokenizer(self, train: list[tuple[str, str]], validation: list[tuple[str, str]]) -> Seq2SeqTokenizer:
        """One that is trained on the data."""
        texts = "\n".join(text for pair in (train + validation if self.tokenizer == "characters" else train) for text in pair)
        if self.min_count == 1 and not self.oov_words:
            return Seq2SeqTokenizer(registry.find("tokenizers", self.tokenizer).train(texts, self.vocabulary))
        pairs = Counter(word for pair in train for word in set(WordTokenizer.split("\n".join(pair))))
        counts = {word: number for word, number in Counter(WordTokenizer.split(texts)).items() if pairs[word] >= self.min_count}
        inner = WordTokenizer.of_counts(counts, self.vocabulary)
        return ExtendedVocabulary(inner, self.oov_words) if self.oov_words else Seq2SeqTokenizer(inner)

    def _check(self) -> None:
        check_share(self.validation)
        check_sizes(self.max_length, self.vocabulary, flag="max_length")
        if self.min_count < 1 or not 0 <= self.oov_words <= MOST:
            given = f"{self.min_count} and {self.oov_words}"
            raise ConfigError(f"--data.min-count must be at least 1 and --data.oov-words from 0 to {MOST}, not {given}")
        if self.tokenizer != "words" and (self.min_count > 1 or self.oov_words):
            raise ConfigError(f"--data.min-count and --data.oov-words are for --data.tokenizer words, not {self.tokenizer}")

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if bool(self.validation_target_path) and not (self.target_path and self.validation_path):
            raise ConfigError("--data.validation-target-path needs --data.target-path and --data.validation-path too")
        pairs = self.read(self.path, self.target_path, problems)
        if (self.validation_path, self.validation_target_path) == (self.path, self.target_path):
            return pairs, pairs
        if self.validation_path:
            return pairs, self.read(self.validation_path, self.validation_target_path, problems)
        train, validation = hold_out(np.zeros(len(pairs), dtype=np.int64), self.validation, problems)
        return [pairs[i] for i in train], [pairs[i] for i in validation]

    def read(self, path: str, target_path: str, problems: Problems) -> list[tuple[str, str]]:
        """The pairs of one file, or of two, without those with an empty side."""
        if target_path:
            return self._read_lines(path, target_path, problems)
        rows = read_records(path, problems, self.header, self.separator, self.source or self.target)
        if len(rows.names) < 2:
            raise DataError(f"{rows.path}: has one column only; a source and a target are needed, with tab or comma between")
        source, target = self._column(rows, self.source, "source", 0), self._column(rows, self.target, "target", 1)
        pairs = []
        for row, cells in enumerate(rows.cells):
            if cells[source].strip() and cells[target].strip():
                pairs.append((cells[source], cells[target]))
            else:
                problems.add("pairs with an empty side, left out", rows.location(row))
        if not pairs:
            raise DataError(f"{rows.path}: holds no pair with a text in both {rows.names[source]!r} and {rows.names[target]!r}")
        return pairs

    @staticmethod
    def _read_lines(path: str, target_path: str, problems: Problems) -> list[tuple[str, str]]:
        sides = [read_text(side, problems).removesuffix("\n").split("\n") for side in (path, target_path)]
        if len(sides[0]) != len(sides[1]):
            raise DataError(f"{path} has {len(sides[0])} lines and {target_path} {len(sides[1])}; each line needs its counterpart")
        pairs = []
        for number, pair in enumerate(zip(*sides, strict=True), 1):
            if pair[0].strip() and pair[1].strip():
                pairs.append(pair)
            else:
                problems.add("pairs with an empty side, left out", f"{path}:{number}")
        if not pairs:
            raise DataError(f"{path} and {target_path}: hold no pair with a text on both sides")
        return pairs

    @staticmethod
    def _column(rows: Records, name: str, flag: str, default: int) -> int:
        lower = [name.lower() for name in rows.names]
        if name:
            return rows.column(name, f"--data.{flag}")
        return lower.index(flag) if flag in lower else default

    def _dataset(self, pairs: list[tuple[str, str]], tokenizer: Seq2SeqTokenizer, problems: Problems) -> Pairs:
        sides = []
        for side, prefix in ((0, ()), (1, (tokenizer.start,))):
            note_unknown(tokenizer, (pair[side] for pair in pairs), problems)
            own = [tokenizer.for_source(pair[0]) for pair in pairs]
            ids = [(each.encode_target if side else each.encode)(pair[side]) for each, pair in zip(own, pairs, strict=True)]
            cut = sum(len(row) > self.max_length for row in ids)
            if cut:
                problems.add(f"texts truncated to {self.max_length} tokens", ("source", "target")[side], cut)
            sides.append(concatenate([np.concatenate((prefix, row[: self.max_length], (tokenizer.end,))) for row in ids]))
        return Pairs(sides[0], sides[1], pairs)


def concatenate(rows: list[np.ndarray]) -> Ragged:
    sizes = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    values = np.concatenate(rows) if rows else np.zeros(0)
    return Ragged(torch.from_numpy(values.astype(np.int32)), sizes, fill=PAD)


class Pairs(Dataset):
    def __init__(self, source: Ragged, target: Ragged, texts: Sequence[tuple[str, str]]):
        """texts: of each pair as the data have them, whole and in no tokenizer's spelling, by which answers are judged."""
        self.source, self.target, self.texts = source, target, texts

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        batch = {}
        for name, side in (("source", self.source), ("target", self.target)):
            batch[name], batch[f"{name}_length"] = side.rows(index).long(), side.sizes.index_select(0, index)
        return batch

    def to(self, device: torch.device) -> Dataset:
        return Pairs(self.source.to(device), self.target.to(device), self.texts)

    @property
    def device(self) -> torch.device:
        return self.source.values.device
