"""Two sentences, of which the second follows the first in the text or is taken from elsewhere (Devlin et al., 2018).

An example is a boundary between two sentences of a document. The first part is the text before it, the second the text after
it or, half of the time, the text from a random sentence of another document on; both are drawn from the example's key. With
few documents a model memorises them and recognises the documents of the parts; so in training some negatives may be taken from the
same document, which needs reading. Packed
as [CLS] first [SEP] second [SEP], the longer part truncated at its far end until it fits, then [PAD]. As in the paper, a negative
may begin a document, which a true second part never does: the second part alone gives away some of the answer.

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
from weft.data.io.encodings import check_encoding
from weft.data.text.documentation import documents
from weft.data.text.token_windows import as_tensor, refuse_padding
from weft.data.tokenizers.base import WORD, Tokenizer, WordTokenizer
from weft.data.tokenizers.encoder_tokens import SpecialTokens, Unit, encoder_tokenizer, special_tokens_of

END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNKNOWN, CLS, SEP, MASK = range(5)
MIN_SENTENCES = 50
"""Documents of fewer sentences give no negatives for themselves: any of their sentences may well follow."""


class BERTWordTokenizer(WordTokenizer):
    """Lower-case words after the special tokens of BERT; id 0 is [PAD] only."""

    name = "bert_words"
    special_tokens = {"padding": PAD, "unknown": UNKNOWN, "cls": CLS, "sep": SEP, "mask": MASK}

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        frequent = WordTokenizer.train(text.lower().replace("\n", " "), (limit or 10_000) - len(SPECIAL_TOKENS) + 1)
        assert isinstance(frequent, WordTokenizer)
        return cls(SPECIAL_TOKENS + frequent.words[1:])

    def encode(self, text: str) -> np.ndarray:
        words = WORD.findall(text.lower().replace("\n", " "))
        return np.array([self._ids.get(word, UNKNOWN) for word in words], dtype=np.int64)

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """ids (N,) and the first and end character of each (N, 2)."""
        words = list(WORD.finditer(text.lower().replace("\n", " ")))
        source_index = [index for index, letter in enumerate(text) for _ in letter.lower()]  # lower() makes two letters of one, \u0130
        offsets = [(source_index[match.start()], source_index[match.end() - 1] + 1) for match in words]
        ids = [self._ids.get(match.group(), UNKNOWN) for match in words]
        return np.array(ids, dtype=np.int64), np.array(offsets, dtype=np.int64).reshape(-1, 2)


class SentencePairs(Dataset):
    def __init__(
        self,
        tokens: Tensor,
        starts: Tensor,
        document_ranges: Tensor,
        seconds: Tensor,
        context: int,
        special_tokens: SpecialTokens,
        negative_rate: float = 0.5,
        same_document_rate: float = 0.0,
    ):
        """tokens (N,); starts (S + 1,) of the sentences, and the end of the last; document_ranges (S, 2), the sentences of its document;
        seconds (P,), the sentences that follow another of their document."""
        self.tokens, self.starts, self.document_ranges, self.seconds, self.context = tokens, starts, document_ranges, seconds, context
        self.special_tokens, self.negative_rate, self.same_document_rate = special_tokens, negative_rate, same_document_rate

    def __len__(self) -> int:
        return len(self.seconds)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        pair = (random.uniform(random.fold(key, "swap"), 1).squeeze(1) < self.negative_rate).long()  # (B,)
        second_sentence = self.seconds[index]
        return {
            **self.pack(second_sentence, torch.where(pair == 1, self.random_sentence(second_sentence, key), second_sentence)),
            "pair": pair,
        }

    def random_sentence(self, sentence: Tensor, key: Tensor) -> Tensor:
        """A uniformly random sentence (B,) of another document, or with probability `same` of the same one."""
        begin, end = self.document_ranges[sentence].unbind(1)
        number = random.integers(random.fold(key, "elsewhere"), 1 << 62, 1).squeeze(1)
        draw = number % (len(self.document_ranges) - (end - begin))
        other = torch.where(draw >= begin, draw + (end - begin), draw)
        if not self.same_document_rate:
            return other
        inside = begin + number % (end - begin - 1).clamp(min=1)  # any but the one that follows
        inside = torch.where(inside >= sentence, inside + 1, inside)
        near = (random.uniform(random.fold(key, "same"), 1).squeeze(1) < self.same_document_rate) & (end - begin > MIN_SENTENCES)
        return torch.where(near, inside, other)

    def pack(self, first: Tensor, second: Tensor) -> Batch:
        """The text before one sentence (B,), and that from another sentence on (B,) -> ids, segments, lengths."""
        room = self.context - 3
        left, right = self.starts[first], self.starts[second]
        a, b = left - self.starts[self.document_ranges[first, 0]], self.starts[self.document_ranges[second, 1]] - right
        b = torch.minimum(b, (room - a).clamp(min=room // 2))
        a = torch.minimum(a, room - b)
        t, a, b = torch.arange(self.context, device=first.device), a[:, None], b[:, None]
        in_second = t > a + 1
        position = torch.where(in_second, right[:, None] + t - a - 2, left[:, None] + t - a - 1)
        ids = self.tokens[position.clamp(0, len(self.tokens) - 1)].long()
        inside = t < a + b + 3
        special_tokens = self.special_tokens
        ids = (
            ids.masked_fill((t == a + 1) | (t == a + b + 2), special_tokens.sep)
            .masked_fill(t == 0, special_tokens.cls)
            .masked_fill(~inside, special_tokens.padding)
        )
        return {"ids": ids, "segments": (in_second & inside).long(), "lengths": (a + b + 3).squeeze(1)}

    def to(self, device: torch.device) -> Dataset:
        tokens, starts, document_ranges, seconds = (
            tensor.to(device) for tensor in (self.tokens, self.starts, self.document_ranges, self.seconds)
        )
        return SentencePairs(
            tokens, starts, document_ranges, seconds, self.context, self.special_tokens, self.negative_rate, self.same_document_rate
        )

    @property
    def device(self) -> torch.device:
        return self.tokens.device


@dataclass(frozen=True, kw_only=True)
class SentencePairsConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them, paragraphs separated by blank lines; empty takes the docstrings of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    tokenizer: Unit = "bert_words"
    """Tokenizer that is trained on the data, where no model brings its own: words, or WordPiece's pieces of them."""
    vocabulary: int = 5000
    """Largest number of words or pieces, the five special tokens included."""
    context: int = 64
    """Tokens per example T, special tokens included; longer pairs are truncated."""
    negative_rate: float = 0.5
    """Share of the pairs whose second part is taken from elsewhere."""
    same_document_rate: float = 0.0
    """Share of those that, in training, are taken from the same document where it is long; validation takes all from others."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Any) -> Data:
        if self.context < 5 or self.vocabulary <= len(SPECIAL_TOKENS):
            raise ConfigError(f"--data.context must be at least 5 and --data.vocabulary above 5, not {self.context} and {self.vocabulary}")
        for name in ("negative_rate", "same_document_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"--data.{name} must be from 0 to 1, not {getattr(self, name)}")
        problems = Problems(encoding=check_encoding(self.encoding))
        train, validation = documents(self.path, self.validation_path, self.validation, problems)
        tokenizer = encoder_tokenizer(tokenizer, self.tokenizer, train, self.vocabulary)
        first, second = self._dataset(train, tokenizer, self.same_document_rate), self._dataset(validation, tokenizer, 0.0)
        if first is None:
            raise DataError(
                "the text has no two paragraphs, one of them of two sentences; sentences end in . ! or ?, and paragraphs in a blank line"
            )
        refuse_padding(self.context, len(first.tokens))
        if validation and second is None:
            problems.add("a validation text without pairs of sentences, left out", f"{len(validation)} paragraphs")
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context,
            "mask": tokenizer.special_tokens["mask"],
            "special_tokens": max(tokenizer.special_tokens.values()) + 1,
            "training_pairs": len(first),
            "validation_pairs": len(second) if second else 0,
        }
        return Data(first, second, info, tokenizer, problems)

    def _dataset(self, group: list[str], tokenizer: Tokenizer, same_document_rate: float) -> SentencePairs | None:
        """The pairs of some documents, or None where there are no pairs, or no negatives."""
        sentences: list[np.ndarray] = []
        document_ranges: list[tuple[int, int]] = []
        seconds: list[int] = []
        for document in group:
            encoded = [ids for ids in map(tokenizer.encode, END.split(document)) if len(ids)]
            begin, end = len(sentences), len(sentences) + len(encoded)
            document_ranges += [(begin, end)] * len(encoded)
            seconds += range(begin + 1, end)
            sentences += encoded
        if not seconds or document_ranges[0][1] == len(sentences):
            return None
        tokens = as_tensor(np.concatenate(sentences), tokenizer.size)
        starts = torch.from_numpy(np.cumsum([0, *map(len, sentences)]))
        parts = (tokens, starts, torch.tensor(document_ranges), torch.tensor(seconds))
        return SentencePairs(*parts, self.context, special_tokens_of(tokenizer), self.negative_rate, same_document_rate)
