"""Texts with their classes, each as the rows of its words and n-grams in fastText's way: a file as for `labelled_texts`, or fastText's
own layout, `__label__CLASS text` on each line; without a file, docstrings of the standard library and the package each is from.

Batch: ids (B, T), the rows of each text in no order that matters; segments (B, T), 0; lengths (B,); label (B,).
"""

from __future__ import annotations

import sysconfig
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.labelled_texts import LabelledExample, LabelledTextsConfig
from weft.data.base import Problems
from weft.data.io.files import locate, show
from weft.data.io.text import read_all, read_texts
from weft.data.text.documentation import docstrings, paragraphs
from weft.data.text.packing import Packed, Texts
from weft.data.text.python_source import python_files
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.character_ngrams import LABEL, FastTextTokenizer, frequent, split

PACKAGES, FEWEST = 12, 100
"""Packages of the embedded data, the largest, and paragraphs that each must have."""


@dataclass(frozen=True, kw_only=True)
class BagsConfig(LabelledTextsConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a text and its class per row, or fastText's `__label__CLASS text` on each line; empty
    takes docstrings of the standard library, each with the package it is from."""
    tokenizer: Literal["fasttext"] = "fasttext"  # type: ignore[assignment]
    """Words between spaces, their n-grams of characters and n-grams of words."""
    vocabulary: int = 0
    """Largest number of words; 0 is 50,000."""
    min_count: int = 1
    """Rarest word: occurrences that a word must have for a row of its own."""
    minn: int = 0
    """Shortest n-gram of characters."""
    maxn: int = 0
    """Longest n-gram of characters; 0 for none."""
    word_ngrams: int = 2
    """Longest n-gram of words; 1 for none."""
    buckets: int = 50_000
    """Rows that n-grams are hashed to."""
    context: int = 4096
    """Most rows of a text; what is beyond is left out."""

    def check(self) -> None:
        super().check()
        if (
            not 0 <= self.minn <= 64
            or not 0 <= self.maxn <= 64
            or not 1 <= self.word_ngrams <= 64
            or self.buckets < 0
            or self.min_count < 1
        ):
            raise ConfigError(
                "--data.minn and --data.maxn must be from 0 to 64, --data.word_ngrams from 1 to 64, --data.buckets not negative and "
                f"--data.min_count at least 1, not {self.minn}, {self.maxn}, {self.word_ngrams}, {self.buckets} and {self.min_count}"
            )

    def read(self, path: str, problems: Problems) -> list[LabelledExample]:
        if not path:
            return standard_library(problems)
        if begins_with_label(locate(path)):
            [text] = read_texts(path, problems)
            return prefixed(text.split("\n"), path, problems)
        return super().read(path, problems)

    def tokens(self, tokenizer: Tokenizer | None, texts: list[str]) -> FastTextTokenizer:
        given = getattr(tokenizer, "tokens", tokenizer)
        if isinstance(given, FastTextTokenizer):
            return given
        words = frequent(
            (word for text in texts for word in [*split(text.replace("\n", " ")), "</s>"]), self.vocabulary or 50_000, self.min_count
        )
        uses = self.maxn > 0 or self.word_ngrams > 1
        return FastTextTokenizer(words, self.minn, self.maxn, self.buckets if uses else 0, None, self.word_ngrams)

    def packed(self, texts: Iterable[Texts], tokenizer: Tokenizer, problems: Problems) -> Packed:
        rows = [np.zeros(0, dtype=np.int64)]
        for text in texts:
            ids = tokenizer.encode(" ".join(text.parts))
            if len(ids) > self.context:
                problems.add(f"texts of more than {self.context} words and n-grams, of which the others were left out", text.location)
            rows.append(ids[: self.context])
        sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
        return Packed(Ragged(torch.from_numpy(np.concatenate(rows).astype(np.int32)), sizes, fill=0), sizes)


def begins_with_label(path: Path) -> bool:
    """Whether a file is in fastText's own layout."""
    if path.suffix == ".gz" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \n").startswith(LABEL.encode())


def prefixed(lines: list[str], path: str, problems: Problems) -> list[LabelledExample]:
    """The examples of `__label__CLASS text`."""
    examples = []
    for number, line in enumerate(lines, 1):
        words = split(line)
        labels, where = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)], f"{show(path)}:{number}"
        text = " ".join(word for word in words if not word.startswith(LABEL))
        if not words:
            continue
        if not labels or not text:
            problems.add("lines without a label or without a text, left out", where)
            continue
        if len(labels) > 1:
            problems.add("lines with several labels, of which the first was taken", where)
        examples.append(LabelledExample(Texts((text,), where), labels[0], ("text",)))
    if not examples:
        raise DataError(f"{show(path)}: holds no line with a label and a text")
    return examples


def standard_library(problems: Problems) -> list[LabelledExample]:
    """Paragraphs of docstrings, each with the package it is from, of the largest packages."""
    root = Path(sysconfig.get_paths()["stdlib"])
    groups: dict[str, list[Path]] = {}
    for path in python_files():
        groups.setdefault(path.relative_to(root).parts[0].removesuffix(".py"), []).append(path)
    examples = []
    for package, files in groups.items():
        for source in read_all(files, problems):
            for text in (part for document in docstrings(source) for part in paragraphs(document)):
                if len(text.split()) > 4:
                    examples.append(LabelledExample(Texts((" ".join(text.split()),), package), package, ("text",)))
    counts = Counter(example.label for example in examples)
    kept = {name for name, count in counts.most_common(PACKAGES) if count >= FEWEST}
    return [example for example in examples if example.label in kept]
