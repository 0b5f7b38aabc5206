"""The vector of a text, and how likely a language model finds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.core.errors import CapabilityError, ConfigError, DataError
from weft.data.base import Batch, Dataset, Problems
from weft.data.text.ragged import Ragged
from weft.inference.predict.base import BadRow, Items, Predictor, Result, Row, Shown, Trained, named, text_of
from weft.models.base import States

TEXTS = ("text", "sentence", "document", "prompt")
HEAD = 1 << 24
"""Most logits that are made at once."""


class TokenRows(Dataset):
    """Sequences of tokens."""

    def __init__(self, ids: Ragged):
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        """ids (B, T), lengths (B,)."""
        return {"ids": self.ids.rows(index).long(), "lengths": self.ids.sizes.index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        return TokenRows(self.ids.to(device))

    @property
    def device(self) -> torch.device:
        return self.ids.values.device

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> TokenRows:
        flat = torch.tensor([token for row in rows for token in row], dtype=torch.int64)
        return cls(Ragged(flat, torch.tensor([len(row) for row in rows], dtype=torch.int64), fill=0))


class TokenText(NamedTuple):
    """A text as the tokens that the model reads."""

    ids: list[int]
    location: str


class OfTexts(Predictor):
    """Told of one text by any model that has states of its tokens."""

    asked = ("a text",)

    def __init__(self, trained: Trained):
        super().__init__(trained)
        config = getattr(self.model, "config", None)
        self.context: int = getattr(config, "context", 0) or 1 << 31

    def known_names(self) -> set[str]:
        return set(TEXTS)

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        found = named(names, chosen) or tuple(name for wanted in TEXTS for name in names if name.lower() == wanted)[:1]
        found = found or (tuple(names) if len(names) == 1 else ())
        if len(found) != 1:
            raise ConfigError(f"which of the columns ({', '.join(names)}) is the text? name it with --columns")
        return found

    def example(self, row: Row, columns: Sequence[str]) -> TokenText:
        before, after = self.tokenizer.around
        try:
            ids = self.tokenizer.encode(text_of(row, columns[0])).tolist()
        except DataError as error:  # a character that a character model does not know
            raise BadRow(str(error)) from error
        if not ids:
            raise BadRow("a text without a token")
        return TokenText([*before, *ids, *after], row.location)

    def typed(self, words: Sequence[str]) -> list[Row]:
        return [Row({"text": word}) for word in words]


class Embedding(OfTexts):
    """The mean of the last states of a text's tokens, of length 1: that of /v1/embeddings."""

    kind = "embedding"
    same_size = True

    @property
    def columns(self) -> list[str]:
        return [f"embedding.{number}" for number in range(self.width)]

    @property
    def width(self) -> int:
        if not hasattr(self, "_width"):
            with torch.inference_mode():
                self._width = int(self.model.hidden(torch.zeros(1, 1, dtype=torch.int64, device=self.device)).size(-1))
        return self._width

    def items(self, examples: Sequence[TokenText], problems: Problems) -> Items:
        rows = []
        for text in examples:
            if len(text.ids) > self.context:
                problems.add(f"texts truncated to {self.context} tokens", text.location)
            rows.append(text.ids[: self.context])
        return Items.one_each(TokenRows.of(rows), [len(row) for row in rows])

    def compute(self, batch: Batch) -> list[Tensor]:
        return list(embed(self.model, batch["ids"]))

    def result(self, example: TokenText, found: list[tuple[Any, Any]]) -> Result:
        [(_, vector)] = found
        return {"embedding": vector.tolist()}

    def shown(self, result: Result) -> Shown:
        return [(f"{number}", f"{value:.4f}") for number, value in enumerate(result["embedding"][:10])]


def embed(model: States, ids: Tensor) -> Tensor:
    """ids (B, T) -> the vectors of texts of the same number of tokens (B, D): nothing is padded, so no text depends on another."""
    mean = model.hidden(ids).float().mean(dim=1)  # (B, D)
    return torch.nn.functional.normalize(mean, dim=-1).cpu()


class LogLikelihood(OfTexts):
    """The log-probability of a text, and its perplexity per token.

    The first token has nothing before it, so it counts only where the model puts a special token in front. A text longer than the
    context is read in windows that overlap by half, and each token counts once.
    """

    kind = "log-likelihood"

    def __init__(self, trained: Trained):
        super().__init__(trained)
        if getattr(self.model.config, "queries", "") == "last":
            raise CapabilityError(
                f"{type(self.model).__name__} with queries=last has states for the last positions only, so it scores no text"
            )

    @property
    def columns(self) -> list[str]:
        return ["log_likelihood", "tokens", "perplexity"]

    def items(self, examples: Sequence[TokenText], problems: Problems) -> Items:
        rows: list[list[int]] = []
        owner: list[int] = []
        about: list[int] = []
        for index, text in enumerate(examples):
            for begin, end, first in windows(len(text.ids), self.context):
                rows.append(text.ids[begin:end])
                owner.append(index)
                about.append(first)
        return Items(TokenRows.of(rows), owner, [len(row) for row in rows], about)

    def compute(self, batch: Batch) -> list[list[float]]:
        ids, lengths = batch["ids"], batch["lengths"].tolist()
        hidden = self.model.hidden(ids)[:, :-1].flatten(0, 1)  # (B (T - 1), D)
        following = ids[:, 1:].flatten()
        size = max(1, HEAD // self.tokenizer.size)
        parts = zip(torch.split(hidden, size), torch.split(following, size), strict=True)
        values = [self.model.head(states).float().log_softmax(-1).gather(1, right[:, None]).squeeze(1) for states, right in parts]
        rows = (torch.cat(values) if values else hidden.new_zeros(0)).view(len(ids), -1).tolist()
        return [row[: length - 1] for row, length in zip(rows, lengths, strict=True)]

    def result(self, example: TokenText, found: list[tuple[Any, Any]]) -> Result:
        values = [value for first, row in found for value in row[first - 1 :]]
        if not values:
            raise BadRow("a text of one token, which has nothing before it to be told from")
        total = math.fsum(values)
        return {"log_likelihood": total, "tokens": len(values), "perplexity": math.exp(min(700.0, -total / len(values)))}

    def shown(self, result: Result) -> Shown:
        return [(name, f"{value:.6g}") for name, value in result.items()]


def windows(length: int, context: int) -> list[tuple[int, int, int]]:
    """Begin and end of each window over a text, and its first token that counts, from 1: every token but the first counts once."""
    found = [(0, min(length, context), 1)]
    while found[-1][1] < length:
        last = found[-1][1]
        end = min(length, last + max(1, context // 2))
        found.append((end - context, end, last - (end - context)))
    return found
