"""Sentences whose words have tags: parts of speech, or the names in a text (Devlin et al., 2018, section 5.3).

[CLS] words [SEP], where the first token of each word carries its tag. A sentence too long for the context is read in pieces.
Batch: ids (B, T), lengths (B,), tags (B, T) with IGNORE where no word begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.sentences import Layout, Sentence, read_sentences
from weft.data.base import IGNORE, Batch, Data, Dataset, Problems
from weft.data.io.files import show
from weft.data.split import both, note_single_class, number_classes
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import marks_of


class TagTokenizer(LabelledTokenizer):
    """The tokens of words, and the names of their tags."""

    name = "tagged"


class Piece(NamedTuple):
    """Words of a sentence that are read together."""

    sentence: Sentence
    first: int
    """The number of its first word in the sentence."""
    places: np.ndarray
    """Of the first token of each word in the sequence."""


class Tagged(Dataset):
    def __init__(self, ids: Ragged, tags: Ragged, pieces: list[Piece]):
        self.ids, self.tags, self.pieces = ids, tags, pieces

    def __len__(self) -> int:
        return len(self.pieces)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        lengths = self.ids.sizes.index_select(0, index)
        return {"ids": self.ids.rows(index).long(), "lengths": lengths, "tags": self.tags.rows(index).long()}

    def to(self, device: torch.device) -> Dataset:
        return Tagged(self.ids.to(device), self.tags.to(device), self.pieces)

    @property
    def device(self) -> torch.device:
        return self.ids.values.device


@dataclass(frozen=True, kw_only=True)
class TaggedConfig(AnnotatedConfig):
    path: str = ""
    """A file (plain or .gz) with a word, a tab and its tag on each line and blank lines between sentences, or with word/tag; or a
    zip archive of such files."""
    layout: Layout = "detect"
    """lines: a word and its tag on each line; slashes: a sentence on each line, as word/tag."""
    cut: str = ""
    """Characters before which a tag ends, unless it begins with them: "-+*" makes nn of nn-tl and of nn+bez."""

    def prepare(self, train: list[Sentence], held: list[Sentence], known: Tokenizer | None, problems: Problems) -> Data:
        tokens = self.tokens(known, [" ".join(sentence.words) for sentence in train])
        tags = number_classes([tag for sentence in train for tag in sentence.tags])[1]
        tokenizer = known if isinstance(known, TagTokenizer) else TagTokenizer(tokens, tags)
        note_single_class(tokenizer.classes, problems)
        first, second = both(partial(self.dataset, tokenizer=tokenizer, problems=problems), train, held)
        if not (first.tags.values != IGNORE).any():
            few = ", ".join(tokenizer.classes[:10])
            raise DataError(f"{show(self.path)}: none of its tags is one that this model knows ({few}); train another model on it")
        facts = {
            "tokens": first.ids.longest,
            "classes": len(tokenizer.classes),
            "training_sentences": len(train),
            "training_words": sum(len(sentence.words) for sentence in train),
            "validation_sentences": len(held),
        }
        return self.finish(first, second, tokenizer, problems, facts)

    def read(self, path: str, problems: Problems) -> list[Sentence]:
        found = read_sentences(path, self.layout, problems)
        return [sentence._replace(tags=tuple(map(self._short, sentence.tags))) for sentence in found] if self.cut else found

    def _short(self, tag: str) -> str:
        return tag[: next((place for place, letter in enumerate(tag) if place and letter in self.cut), len(tag))]

    def dataset(self, sentences: list[Sentence], tokenizer: TagTokenizer, problems: Problems) -> Tagged:
        """Some sentences, in pieces that fit the context."""
        marks, number = marks_of(tokenizer.tokens), {tag: place for place, tag in enumerate(tokenizer.classes)}
        room = self.context - 2
        encode = cache(lambda word: tokenizer.tokens.encode(word).tolist() or [marks.unknown])
        rows, tags, pieces = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], list[Piece]()
        for sentence in sentences:
            for tag in sentence.tags:
                if tag not in number:
                    problems.add("words whose tag training does not have, not counted", f"{sentence.place} ({show(tag[:40])})")
            encoded = [encode(word) for word in sentence.words]
            if sum(map(len, encoded)) > room:
                problems.add(f"sentences cut where they exceed {self.context} tokens", sentence.place)
            for first, words in cut_words([word[:room] for word in encoded], room):
                places = np.cumsum([1, *map(len, words[:-1])])
                rows.append(np.array([marks.cls, *(token for word in words for token in word), marks.sep]))
                row = np.full(len(rows[-1]), IGNORE)
                row[places] = [number.get(tag, IGNORE) for tag in sentence.tags[first : first + len(words)]]
                tags.append(row)
                pieces.append(Piece(sentence, first, places))
        sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
        values = (torch.from_numpy(np.concatenate(part).astype(np.int32)) for part in (rows, tags))
        return Tagged(Ragged(next(values), sizes, marks.padding), Ragged(next(values), sizes, IGNORE), pieces)


def cut_words(words: list[list[int]], room: int) -> Iterator[tuple[int, list[list[int]]]]:
    """The words, each its tokens, in runs of at most `room` tokens; each with the number of its first word."""
    first, size = 0, 0
    for place, word in enumerate(words):
        if size + len(word) > room:
            yield first, words[first:place]
            first, size = place, 0
        size += len(word)
    yield first, words[first:]
