"""Span corruption of T5: spans of a text are replaced by sentinels and are the target (Raffel et al., 2019, section 3.1).

    source  Thank you <X> me to your party <Y> week END
    target  START <X> for inviting <Y> last END

An example is a window of tokens. The rate sets the number of tokens to remove, in spans of a given mean length; the lengths of the
spans and of the gaps between them are drawn from the example's key, uniformly over all partitions. The numbers are the same for
all windows, so that all sources and all targets have the same length. Batch: source (B, S), target (B, T), source_length and
target_length (B,). The id of the last sentinel but i is V - 1 - i, as in T5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core import random, registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.encodings import check_encoding
from weft.data.text.documentation import documents
from weft.data.text.token_windows import Unit, as_tensor
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, START, Seq2SeqTokenizer
from weft.data.tokenizers.unknown import note_unknown


class SentinelTokenizer(Seq2SeqTokenizer):
    """Another tokenizer with special tokens and sentinels: PAD, START and END first, the sentinels last, <X0> the very last."""

    name = "sentinels"

    def __init__(self, inner: Tokenizer, sentinels: int):
        super().__init__(inner)
        self.sentinels = sentinels
        self.size = inner.size + NUM_SPECIAL + sentinels

    def decode(self, ids: list[int]) -> str:
        """The text up to the first END, sentinels as <X0>, <X1>, …."""
        stop = ids.index(END) if END in ids else len(ids)
        first, text, run = self.size - self.sentinels, "", list[int]()
        for i in [*(i for i in ids[:stop] if i >= NUM_SPECIAL), self.size]:
            if i < first:
                run.append(i - NUM_SPECIAL)
            else:
                text += self.inner.decode(run) + (f"<X{self.size - 1 - i}>" if i < self.size else "")
                run = []
        return text

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "sentinels": self.sentinels}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SentinelTokenizer:
        inner: Tokenizer = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(inner, int(data["sentinels"]))


def random_partition(key: Tensor, total: int, parts: int) -> Tensor:
    """A uniformly random partition of total into positive parts: key (B,) -> (B, parts)."""
    order = random.integers(key, 1 << 62, total - 1) if total > 1 else key.new_zeros(len(key), 0)
    cuts = order.topk(parts - 1).indices.sort(1).values + 1 if parts > 1 else order[:, :0]
    edges = torch.cat([cuts.new_zeros(len(key), 1), cuts, cuts.new_full((len(key), 1), total)], dim=1)
    return edges.diff(dim=1)


def corrupt_spans(tokens: Tensor, span_lengths: Tensor, gap_lengths: Tensor, cut: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """tokens (B, L) as alternating gaps of gap_lengths (B, N) and spans of span_lengths (B, N) -> source (B, S), target (B, T).

    The spans of a row have `cut` tokens together, so S = L - cut + N + 1 and T = cut + N + 2 in all rows.
    """
    (b, length), n = tokens.shape, span_lengths.size(1)
    before = span_lengths.cumsum(1) - span_lengths  # (B, N) tokens removed before each span
    span_starts = gap_lengths.cumsum(1) + before
    number = torch.arange(n, device=tokens.device)
    sentinel = (vocabulary - 1 - number).expand(b, -1)
    position = torch.arange(length, device=tokens.device)
    spans_started = (position >= span_starts.unsqueeze(-1)).sum(1)  # (B, L) spans that begin here or before
    last_span = (spans_started - 1).clamp(min=0)
    inside = (spans_started > 0) & (position < (span_starts + span_lengths).gather(1, last_span))
    removed = torch.where(spans_started > 0, (before + span_lengths).gather(1, last_span), 0)
    # a kept token moves left by the removed tokens and right by the sentinels before it; likewise those of the target
    source_index = torch.where(inside, length - cut + n + 1, position - removed + spans_started)
    target_index = torch.where(
        inside, 1 + position - span_starts.gather(1, last_span) + before.gather(1, last_span) + spans_started, cut + n + 2
    )
    source = tokens.new_full((b, length - cut + n + 2), END).scatter(1, source_index, tokens)
    target = tokens.new_full((b, cut + n + 3), END).scatter(1, target_index, tokens)
    source = source.scatter(1, span_starts - before + number, sentinel)[:, :-1]
    target = target.scatter(1, 1 + before + number, sentinel)[:, :-1]
    source[:, -1], target[:, -1], target[:, 0] = END, END, START
    return source, target


class Sentinels(Dataset):
    """Windows of a token stream, corrupted anew at every draw: overlapping, one from every token, or adjacent."""

    def __init__(self, tokens: Tensor, config: T5SpanCorruptionConfig, vocabulary: int, overlapping: bool):
        self.tokens, self.config, self.vocabulary, self.overlapping = tokens, config, vocabulary, overlapping
        self.step = 1 if overlapping else config.context

    def __len__(self) -> int:
        return (len(self.tokens) - self.config.context) // self.step + 1

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        c = self.config
        position = index[:, None] * self.step + torch.arange(c.context, device=index.device)
        window = self.tokens[position].long()
        span_lengths = random_partition(random.fold(key, "pieces"), c.cut, c.pieces)
        gap_lengths = random_partition(random.fold(key, "kept"), c.context - c.cut, c.pieces)
        source, target = corrupt_spans(window, span_lengths, gap_lengths, c.cut, self.vocabulary)
        lengths = {f"{name}_length": index.new_full((len(index),), side.size(1)) for name, side in (("source", source), ("target", target))}
        return {"source": source, "target": target, **lengths}

    def to(self, device: torch.device) -> Dataset:
        return Sentinels(self.tokens.to(device), self.config, self.vocabulary, self.overlapping)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


@dataclass(frozen=True, kw_only=True)
class T5SpanCorruptionConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them; empty takes the docstrings of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    tokenizer: Unit = "byte_bpe"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 4000
    """Largest number of pieces or words."""
    context: int = 128
    """Tokens of a window before corruption."""
    corruption_rate: float = 0.15
    """Share of the tokens that is masked out (T5's noise density)."""
    mean_span_length: float = 3.0
    """Mean length of a masked span, in tokens."""

    @property
    def cut(self) -> int:
        """Tokens removed from a window."""
        return min(max(round(self.context * self.corruption_rate), 1), self.context - 1)

    @property
    def pieces(self) -> int:
        """Spans removed from a window."""
        return min(max(round(self.cut / self.mean_span_length), 1), self.cut, self.context - self.cut)

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        if self.context < 2 or not 0.0 < self.corruption_rate < 1.0 or self.mean_span_length < 1.0:
            raise ConfigError(
                f"--data.context must be at least 2, --data.corruption_rate between 0 and 1 and --data.mean_span_length at least 1,"
                f" not {self.context}, {self.corruption_rate} and {self.mean_span_length}"
            )
        problems = Problems(encoding=check_encoding(self.encoding))
        train, validation = documents(self.path, self.validation_path, self.validation, problems)
        if not isinstance(tokenizer, SentinelTokenizer) or tokenizer.sentinels < self.pieces:
            inner = registry.find("tokenizers", self.tokenizer).train("\n\n".join(train), self.vocabulary)
            tokenizer = SentinelTokenizer(inner, max(self.pieces, 100))
        first, second = (
            self._dataset(texts, tokenizer, overlapping, problems) for texts, overlapping in ((train, True), (validation, False))
        )
        if first is None:
            raise DataError(f"the text has fewer than {self.context} tokens, which one example needs; lower --data.context")
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context + 2,
            "start": START,
            "end": END,
            "tokens": self.context,
            "training_tokens": len(first.tokens),
            "validation_tokens": len(second.tokens) if second else 0,
        }
        return Data(first, second, info, tokenizer, problems)

    def _dataset(self, texts: list[str], tokenizer: SentinelTokenizer, overlapping: bool, problems: Problems) -> Sentinels | None:
        note_unknown(tokenizer, texts, problems)
        ids = tokenizer.encode("\n\n".join(texts))
        return Sentinels(as_tensor(ids, tokenizer.size), self, tokenizer.size, overlapping) if len(ids) >= self.context else None
