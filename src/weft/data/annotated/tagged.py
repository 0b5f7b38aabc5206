"""Sentences whose words have tags: parts of speech, or the names in a text (Devlin et al., 2018, section 5.3).

[CLS] words [SEP], where the first token of each word carries its tag. A sentence too long for the context is split into chunks.
Batch: ids (B, T), lengths (B,), tags (B, T) with IGNORE at all positions but the first token of a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.sentences import Layout, Sentence, read_sentences
from weft.data.base import IGNORE, Batch, Data, Dataset, Problems
from weft.data.io.files import show
from weft.data.split import map_splits, number_classes
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import special_tokens_of

TagUnit = Literal["wordpiece", "bert_words", "tagger_words", "word_characters"]


class TagTokenizer(LabelledTokenizer):
    """A tokenizer and the names of the tags."""

    name = "tagged"


class SentenceChunk(NamedTuple):
    """Consecutive words of a sentence that fit the context."""

    sentence: Sentence
    first: int
    """Index of its first word in the sentence."""
    positions: np.ndarray
    """Position in the sequence of the first token of each word."""


class Tagged(Dataset):
    def __init__(self, ids: Ragged, tags: Ragged, chunks: list[SentenceChunk]):
        self.ids, self.tags, self.chunks = ids, tags, chunks

    def __len__(self) -> int:
        return len(self.chunks)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        lengths = self.ids.sizes.index_select(0, index)
        return {"ids": self.ids.rows(index).long(), "lengths": lengths, "tags": self.tags.rows(index).long()}

    def to(self, device: torch.device) -> Dataset:
        return Tagged(self.ids.to(device), self.tags.to(device), self.chunks)

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
    tokenizer: TagUnit = "wordpiece"  # type: ignore[assignment]
    """Tokenizer that is trained on the data, where no model brings its own: pieces of words, whole words, or words as characters."""
    cut: str = ""
    """Characters before which a tag ends, unless it begins with them: "-+*" makes nn of nn-tl and of nn+bez."""

    def prepare(self, train: list[Sentence], validation: list[Sentence], tokenizer: Tokenizer | None, problems: Problems) -> Data:
        tokens = self.tokens(tokenizer, [" ".join(sentence.words) for sentence in train])
        tags = number_classes([tag for sentence in train for tag in sentence.tags])[1]
        with_tags = tokenizer if isinstance(tokenizer, TagTokenizer) else TagTokenizer(tokens, tags)
        first, second = map_splits(partial(self.dataset, tokenizer=with_tags, problems=problems), train, validation)
        if not (first.tags.values != IGNORE).any():
            few = ", ".join(with_tags.classes[:10])
            raise DataError(f"{show(self.path)}: none of its tags is one of the model's ({few}); train another model on it")
        facts = {
            "tokens": first.ids.longest,
            "classes": len(with_tags.classes),
            "class_names": with_tags.classes,
            "training_sentences": len(train),
            "training_words": sum(len(sentence.words) for sentence in train),
            "validation_sentences": len(validation),
        }
        return self.finish(first, second, with_tags, problems, facts)

    def read(self, path: str, problems: Problems) -> list[Sentence]:
        sentences = read_sentences(path, self.layout, problems)
        return [sentence._replace(tags=tuple(map(self._short, sentence.tags))) for sentence in sentences] if self.cut else sentences

    def _short(self, tag: str) -> str:
        return tag[: next((index for index, letter in enumerate(tag) if index and letter in self.cut), len(tag))]

    def dataset(self, sentences: list[Sentence], tokenizer: TagTokenizer, problems: Problems) -> Tagged:
        """The sentences as chunks that fit the context."""
        special, tag_ids = special_tokens_of(tokenizer.tokens), {tag: index for index, tag in enumerate(tokenizer.classes)}
        limit = self.context - 2
        encode = cache(lambda word: tokenizer.tokens.encode(word).tolist() or [special.unknown])
        rows, tags, chunks = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], list[SentenceChunk]()
        for sentence in sentences:
            for tag in sentence.tags:
                if tag not in tag_ids:
                    problems.add("words whose tag does not occur in training, ignored", f"{sentence.location} ({show(tag[:40])})")
            encoded = [encode(word) for word in sentence.words]
            if sum(map(len, encoded)) > limit:
                problems.add(f"sentences split where they exceed {self.context} tokens", sentence.location)
            for first, words in split_words([word[:limit] for word in encoded], limit):
                positions = np.cumsum([1, *map(len, words[:-1])])
                rows.append(np.array([special.cls, *(token for word in words for token in word), special.sep]))
                row = np.full(len(rows[-1]), IGNORE)
                row[positions] = [tag_ids.get(tag, IGNORE) for tag in sentence.tags[first : first + len(words)]]
                tags.append(row)
                chunks.append(SentenceChunk(sentence, first, positions))
        sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
        values = (torch.from_numpy(np.concatenate(part).astype(np.int32)) for part in (rows, tags))
        return Tagged(Ragged(next(values), sizes, special.padding), Ragged(next(values), sizes, IGNORE), chunks)


def split_words(words: list[list[int]], limit: int) -> Iterator[tuple[int, list[list[int]]]]:
    """The words, each its tokens, in runs of at most `limit` tokens, each with the index of its first word."""
    first, size = 0, 0
    for index, word in enumerate(words):
        if size + len(word) > limit:
            yield first, words[first:index]
            first, size = index, 0
        size += len(word)
    yield first, words[first:]
