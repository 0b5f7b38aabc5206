"""Continuous batching: requests join and leave between steps, and what each of them gets does not depend on the others.

A step decodes the next token of every answer at once; then it prefills a chunk of the prompts that wait to join, so that a long prompt
does not hold up the answers. On a GPU the next step is begun before the tokens of the last one are fetched, so that neither waits for the
other: what has been chosen but not fetched is pending. One thread owns an engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.inference import invariance
from weft.inference.detokenizer import Detokenizer
from weft.inference.penalties import check_bias
from weft.inference.prefill_graphs import PrefillGraphs
from weft.inference.prefix_cache import PrefixCache
from weft.inference.request import Answer, Delta, Request, Token
from weft.inference.runner import ModelRunner
from weft.inference.sampler import Sampler
from weft.kernels.decode_step import DecodeStep

CHUNK = 512
"""Most tokens of a prompt that are prefilled at a step."""


class PendingTokens:
    """What was chosen for some requests, perhaps still on its way from the device."""

    def __init__(self, requests: Sequence[ActiveRequest], ids: Tensor, tokens: list[Token] | None = None):
        """ids (B,). tokens: the same with log-probabilities, where these were asked for."""
        self.requests, self.ids, self.tokens = list(requests), ids, tokens
        self.fetched = None
        if ids.is_cuda and not tokens:
            self.ids = torch.empty(len(ids), dtype=ids.dtype, pin_memory=True)
            self.ids.copy_(ids, non_blocking=True)
            self.fetched = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.fetched.record()

    def wait(self) -> list[Token]:
        if self.fetched:
            self.fetched.synchronize()
        return self.tokens or [Token(number) for number in self.ids.tolist()]


class ActiveRequest:
    """A request that is being answered."""

    def __init__(self, number: int, request: Request, tokenizer: Any):
        self.number, self.request = number, request
        self.text = Detokenizer(tokenizer, request.sampling.stop, request.ids)
        self.prompt: list[Token] = []
        self.answer: list[int] = []
        self.ended = False

    def push(self, token: Token, ends: set[int], room: int) -> Delta:
        """A chosen token -> what the answer gains by it. room: how many tokens fit behind the prompt; 0 for any number."""
        self.answer.append(token.id)
        made, s = len(self.answer), self.request.sampling
        if token.id in s.stop_tokens or (token.id in ends and not s.ignore_end):
            return Delta(self.text.finish(), (token,), "stop")
        text = self.text.push([token.id])
        if self.text.stopped:
            return Delta(text, (token,), "stop sequence")
        if made >= s.max_new_tokens or 0 < room <= made:
            return Delta(text + self.text.finish(), (token,), "length" if made >= s.max_new_tokens else "context")
        return Delta(text, (token,))


class Prefill:
    """Requests whose prompts are being read, together and a chunk at a time."""

    def __init__(self, requests: list[ActiveRequest], runner: ModelRunner, prefix_cache: PrefixCache):
        """runner: without rows yet."""
        self.requests, self.runner, self.prefix_cache = requests, runner, prefix_cache
        self.snapshots: list[list[int]] = []
        """Lengths at which the prefix cache wants a snapshot of each row, and the whole prompt."""
        for each in requests:
            if each.request.prompt_logprobs:  # where the prompt's own log-probabilities are asked for, all of it must be read
                runner.add_rows(1)
                self.snapshots.append([])
            else:
                self.snapshots.append(prefix_cache.add_row(runner, each.request.ids))
        self.unread = [list(each.request.ids[len(known) :]) for each, known in zip(requests, runner.ids, strict=True)]
        self.states: list[Any] = [None] * len(requests)
        """Of the last token read of each prompt (D,)."""

    def step(self, prefill_chunk: int) -> bool:
        """Read at most so many tokens of each prompt -> whether all have been read."""
        sizes = [self._size(row, prefill_chunk) for row in range(len(self.requests))]
        now = [ids[:size] for ids, size in zip(self.unread, sizes, strict=True)]
        self.unread = [ids[size:] for ids, size in zip(self.unread, sizes, strict=True)]
        for row, (each, states, ids) in enumerate(zip(self.requests, self.runner.prefill(now), now, strict=True)):
            if len(ids):
                self._add_prompt_logprobs(each, row, states, ids)
                self.states[row] = states[-1]
                if not self.unread[row] or len(self.runner.ids[row]) in self.snapshots[row]:
                    self.prefix_cache.keep(self.runner, row)
        return not any(self.unread)

    def _size(self, row: int, prefill_chunk: int) -> int:
        """Tokens of a prompt to read now: no further than to where a snapshot is wanted."""
        known = len(self.runner.ids[row])
        return min([prefill_chunk, *(length - known for length in self.snapshots[row] if length > known)])

    def _add_prompt_logprobs(self, each: ActiveRequest, row: int, states: Tensor, ids: list[int]) -> None:
        """Log-probabilities of the prompt's own tokens, where they were asked for."""
        if not each.request.prompt_logprobs:
            return
        if not each.prompt:
            each.prompt.append(Token(ids[0]))
        following = [*ids[1:], *self.unread[row][:1]]
        alternatives = each.request.sampling.logprobs
        if alternatives < 0:
            each.prompt += [Token(number) for number in following]
        elif following:
            logits = self.runner.model.head(states[: len(following)])
            each.prompt += Sampler.logprobs(logits, torch.tensor(following, device=logits.device), alternatives)

    def drop(self, row: int) -> None:
        columns: tuple[list[Any], ...] = (self.requests, self.unread, self.states, self.snapshots)
        for column in columns:
            column[row] = column[-1]
            column.pop()
        self.runner.drop(row)


class Engine:
    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        slots: int = 32,
        sliding_context: bool = False,
        cached: bool = True,
        prefill_chunk: int = CHUNK,
        prefixes: int = 8,
        batch_invariant: bool | None = None,
    ):
        """slots: answers made at once. sliding_context: go on past the model's context, seeing the last tokens only. cached: read every
        token once, where the model can. prefill_chunk: most tokens of each prompt prefilled at a step. prefixes: snapshots in the prefix
        cache. batch_invariant: an answer is the same to the last bit, alone or beside others, in every precision; None where that costs
        little."""
        if slots < 1 or prefill_chunk < 1:
            raise ConfigError(f"slots and prefill_chunk must be at least 1, not {slots} and {prefill_chunk}")
        self.model, self.tokenizer, self.slots, self.cached = model.eval(), tokenizer, slots, cached
        self.sliding_context, self.prefill_chunk = sliding_context, prefill_chunk
        self.ends = end_tokens(tokenizer)
        self.batch_invariant = invariance.choose(model, slots).on if batch_invariant is None else batch_invariant
        self.runner = ModelRunner(model, cached=cached, batch_invariant=self.batch_invariant)
        self.graphs = PrefillGraphs(model) if isinstance(self.runner.decode_step, DecodeStep) else None
        self.context = self.runner.context
        self.prefix_cache = PrefixCache(prefixes, prefill_chunk if self.batch_invariant else 1)
        self.requests: list[ActiveRequest] = []
        """Those that are decoded, in the order of the runner's rows."""
        self.prefills: deque[Prefill] = deque()
        self.queue: deque[ActiveRequest] = deque()
        self.sampler: Sampler | None = None
        """Settings of the rows, with their last tokens and the positions of the next; none where rows came or went since."""
        self.last = self.position = torch.empty(0, dtype=torch.int64)
        self.pending: PendingTokens | None = None
        self.added = 0

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        return len(self.requests) + sum(len(prefill.requests) for prefill in self.prefills)

    def add(self, request: Request) -> int:
        """Ask for an answer -> its number."""
        request.sampling.check()
        known: int = self.tokenizer.size
        check_bias(request.sampling, known)
        if not request.ids or not all(0 <= number < known for number in request.ids):
            raise ConfigError(f"a prompt must hold at least one token, each from 0 to {known - 1}")
        if self.context and not self.sliding_context and len(request.ids) + min(request.sampling.max_new_tokens, 1) > self.context:
            raise ConfigError(f"a prompt of {len(request.ids)} tokens leaves no room for an answer in a context of {self.context}")
        self.added += 1
        self.queue.append(ActiveRequest(self.added, request, self.tokenizer))
        return self.added

    @torch.inference_mode()
    def cancel(self, number: int) -> None:
        """Stop answering; the slot is free at once."""
        self.queue = deque(each for each in self.queue if each.number != number)
        for prefill in self.prefills:
            for row, each in enumerate(prefill.requests):
                if each.number == number:
                    prefill.drop(row)
                    break
        self.prefills = deque(prefill for prefill in self.prefills if prefill.requests)
        for row, each in enumerate(self.requests):
            if each.number == number:
                self._drop(row)
                break

    @torch.inference_mode()
    def step(self) -> dict[int, Delta]:
        """One token for each answer, and a chunk of the prompts -> what every request got, by its number."""
        deltas: dict[int, Delta] = {}
        if self.sampler is None:  # whoever comes or goes, all tokens must be known first
            self._wait(deltas)
        if self.requests:
            following = self._launch()
            self._wait(deltas)
            self.pending = following
            if following and (following.tokens or not following.fetched):
                self._wait(deltas)
        self._admit()
        self._prefill(deltas)
        return deltas

    def _launch(self) -> PendingTokens | None:
        """Decode a token of every row and choose the next; nothing where it must be known first what is pending."""
        steady, ahead = self.runner.can_decode(), 1 if self.pending else 0
        unfinished = any(len(each.answer) + ahead < each.request.sampling.max_new_tokens for each in self.requests)
        if ahead and not (steady and unfinished):
            return None
        if self.sampler is None:
            self.sampler = self._sampler(self.requests)
            self.last = torch.tensor([each.answer[-1] for each in self.requests], device=self.runner.device)
            self.position = torch.tensor([len(each.answer) for each in self.requests], device=self.runner.device)
        logits = self.runner.decode(self.last) if steady else self._recompute()
        self.last, tokens = self._choose(self.requests, logits, self.sampler, self.position)
        self.position = self.position + 1
        return PendingTokens(self.requests, self.last, tokens)

    def _recompute(self) -> Tensor:
        """Logits (B, V) of rows that have no state, or have outgrown its limit."""
        self.runner.ids = [[*each.request.ids, *each.answer[:-1]] for each in self.requests]
        return self._logits([states[-1] for states in self.runner.prefill([each.answer[-1:] for each in self.requests])])

    def _logits(self, states: Sequence[Tensor]) -> Tensor:
        """Hidden states (D,) of some rows -> logits (B, V)."""
        rows = [state[None] for state in states] if self.batch_invariant else [torch.stack(list(states))]
        return torch.cat([self.model.head(row) for row in rows])

    def _wait(self, deltas: dict[int, Delta]) -> None:
        """Tell the requests what was chosen for them; those that end are dropped."""
        pending, self.pending = self.pending, None
        if not pending or all(each.ended for each in pending.requests):
            return
        finished = self._push(pending.requests, pending.wait(), deltas)
        for row in reversed(range(len(self.requests) if finished else 0)):
            if self.requests[row].number in finished:
                self._drop(row)

    def _admit(self) -> None:
        """Begin to prefill the prompts for which there are slots: together, or where answers are to be invariant each by itself."""
        free = self.slots - self.active
        if self.prefills or not self.queue or free <= 0:
            return
        admitted = [self.queue.popleft() for _ in range(min(free, len(self.queue)))]
        for requests in [[each] for each in admitted] if self.batch_invariant else [admitted]:
            runner = ModelRunner(self.model, cached=self.cached, graphs=self.graphs)
            self.prefills.append(Prefill(requests, runner, self.prefix_cache))

    def _prefill(self, deltas: dict[int, Delta]) -> None:
        """A chunk of each prompt; those that have been read join the rows, before captured memory is used for the next."""
        read: list[tuple[ActiveRequest, Any]] = []
        for _ in range(len(self.prefills)):
            prefill = self.prefills[0]
            if not prefill.step(self.prefill_chunk):
                break  # a long prompt alone: the others wait for their turn
            self.prefills.popleft()
            read += zip(prefill.requests, prefill.states, strict=True)
            self.requests += prefill.requests
            self.runner.join(prefill.runner)
        if read:
            self._begin([each for each, _ in read], [state for _, state in read], deltas)

    def _begin(self, requests: list[ActiveRequest], states: list[Any], deltas: dict[int, Delta]) -> None:
        """Choose the first token behind each prompt."""
        asked = [row for row, each in enumerate(requests) if each.request.sampling.max_new_tokens]
        if asked:
            beginning = [requests[row] for row in asked]
            first = torch.zeros(len(asked), dtype=torch.int64, device=self.runner.device)
            ids, tokens = self._choose(beginning, self._logits([states[row] for row in asked]), self._sampler(beginning), first)
            self._push(beginning, tokens or [Token(number) for number in ids.tolist()], deltas)
        for each in requests:
            delta = deltas.get(each.number, Delta("", (), "length"))
            deltas[each.number] = Delta(delta.text, (*each.prompt, *delta.tokens), delta.finish_reason)
        new = {each.number for each in requests}
        for row in reversed(range(len(self.requests))):
            if self.requests[row].number in new and deltas[self.requests[row].number].finish_reason:
                self._drop(row)
        self.sampler = None

    def _sampler(self, requests: Sequence[ActiveRequest]) -> Sampler:
        answers = [each.answer for each in requests]
        bounded = self.context and not self.sliding_context
        rooms = [self.context - len(each.request.ids) if bounded else each.request.sampling.max_new_tokens for each in requests]
        return Sampler([each.request for each in requests], self.tokenizer.size, self.runner.device, answers, rooms)

    def _choose(
        self, requests: Sequence[ActiveRequest], logits: Tensor, sampler: Sampler, position: Tensor
    ) -> tuple[Tensor, list[Token] | None]:
        """The next token of each row (B,), from logits (B, V); and the tokens with log-probabilities, where any row asked for them."""
        logits = logits[:, : self.tokenizer.size]
        ids = sampler.choose(logits, position)
        sampler.record(ids)
        most = max(each.request.sampling.logprobs for each in requests)
        return ids, Sampler.logprobs(logits, ids, most) if most >= 0 else None

    def _push(self, requests: Sequence[ActiveRequest], tokens: Sequence[Token], deltas: dict[int, Delta]) -> set[int]:
        """Give each request its token -> the numbers of those that ended."""
        finished = set()
        for each, token in zip(requests, tokens, strict=True):
            if each.ended:
                continue
            room = 0 if self.sliding_context or not self.context else self.context - len(each.request.ids)
            delta = each.push(trimmed(token, each.request.sampling.logprobs), self.ends, room)
            if before := deltas.get(each.number):
                delta = Delta(before.text + delta.text, (*before.tokens, *delta.tokens), delta.finish_reason)
            deltas[each.number] = delta
            if delta.finish_reason:
                finished.add(each.number)
        return finished

    def _drop(self, row: int) -> None:
        self.requests[row].ended = True
        self.requests[row] = self.requests[-1]
        self.requests.pop()
        self.runner.drop(row)
        self.sampler = None


def end_tokens(tokenizer: Any) -> set[int]:
    """Tokens by which a model itself ends an answer; none where its tokenizer has no such special token."""
    return {number for name, number in getattr(tokenizer, "special_tokens", {}).items() if name == "end"}


def trimmed(token: Token, alternatives: int) -> Token:
    """A token with no more log-probabilities than were asked for."""
    if alternatives < 0:
        return Token(token.id)
    named = [pair for rank, pair in enumerate(token.alternatives) if rank < alternatives or pair[0] == token.id]
    return Token(token.id, token.logprob, tuple(named))


def generate_all(
    engine: Engine,
    requests: Sequence[Request],
    progress: Callable[[int], Any] | None = None,
    on_text: Callable[[str], Any] | None = None,
) -> list[Answer]:
    """Every request answered to its end, in order. progress: called with the number of those that are done; on_text: with every piece of
    text as it comes."""
    numbers = [engine.add(request) for request in requests]
    texts: dict[int, str] = dict.fromkeys(numbers, "")
    tokens: dict[int, list[Token]] = {number: [] for number in numbers}
    finished: dict[int, str] = {}
    while len(finished) < len(numbers):
        for number, delta in engine.step().items():
            texts[number] += delta.text
            if on_text and delta.text:
                on_text(delta.text)
            tokens[number] += delta.tokens
            if delta.finish_reason:
                finished[number] = delta.finish_reason
                if progress:
                    progress(len(finished))
    answers = []
    for number, request in zip(numbers, requests, strict=True):
        prompt = len(request.ids) if request.prompt_logprobs else 0
        made = tuple(tokens[number])
        answers.append(Answer(texts[number], made[prompt:], finished[number], request.sampling.seed, made[:prompt]))
    return answers
