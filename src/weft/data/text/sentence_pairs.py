"""Two sentences, of which the second follows the first in the text or is taken from elsewhere (Devlin et al., 2018).

An example is a place between two sentences of a document. The first part is the text before it, the second the text after
it or, half of the time, the text from a random sentence of another document on; both are drawn from the example's key. Where there are
few documents, a model learns them by heart and tells the parts' documents apart; so in training some wrong parts may be taken from the
same document, which only reading can tell. Packed
as [CLS] first [SEP] second [SEP], the longer part cut at its far end until it fits, then [PAD]. As in the paper, a part taken
from elsewhere may open its document, which a second part never does: some of the answer lies in the second part alone.

Batch: ids (B, T), segments (B, T) 0 up to the first [SEP] and 1 up to the second, lengths (B,), pair (B,) 0 where the second
follows and 1 where it does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.text.documentation import documents
from weft.data.text.windows import as_tensor, refuse_padding
from weft.data.tokenizers.base import WORD, Tokenizer, WordTokenizer
from weft.data.tokenizers.encoder_tokens import Marks, Unit, given_or_learned, marks_of

END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNKNOWN, CLS, SEP, MASK = range(5)
NEAR = 50
"""Documents of fewer sentences give no wrong parts for themselves: what stands there may well follow."""


class BERTWordTokenizer(WordTokenizer):
    """Words in lower case, after the marks that BERT puts between them; id 0 is [PAD] and nothing else."""

    name = "bert_words"
    marks = {"padding": PAD, "unknown": UNKNOWN, "cls": CLS, "sep": SEP, "mask": MASK}

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        frequent = WordTokenizer.train(text.lower().replace("\n", " "), (limit or 10_000) - len(MARKS) + 1)
        assert isinstance(frequent, WordTokenizer)
        return cls(MARKS + frequent.words[1:])

    def encode(self, text: str) -> np.ndarray:
        found = WORD.findall(text.lower().replace("\n", " "))
        return np.array([self._ids.get(word, UNKNOWN) for word in found], dtype=np.int64)

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """ids (N,) and the characters where each begins and ends (N, 2)."""
        found = list(WORD.finditer(text.lower().replace("\n", " ")))
        owner = [place for place, letter in enumerate(text) for _ in letter.lower()]  # of one letter, \u0130, it makes two
        places = [(owner[match.start()], owner[match.end() - 1] + 1) for match in found]
        ids = [self._ids.get(match.group(), UNKNOWN) for match in found]
        return np.array(ids, dtype=np.int64), np.array(places, dtype=np.int64).reshape(-1, 2)


class SentencePairs(Dataset):
    def __init__(
        self,
        tokens: Tensor,
        starts: Tensor,
        mates: Tensor,
        seconds: Tensor,
        context: int,
        marks: Marks,
        swapped: float = 0.5,
        same: float = 0.0,
    ):
        """tokens (N,); where each sentence starts, and the last ends (S + 1,); the range of sentences that is its document (S, 2);
        the sentences that follow another of their document (P,)."""
        self.tokens, self.starts, self.mates, self.seconds, self.context = tokens, starts, mates, seconds, context
        self.marks, self.swapped, self.same = marks, swapped, same

    def __len__(self) -> int:
        return len(self.seconds)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        pair = (random.uniform(random.fold(key, "swap"), 1).squeeze(1) < self.swapped).long()  # (B,)
        cut = self.seconds[index]
        return {**self.pack(cut, torch.where(pair == 1, self.elsewhere(cut, key), cut)), "pair": pair}

    def elsewhere(self, sentence: Tensor, key: Tensor) -> Tensor:
        """A sentence (B,) of another document, each as likely: a draw among the others, moved past one's own; or of the same document."""
        begin, end = self.mates[sentence].unbind(1)
        number = random.integers(random.fold(key, "elsewhere"), 1 << 62, 1).squeeze(1)
        draw = number % (len(self.mates) - (end - begin))
        other = torch.where(draw >= begin, draw + (end - begin), draw)
        if not self.same:
            return other
        inside = begin + number % (end - begin - 1).clamp(min=1)  # any but the one that follows
        inside = torch.where(inside >= sentence, inside + 1, inside)
        near = (random.uniform(random.fold(key, "same"), 1).squeeze(1) < self.same) & (end - begin > NEAR)
        return torch.where(near, inside, other)

    def pack(self, first: Tensor, second: Tensor) -> Batch:
        """What stands before one sentence (B,), and another sentence with what follows (B,) -> ids, segments, lengths."""
        room = self.context - 3
        left, right = self.starts[first], self.starts[second]
        a, b = left - self.starts[self.mates[first, 0]], self.starts[self.mates[second, 1]] - right
        b = torch.minimum(b, (room - a).clamp(min=room // 2))
        a = torch.minimum(a, room - b)
        t, a, b = torch.arange(self.context, device=first.device), a[:, None], b[:, None]
        in_second = t > a + 1
        place = torch.where(in_second, right[:, None] + t - a - 2, left[:, None] + t - a - 1)
        ids = self.tokens[place.clamp(0, len(self.tokens) - 1)].long()
        inside = t < a + b + 3
        marks = self.marks
        ids = ids.masked_fill((t == a + 1) | (t == a + b + 2), marks.sep).masked_fill(t == 0, marks.cls).masked_fill(~inside, marks.padding)
        return {"ids": ids, "segments": (in_second & inside).long(), "lengths": (a + b + 3).squeeze(1)}

    def to(self, device: torch.device) -> Dataset:
        tokens, starts, mates, seconds = (tensor.to(device) for tensor in (self.tokens, self.starts, self.mates, self.seconds))
        return SentencePairs(tokens, starts, mates, seconds, self.context, self.marks, self.swapped, self.same)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


@dataclass(frozen=True, kw_only=True)
class SentencePairsConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them, paragraphs apart by blank lines; empty takes the docstrings of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    unit: Unit = "bert_words"
    """What a token is, where the model has none yet: whole words, or WordPiece's pieces of them."""
    vocabulary: int = 5000
    """Largest number of words or pieces, the five marks included."""
    context: int = 64
    """Tokens per example T, marks included; longer pairs are cut."""
    swapped: float = 0.5
    """Share of the pairs whose second part is taken from elsewhere."""
    same: float = 0.0
    """Share of those that, in training, are taken from the same document where it is long; validation takes all from others."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Any) -> Data:
        if self.context < 5 or self.vocabulary <= len(MARKS):
            raise ConfigError(f"--data.context must be at least 5 and --data.vocabulary above 5, not {self.context} and {self.vocabulary}")
        for name in ("swapped", "same"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"--data.{name} must be from 0 to 1, not {getattr(self, name)}")
        problems = Problems()
        train, held = documents(self.path, self.validation_path, self.validation, problems)
        tokenizer = given_or_learned(tokenizer, self.unit, train, self.vocabulary)
        first, second = self._dataset(train, tokenizer, self.same), self._dataset(held, tokenizer, 0.0)
        if first is None:
            raise DataError(
                "the text has no two paragraphs, one of them of two sentences; sentences end in . ! or ?, and paragraphs in a blank line"
            )
        refuse_padding(self.context, len(first.tokens))
        if held and second is None:
            problems.add("a validation text without pairs of sentences, left out", f"{len(held)} paragraphs")
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context,
            "mask": tokenizer.marks["mask"],
            "marks": max(tokenizer.marks.values()) + 1,
            "training_pairs": len(first),
            "validation_pairs": len(second) if second else 0,
        }
        return Data(first, second, info, tokenizer, problems)

    def _dataset(self, group: list[str], tokenizer: Tokenizer, same: float) -> SentencePairs | None:
        """The pairs of some documents, or None where there are none, or nothing to mistake them for."""
        sentences: list[np.ndarray] = []
        mates: list[tuple[int, int]] = []
        seconds: list[int] = []
        for document in group:
            found = [ids for ids in map(tokenizer.encode, END.split(document)) if len(ids)]
            begin, end = len(sentences), len(sentences) + len(found)
            mates += [(begin, end)] * len(found)
            seconds += range(begin + 1, end)
            sentences += found
        if not seconds or mates[0][1] == len(sentences):
            return None
        tokens = as_tensor(np.concatenate(sentences), tokenizer.size)
        starts = torch.from_numpy(np.cumsum([0, *map(len, sentences)]))
        parts = (tokens, starts, torch.tensor(mates), torch.tensor(seconds))
        return SentencePairs(*parts, self.context, marks_of(tokenizer), self.swapped, same)
