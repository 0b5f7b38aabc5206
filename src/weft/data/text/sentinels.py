"""Text with several pieces cut out, each replaced by a sentinel; the target is what was cut (T5, Raffel et al., 2019, section 3.1).

    source  Thank you <X> me to your party <Y> week END
    target  START <X> for inviting <Y> last END

An example is a window of tokens. As many of them as the rate says are cut out, in pieces of a given mean length; how long each
piece and each stretch between them is, is drawn from the example's key, every division as likely. The numbers are the same for
all windows, so that sources and targets have one length each. Batch: source (B, S), target (B, T), source_length and
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
from weft.data.text.documentation import documents
from weft.data.text.windows import Unit, as_tensor
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import END, MARKS, START, MarkedTokenizer


class SentinelTokenizer(MarkedTokenizer):
    """Marks and sentinels around another tokenizer: PAD, START and END first, the sentinels last, <X0> being the very last."""

    name = "sentinels"

    def __init__(self, inner: Tokenizer, sentinels: int):
        super().__init__(inner)
        self.sentinels = sentinels
        self.size = inner.size + MARKS + sentinels

    def decode(self, ids: list[int]) -> str:
        """The text up to the first END, sentinels as <X0>, <X1>, …."""
        until = ids.index(END) if END in ids else len(ids)
        first, text, run = self.size - self.sentinels, "", list[int]()
        for i in [*(i for i in ids[:until] if i >= MARKS), self.size]:
            if i < first:
                run.append(i - MARKS)
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


def division(key: Tensor, total: int, parts: int) -> Tensor:
    """total as a sum of so many positive numbers, every way as likely: key (B,) -> (B, parts)."""
    order = random.integers(key, 1 << 62, total - 1) if total > 1 else key.new_zeros(len(key), 0)
    cuts = order.topk(parts - 1).indices.sort(1).values + 1 if parts > 1 else order[:, :0]
    edges = torch.cat([cuts.new_zeros(len(key), 1), cuts, cuts.new_full((len(key), 1), total)], dim=1)
    return edges.diff(dim=1)


def cut_out(tokens: Tensor, piece: Tensor, kept: Tensor, cut: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """tokens (B, L) as stretches of kept (B, N) and pieces of piece (B, N) tokens by turns -> source (B, S), target (B, T).

    The pieces of a row have `cut` tokens together, so S = L - cut + N + 1 and T = cut + N + 2 in all rows.
    """
    (b, length), n = tokens.shape, piece.size(1)
    before = piece.cumsum(1) - piece  # (B, N) cut before each piece
    begins = kept.cumsum(1) + before
    number = torch.arange(n, device=tokens.device)
    sentinel = (vocabulary - 1 - number).expand(b, -1)
    place = torch.arange(length, device=tokens.device)
    passed = (place >= begins.unsqueeze(-1)).sum(1)  # (B, L) pieces that begin here or before
    last = (passed - 1).clamp(min=0)
    inside = (passed > 0) & (place < (begins + piece).gather(1, last))
    gone = torch.where(passed > 0, (before + piece).gather(1, last), 0)
    # a token that stays moves left by what was cut and right by the sentinels before it; those that are cut gather likewise
    stays = torch.where(inside, length - cut + n + 1, place - gone + passed)
    goes = torch.where(inside, 1 + place - begins.gather(1, last) + before.gather(1, last) + passed, cut + n + 2)
    source = tokens.new_full((b, length - cut + n + 2), END).scatter(1, stays, tokens)
    target = tokens.new_full((b, cut + n + 3), END).scatter(1, goes, tokens)
    source = source.scatter(1, begins - before + number, sentinel)[:, :-1]
    target = target.scatter(1, 1 + before + number, sentinel)[:, :-1]
    source[:, -1], target[:, -1], target[:, 0] = END, END, START
    return source, target


class Sentinels(Dataset):
    """Windows of a token stream, cut anew at every draw. In training every start is an example; in order, windows meet."""

    def __init__(self, tokens: Tensor, config: SentinelsConfig, vocabulary: int, overlapping: bool):
        self.tokens, self.config, self.vocabulary, self.overlapping = tokens, config, vocabulary, overlapping
        self.step = 1 if overlapping else config.context

    def __len__(self) -> int:
        return (len(self.tokens) - self.config.context) // self.step + 1

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        c = self.config
        place = index[:, None] * self.step + torch.arange(c.context, device=index.device)
        window = self.tokens[place].long()
        piece = division(random.fold(key, "pieces"), c.cut, c.pieces)
        kept = division(random.fold(key, "kept"), c.context - c.cut, c.pieces)
        source, target = cut_out(window, piece, kept, c.cut, self.vocabulary)
        lengths = {f"{name}_length": index.new_full((len(index),), side.size(1)) for name, side in (("source", source), ("target", target))}
        return {"source": source, "target": target, **lengths}

    def to(self, device: torch.device) -> Dataset:
        return Sentinels(self.tokens.to(device), self.config, self.vocabulary, self.overlapping)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


@dataclass(frozen=True, kw_only=True)
class SentinelsConfig(DataConfig):
    path: str = ""
    """A text file or a folder of them; empty takes the docstrings of Python's standard library."""
    validation_path: str = ""
    """Text to validate on; by default a share of the other."""
    validation: float = 0.1
    """Share of the text kept for validation where no validation_path is given; 0 for no validation."""
    unit: Unit = "byte_bpe"
    """What a token is."""
    vocabulary: int = 4000
    """Largest number of pieces or words."""
    context: int = 128
    """Tokens of a window, before any is cut out."""
    rate: float = 0.15
    """Share of the tokens that is cut out."""
    mean: float = 3.0
    """Mean length of a piece that is cut out."""

    @property
    def cut(self) -> int:
        """Tokens cut out of a window."""
        return min(max(round(self.context * self.rate), 1), self.context - 1)

    @property
    def pieces(self) -> int:
        """Pieces cut out of a window."""
        return min(max(round(self.cut / self.mean), 1), self.cut, self.context - self.cut)

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        if self.context < 2 or not 0.0 < self.rate < 1.0 or self.mean < 1.0:
            raise ConfigError(
                f"--data.context must be at least 2, --data.rate between 0 and 1 and --data.mean at least 1,"
                f" not {self.context}, {self.rate} and {self.mean}"
            )
        problems = Problems()
        train, held = documents(self.path, self.validation_path, self.validation, problems)
        if not isinstance(tokenizer, SentinelTokenizer) or tokenizer.sentinels < self.pieces:
            inner = registry.find("tokenizers", self.unit).train("\n\n".join(train), self.vocabulary)
            tokenizer = SentinelTokenizer(inner, max(self.pieces, 100))
        first, second = (self._dataset(texts, tokenizer, overlapping) for texts, overlapping in ((train, True), (held, False)))
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

    def _dataset(self, texts: list[str], tokenizer: SentinelTokenizer, overlapping: bool) -> Sentinels | None:
        ids = tokenizer.encode("\n\n".join(texts))
        return Sentinels(as_tensor(ids, tokenizer.size), self, tokenizer.size, overlapping) if len(ids) >= self.context else None
