"""Continuous batching: requests join and leave between steps, and what each of them gets does not depend on the others.

A step reads the last token of every answer at once and chooses the next; then it reads a piece of the prompts that wait to join, so
that a long prompt does not hold up the answers. On a GPU the next step is begun before the tokens of the last one are fetched, so that
neither waits for the other: what has been chosen but not fetched is in flight. One thread owns an engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.inference.detokenizer import Detokenizer
from weft.inference.penalties import check_bias
from weft.inference.prefill_graphs import PrefillGraphs
from weft.inference.prefix_cache import PrefixCache
from weft.inference.request import Answer, Piece, Request, Token
from weft.inference.runner import ModelRunner
from weft.inference.sampler import Sampler
from weft.kernels import decode_step

CHUNK = 512
"""Most tokens of a prompt read at a step."""


class PendingTokens:
    """What was chosen for some rows, perhaps still on its way from the device."""

    def __init__(self, rows: Sequence[Row], ids: Tensor, tokens: list[Token] | None = None):
        """ids (R,). tokens: the same with log-probabilities, where these were asked for."""
        self.rows, self.ids, self.tokens = list(rows), ids, tokens
        self.fetched = None
        if ids.is_cuda and not tokens:
            self.ids = torch.empty(len(ids), dtype=ids.dtype, pin_memory=True)
            self.ids.copy_(ids, non_blocking=True)
            self.fetched = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.fetched.record()

    def land(self) -> list[Token]:
        if self.fetched:
            self.fetched.synchronize()
        return self.tokens or [Token(number) for number in self.ids.tolist()]


class Row:
    """A request that is being answered."""

    def __init__(self, number: int, request: Request, tokenizer: Any):
        self.number, self.request = number, request
        self.text = Detokenizer(tokenizer, request.sampling.stop, request.ids)
        self.prompt: list[Token] = []
        self.answer: list[int] = []
        self.gone = False

    def push(self, token: Token, ends: set[int], room: int) -> Piece:
        """A chosen token -> what can be told now. room: how many tokens fit behind the prompt; 0 for any number."""
        self.answer.append(token.id)
        made, s = len(self.answer), self.request.sampling
        if token.id in s.stop_tokens or (token.id in ends and not s.ignore_end):
            return Piece(self.text.finish(), (token,), "stop")
        text = self.text.push([token.id])
        if self.text.stopped:
            return Piece(text, (token,), "stop text")
        if made >= s.max_new_tokens or 0 < room <= made:
            return Piece(text + self.text.finish(), (token,), "length" if made >= s.max_new_tokens else "context")
        return Piece(text, (token,))


class Prompts:
    """Rows whose prompts are being read, together and a piece at a time."""

    def __init__(self, rows: list[Row], reader: ModelRunner, prefixes: PrefixCache):
        """reader: without rows yet."""
        self.rows, self.reader = rows, reader
        for row in rows:  # where the prompt's own log-probabilities are asked for, all of it must be read
            if reader.cache is None or row.request.echo:
                reader.add_rows(1)
            else:
                prefixes.start(reader, row.request.ids)
        self.unread = [list(row.request.ids[len(known) :]) for row, known in zip(rows, reader.ids, strict=True)]
        self.states: list[Any] = [None] * len(rows)

    def read(self, chunk: int) -> bool:
        """Read at most so many tokens of each prompt -> whether all have been read."""
        now = [ids[:chunk] for ids in self.unread]
        self.unread = [ids[chunk:] for ids in self.unread]
        for place, (row, found, ids) in enumerate(zip(self.rows, self.reader.read(now), now, strict=True)):
            if len(ids):
                self._tell(row, place, found, ids)
                self.states[place] = found[-1]
        return not any(self.unread)

    def _tell(self, row: Row, place: int, states: Tensor, ids: list[int]) -> None:
        """Log-probabilities of the prompt's own tokens, where they were asked for."""
        if not row.request.echo:
            return
        if not row.prompt:
            row.prompt.append(Token(ids[0]))
        following = [*ids[1:], *self.unread[place][:1]]
        alternatives = row.request.sampling.logprobs
        if alternatives < 0:
            row.prompt += [Token(number) for number in following]
        elif following:
            logits = self.reader.model.head(states[: len(following)])
            row.prompt += Sampler.told(logits, torch.tensor(following, device=logits.device), alternatives)

    def drop(self, place: int) -> None:
        parts: tuple[list[Any], ...] = (self.rows, self.unread, self.states)
        for part in parts:
            part[place] = part[-1]
            part.pop()
        self.reader.drop(place)


class Engine:
    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        slots: int = 32,
        slide: bool = False,
        cached: bool = True,
        chunk: int = CHUNK,
        prefixes: int = 8,
        invariant: bool = False,
    ):
        """slots: answers made at once. slide: go on past the model's context, seeing the last tokens only. cached: read every token
        once, where the model can. chunk: most tokens of each prompt read at a step. prefixes: prompts remembered for others that
        begin like them. invariant: an answer is the same to the last bit, alone or beside others, in every precision; slower."""
        if slots < 1 or chunk < 1:
            raise ConfigError(f"slots and chunk must be at least 1, not {slots} and {chunk}")
        self.model, self.tokenizer, self.slots, self.slide, self.cached, self.chunk = model.eval(), tokenizer, slots, slide, cached, chunk
        self.ends = ends_of(tokenizer)
        self.invariant = invariant
        self.reader = ModelRunner(model, cached=cached, invariant=invariant)
        self.graphs = PrefillGraphs(model) if self.reader.cache and decode_step.fits(model) else None
        self.context = self.reader.context
        self.prefixes = PrefixCache(model, 0 if invariant else prefixes)  # reading on rounds otherwise than reading anew
        self.rows: list[Row] = []
        self.prompts: Prompts | None = None
        self.queue: deque[Row] = deque()
        self.choosers: Sampler | None = None
        """Settings of the rows, with their last tokens and the positions of the next; none where rows came or went since."""
        self.last = self.position = torch.empty(0, dtype=torch.int64)
        self.flight: PendingTokens | None = None
        self.added = 0

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        return len(self.rows) + (len(self.prompts.rows) if self.prompts else 0)

    def add(self, request: Request) -> int:
        """Ask for an answer -> its number."""
        request.sampling.check()
        known: int = self.tokenizer.size
        check_bias(request.sampling, known)
        if not request.ids or not all(0 <= number < known for number in request.ids):
            raise ConfigError(f"a prompt must hold at least one token, each from 0 to {known - 1}")
        if self.context and not self.slide and len(request.ids) + min(request.sampling.max_new_tokens, 1) > self.context:
            raise ConfigError(f"a prompt of {len(request.ids)} tokens leaves no room for an answer in a context of {self.context}")
        self.added += 1
        self.queue.append(Row(self.added, request, self.tokenizer))
        return self.added

    @torch.inference_mode()
    def cancel(self, number: int) -> None:
        """Stop answering; the slot is free at once."""
        self.queue = deque(row for row in self.queue if row.number != number)
        for place, row in enumerate(self.prompts.rows if self.prompts else []):
            if row.number == number and self.prompts:
                self.prompts.drop(place)
                break
        for place, row in enumerate(self.rows):
            if row.number == number:
                self._drop(place)
                break

    @torch.inference_mode()
    def step(self) -> dict[int, Piece]:
        """One token for each answer, and a piece of the prompts -> what every request got, by its number."""
        pieces: dict[int, Piece] = {}
        if self.choosers is None:  # whoever comes or goes, all tokens must be known first
            self._land(pieces)
        if self.rows:
            following = self._launch()
            self._land(pieces)
            self.flight = following
            if following and (following.tokens or not following.fetched):
                self._land(pieces)
        self._admit()
        if self.prompts and self.prompts.read(self.chunk):
            self._join(self.prompts, pieces)
            self.prompts = None
        return pieces

    def _launch(self) -> PendingTokens | None:
        """Read the last token of every row and choose the next; nothing where it must be known first what is in flight."""
        steady, ahead = self.reader.has_room(), 1 if self.flight else 0
        if ahead and not (steady and any(len(row.answer) + ahead < row.request.sampling.max_new_tokens for row in self.rows)):
            return None
        if self.choosers is None:
            self.choosers = self._choosers(self.rows)
            self.last = torch.tensor([row.answer[-1] for row in self.rows], device=self.reader.device)
            self.position = torch.tensor([len(row.answer) for row in self.rows], device=self.reader.device)
        logits = self.reader.step(self.last) if steady else self._read_again()
        self.last, told = self._choose(self.rows, logits, self.choosers, self.position)
        self.position = self.position + 1
        return PendingTokens(self.rows, self.last, told)

    def _read_again(self) -> Tensor:
        """Logits (R, V) of rows that have no cache, or have outgrown it."""
        self.reader.ids = [[*row.request.ids, *row.answer[:-1]] for row in self.rows]
        states = self.reader.read([row.answer[-1:] for row in self.rows])
        logits: Tensor = self.model.head(torch.stack([found[-1] for found in states]))
        return logits

    def _land(self, pieces: dict[int, Piece]) -> None:
        """Tell the rows what was chosen for them; those that end are dropped."""
        flight, self.flight = self.flight, None
        if not flight or all(row.gone for row in flight.rows):
            return
        ended = self._push(flight.rows, flight.land(), pieces)
        for place in reversed(range(len(self.rows) if ended else 0)):
            if self.rows[place].number in ended:
                self._drop(place)

    def _admit(self) -> None:
        free = self.slots - self.active
        if self.prompts and not self.prompts.rows:
            self.prompts = None
        if not self.prompts and self.queue and free > 0:
            rows = [self.queue.popleft() for _ in range(1 if self.invariant else min(free, len(self.queue)))]
            self.prompts = Prompts(rows, ModelRunner(self.model, cached=self.cached, prompts=self.graphs), self.prefixes)

    def _join(self, prompts: Prompts, pieces: dict[int, Piece]) -> None:
        """Choose the first token behind each prompt; those that go on become rows."""
        for place, row in enumerate(prompts.rows):
            self.prefixes.keep(prompts.reader, place, row.request.ids)
        asked = [row for row in prompts.rows if row.request.sampling.max_new_tokens]
        if asked:
            states = torch.stack([state for row, state in zip(prompts.rows, prompts.states, strict=True) if row in asked])
            first = torch.zeros(len(asked), dtype=torch.int64, device=self.reader.device)
            ids, told = self._choose(asked, self.model.head(states), self._choosers(asked), first)
            self._push(asked, told or [Token(number) for number in ids.tolist()], pieces)
        for place in reversed(range(len(prompts.rows))):
            row = prompts.rows[place]
            piece = pieces.get(row.number, Piece("", (), "length"))
            pieces[row.number] = Piece(piece.text, (*row.prompt, *piece.tokens), piece.finish)
            if piece.finish:
                prompts.drop(place)
        self.rows += prompts.rows
        self.reader.join(prompts.reader)
        self.choosers = None

    def _choosers(self, rows: Sequence[Row]) -> Sampler:
        answers = [row.answer for row in rows]
        return Sampler([row.request for row in rows], self.tokenizer.size, self.reader.device, answers)

    def _choose(self, rows: Sequence[Row], logits: Tensor, choosers: Sampler, position: Tensor) -> tuple[Tensor, list[Token] | None]:
        """The next token of each row (R,), from logits (R, V); and the tokens with log-probabilities, where any row asked for them."""
        logits = logits[:, : self.tokenizer.size]
        ids = choosers.choose(logits, position)
        choosers.record(ids)
        most = max(row.request.sampling.logprobs for row in rows)
        return ids, Sampler.told(logits, ids, most) if most >= 0 else None

    def _push(self, rows: Sequence[Row], tokens: Sequence[Token], pieces: dict[int, Piece]) -> set[int]:
        """Give each row its token -> the numbers of those that ended."""
        ended = set()
        for row, token in zip(rows, tokens, strict=True):
            if row.gone:
                continue
            room = 0 if self.slide or not self.context else self.context - len(row.request.ids)
            piece = row.push(trimmed(token, row.request.sampling.logprobs), self.ends, room)
            if before := pieces.get(row.number):
                piece = Piece(before.text + piece.text, (*before.tokens, *piece.tokens), piece.finish)
            pieces[row.number] = piece
            if piece.finish:
                ended.add(row.number)
        return ended

    def _drop(self, place: int) -> None:
        self.rows[place].gone = True
        self.rows[place] = self.rows[-1]
        self.rows.pop()
        self.reader.drop(place)
        self.choosers = None


def ends_of(tokenizer: Any) -> set[int]:
    """Tokens by which a model itself ends an answer; none where its tokenizer has no such mark."""
    return {number for name, number in getattr(tokenizer, "marks", {}).items() if name == "end"}


def trimmed(token: Token, alternatives: int) -> Token:
    """A token with no more than was asked for."""
    if alternatives < 0:
        return Token(token.id)
    named = [pair for place, pair in enumerate(token.alternatives) if place < alternatives or pair[0] == token.id]
    return Token(token.id, token.logprob, tuple(named))


def answer_all(engine: Engine, requests: Sequence[Request], progress: Callable[[int], Any] | None = None) -> list[Answer]:
    """Every request answered to its end, in order. progress: called with the number of those that are done."""
    numbers = [engine.add(request) for request in requests]
    texts: dict[int, str] = dict.fromkeys(numbers, "")
    tokens: dict[int, list[Token]] = {number: [] for number in numbers}
    ended: dict[int, str] = {}
    while len(ended) < len(numbers):
        for number, piece in engine.step().items():
            texts[number] += piece.text
            tokens[number] += piece.tokens
            if piece.finish:
                ended[number] = piece.finish
                if progress:
                    progress(len(ended))
    answers = []
    for number, request in zip(numbers, requests, strict=True):
        prompt = len(request.ids) if request.echo else 0
        made = tuple(tokens[number])
        answers.append(Answer(texts[number], made[prompt:], ended[number], request.sampling.seed, made[:prompt]))
    return answers
