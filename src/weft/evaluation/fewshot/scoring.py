"""How likely a causal language model holds the continuation of a text: log-probabilities, in batches that change nothing.

Rows are filled up on their right, where a causal model does not look. Shapes: B batch, T time, D width, V vocabulary, N tokens scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import CapabilityError, DataError
from weft.data.base import UNKNOWN_NATS
from weft.data.tokenizers.unknown import warn_unknown, without_token
from weft.inference.generate import encode_prompt, need_continuing
from weft.runs.load import Loaded
from weft.training.execution import tf32_products

Progress = Callable[[int, int], None]
Tokens = tuple[int, ...]
LARGEST = 1 << 14
"""Tokens that go through the model together, however many rows are allowed."""
HEAD = 1 << 10
"""States that become logits together: a row of them is as long as the vocabulary."""


@dataclass(frozen=True)
class Score:
    """How likely a continuation is after its context."""

    logprobs: tuple[float, ...]
    """Of each token of the continuation, given all before it."""
    greedy: bool
    """Whether always taking the likeliest token gives this continuation."""
    bytes: int = 0
    """Length of the continuation in UTF-8, without spaces in front of it."""
    truncated_tokens: int = 0
    """Tokens of the context that the model could not see, those farthest away."""

    @property
    def logprob(self) -> float:
        return sum(self.logprobs)

    @property
    def per_token(self) -> float:
        return self.logprob / max(1, len(self.logprobs))

    @property
    def per_byte(self) -> float:
        return self.logprob / max(1, self.bytes)


@dataclass(frozen=True)
class Window:
    """Tokens that the model sees at once, of which the last ones are scored."""

    pair: int
    """The pair whose continuation it scores."""
    tokens: Tokens
    scored: int


class Scorer:
    """Scores the continuations of texts."""

    def __init__(self, loaded: Loaded, batch: int = 64, progress: Progress | None = None):
        need_continuing(loaded.model, loaded.tokenizer)
        self.model: Any = loaded.model
        self.tokenizer, self.batch, self.progress = loaded.tokenizer, batch, progress
        self.context: int = getattr(self.model.config, "context", 0) or 1 << 31
        if getattr(self.model.config, "queries", "") == "last":
            raise CapabilityError(
                f"{type(self.model).__name__} with queries=last has states for the last positions only, so it scores no text"
            )
        self.device = next(loaded.model.parameters()).device

    def encode(self, text: str) -> Tokens:
        return tuple(self.tokenizer.encode(text).tolist()) if text else ()

    def first(self) -> int:
        """The token after which a text begins that has nothing before it: the start or end token, or what `generate` takes."""
        special = getattr(self.tokenizer, "special_tokens", {})
        return int(special.get("start", special.get("end", encode_prompt(self.tokenizer, "")[-1])))

    def pair(self, context: str, continuation: str) -> tuple[Tokens, Tokens]:
        """Tokens of a context and of its continuation, cut as the whole text is wherever the cut falls between tokens."""
        before, whole = self.encode(context), self.encode(context + continuation)
        after = whole[len(before) :] if whole[: len(before)] == before else ()
        return before or (self.first(),), after or self.encode(continuation)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """Scores of (context, continuation) pairs, in their order."""
        warn_unknown(self.tokenizer, (text for pair in pairs for text in pair), "texts of the task")
        found = self.score_tokens([self.pair(*pair) for pair in pairs])
        return [self.charged(one, continuation) for one, (_, continuation) in zip(found, pairs, strict=True)]

    def charged(self, score: Score, continuation: str) -> Score:
        """The score of a continuation with its length, and with the characters that have no token as unlikely ones."""
        unknown = without_token(self.tokenizer, len(self.tokenizer.unknown(continuation)))
        logprobs, size = score.logprobs + (-UNKNOWN_NATS,) * unknown, len(continuation.lstrip(" ").encode())
        return replace(score, logprobs=logprobs, greedy=score.greedy and not unknown, bytes=size)

    def score_tokens(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> list[Score]:
        """The same of pairs of tokens; a continuation longer than the context is scored in several windows, the last of them full."""
        windows, cut = [], []
        for number, (before, after) in enumerate(pairs):
            if not before or not after:
                raise DataError("a continuation to be scored, and what stands before it, must have at least one token each")
            cut.append(max(0, len(before) + min(len(after), self.context) - self.context - 1))
            for begin in range(0, len(after), self.context):
                end = min(begin + self.context, len(after))
                windows.append(Window(number, (before + after[:end])[-(self.context + 1) :], end - begin))
        logprobs: list[tuple[float, ...]] = [()] * len(pairs)
        greedy = [True] * len(pairs)
        for window, (values, likeliest) in zip(windows, self.run(windows), strict=True):
            logprobs[window.pair] += values
            greedy[window.pair] &= likeliest
        return [Score(values, likeliest, truncated_tokens=lost) for values, likeliest, lost in zip(logprobs, greedy, cut, strict=True)]

    @torch.inference_mode()
    def run(self, windows: Sequence[Window]) -> list[tuple[tuple[float, ...], bool]]:
        """Log-probabilities of each window's scored tokens, and whether all of them are the likeliest."""
        rows: dict[Tokens, list[int]] = {}  # answers of one token to the same question need one row
        for place, window in enumerate(windows):
            rows.setdefault(window.tokens[:-1], []).append(place)
        found: list[tuple[tuple[float, ...], bool]] = [((), True)] * len(windows)
        done = 0
        for batch in batches(sorted(rows, key=len, reverse=True), self.batch):
            asked = [(number, windows[place]) for number, row in enumerate(batch) for place in rows[row]]
            with tf32_products(False), torch.autocast(self.device.type, enabled=False):
                hidden = self.model.hidden(filled(batch).to(self.device))  # (B, T, D)
                ends = [(number, len(window.tokens) - 1, window.scored) for number, window in asked]
                states = torch.cat([hidden[number, end - scored : end] for number, end, scored in ends])  # (N, D)
                values, hits = self.read(states, [token for _, window in asked for token in window.tokens[-window.scored :]])
            begin = 0
            for place in (place for row in batch for place in rows[row]):
                end = begin + windows[place].scored
                found[place] = tuple(values[begin:end]), all(hits[begin:end])
                begin = end
            done += len(asked)
            if self.progress:
                self.progress(done, len(windows))
        return found

    def read(self, states: Tensor, tokens: Sequence[int]) -> tuple[list[float], list[bool]]:
        """states (N, D) and the token that follows each of them -> its log-probability, and whether it is the likeliest."""
        values: list[float] = []
        hits: list[bool] = []
        for begin in range(0, len(tokens), HEAD):
            logits = self.model.head(states[begin : begin + HEAD]).float()  # (N, V)
            right = torch.tensor(tokens[begin : begin + HEAD], device=logits.device)
            values += logits.log_softmax(-1).gather(1, right[:, None]).squeeze(1).tolist()
            hits += (logits.argmax(-1) == right).tolist()
        return values, hits


def batches(rows: Iterable[Tokens], most: int) -> Iterator[list[Tokens]]:
    """Rows, the longest first, in lists that are neither too many nor too long together."""
    batch: list[Tokens] = []
    for row in rows:
        if batch and (len(batch) == most or (len(batch) + 1) * len(batch[0]) > LARGEST):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def filled(rows: Sequence[Tokens]) -> Tensor:
    """Rows as (B, T), those that are shorter filled up on their right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64)
