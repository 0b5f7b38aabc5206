"""A toy in place of the engine: a bigram that says the alphabet. After z comes END; anything else is followed by a.

With temperature 0 it takes the next letter, else it skips as many as seed and number say. It needs no torch, so servers start at once.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.tokenizers.base import ByteTokenizer
from weft.inference.request import Delta, Request, Token
from weft.serving.service import Limits, ServedModel, Service
from weft.serving.templates import ChatTemplate, template_for
from weft.serving.worker import Worker

END = 256
LIKELY, OTHERS = -0.125, ((0xE2, -2.0), (0x82, -3.0), (ord("?"), -4.0), (ord("!"), -5.0), (ord("."), -6.0))
"""Log-probability of what follows, and what else there is: two of the tokens are half a character."""
UNLIKELY = -9.5


class ToyTokenizer(ByteTokenizer):
    """Bytes, and a mark for the end of a text."""

    name, size = "toy", 257
    special_tokens = {"end": END}

    def decode(self, ids: list[int]) -> str:
        return bytes(number for number in ids if number != END).decode("utf-8", errors="replace")


class ToyModel(nn.Module):
    """States for embeddings: each token's own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(END + 1, 8, generator=torch.Generator().manual_seed(0)))

    def hidden(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    def head(self, hidden: Tensor) -> Tensor:
        return hidden @ self.table.T


def following(number: int, skip: int = 1) -> int:
    if not ord("a") <= number <= ord("z"):
        return ord("a")
    return number + skip if number + skip <= ord("z") else END


@dataclass
class Row:
    request: Request
    last: int
    made: int = 0
    text: str = ""
    told: int = 0
    begun: bool = False


@dataclass
class FakeEngine:
    slots: int = 4
    context: int = 4096
    delay: float = 0.0
    """Seconds that a step takes."""
    rows: dict[int, Row] = field(default_factory=dict)
    queue: deque[tuple[int, Row]] = field(default_factory=deque)
    added: int = 0

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        return len(self.rows)

    def add(self, request: Request) -> int:
        if self.context and len(request.ids) + min(request.sampling.max_new_tokens, 1) > self.context:
            raise ConfigError("this prompt does not fit")
        if request.ids[-1] == ord("#"):
            raise TypeError("a mistake of the engine's own")
        self.added += 1
        self.queue.append((self.added, Row(request, request.ids[-1])))
        return self.added

    def cancel(self, number: int) -> None:
        self.rows.pop(number, None)
        self.queue = deque(item for item in self.queue if item[0] != number)

    def step(self) -> dict[int, Delta]:
        if self.delay:
            time.sleep(self.delay)
        while self.queue and len(self.rows) < self.slots:
            number, row = self.queue.popleft()
            self.rows[number] = row
        deltas = {number: self.advance(row) for number, row in self.rows.items()}
        self.rows = {number: row for number, row in self.rows.items() if not deltas[number].finish_reason}
        return deltas

    def advance(self, row: Row) -> Delta:
        request, s = row.request, row.request.sampling
        if bytes(number for number in request.ids if number < 256).endswith(b"!boom"):
            raise RuntimeError("the engine broke, as it was asked to")
        prompt: tuple[Token, ...] = ()
        if request.prompt_logprobs and not row.begun:
            pairs = zip(request.ids, request.ids[1:], strict=False)
            prompt = (Token(request.ids[0]), *(told(after, following(before), s.logprobs) for before, after in pairs))
        row.begun = True
        if not s.max_new_tokens:
            return Delta("", prompt, "length")
        skip = 1 if s.temperature == 0 else 1 + (s.seed + request.number) % 5
        chosen = next((number for number, bias in s.logit_bias.items() if bias >= 100), following(row.last, skip))
        token = told(chosen, following(row.last), s.logprobs)
        row.last, row.made = chosen, row.made + 1
        if chosen in s.stop_tokens or (chosen == END and not s.ignore_end):
            return Delta(row.text[row.told :], (*prompt, token), "stop")
        row.text += "" if chosen == END else chr(chosen)
        for stop in s.stop:
            if stop in row.text:
                return Delta(row.text[row.told : row.text.index(stop)], (*prompt, token), "stop sequence")
        open_ends = [row.text.endswith(stop[:length]) * length for stop in s.stop for length in range(1, len(stop))]
        held = 0 if row.made >= s.max_new_tokens else max(open_ends, default=0)
        text = row.text[row.told : max(row.told, len(row.text) - held)]
        row.told += len(text)
        full = self.context and len(request.ids) + row.made >= self.context
        finish = "length" if row.made >= s.max_new_tokens else "context" if full else ""
        return Delta(text, (*prompt, token), finish)


def told(chosen: int, likely: int, alternatives: int) -> Token:
    if alternatives < 0:
        return Token(chosen)
    known = {likely: LIKELY} | {number: value for number, value in OTHERS if number != likely}
    value = known.get(chosen, UNLIKELY)
    found = list(known.items())[:alternatives]
    return Token(chosen, value, tuple(found if not alternatives or chosen in dict(found) else [*found, (chosen, value)]))


def toy(
    name: str = "toy", *, slots: int = 4, max_queue: int = 64, template: ChatTemplate | None = None, tokenizer: Any = None, **engine: Any
) -> ServedModel:
    words = tokenizer or ToyTokenizer()
    worker = Worker(lambda: FakeEngine(slots=slots, **engine), name=name, slots=slots, max_queue=max_queue)
    return ServedModel(name, words, ToyModel().eval(), worker, template or template_for(words), continues=True, embeds=True, created=1)


def toy_service(*models: ServedModel, keys: tuple[str, ...] = (), **limits: Any) -> Service:
    return Service({model.name: model for model in models or (toy(),)}, Limits(**limits), keys)
