"""Answers in the form of OpenAI's completions and chats, whole or in chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft import __version__
from weft.inference.request import Delta, Request, Token
from weft.serving.tokens import WINDOW, TokenTexts

FINISH_REASON = {"stop": "stop", "stop sequence": "stop", "length": "length", "context": "length"}
LEAST = -9999.0
"""Stands for minus infinity, which JSON cannot say."""


@dataclass
class PartialAnswer:
    """An answer as far as it has come."""

    request: Request
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    """Those of the prompt first, where it is echoed."""
    finish_reason: str = ""
    more: dict[str, float] = field(default_factory=dict)
    """Further fields of its choice."""

    def add(self, delta: Delta) -> None:
        self.text += delta.text
        self.tokens += delta.tokens
        self.finish_reason = delta.finish_reason

    @property
    def made(self) -> list[Token]:
        """The tokens of the answer."""
        return self.tokens[len(self.request.ids) if self.request.prompt_logprobs else 0 :]

    @property
    def score(self) -> float:
        """Log-probability a token."""
        return sum(finite(token.logprob) for token in self.made) / max(1, len(self.made))


def finite(logprob: float | None) -> float:
    return logprob if logprob is not None and logprob >= LEAST else LEAST


def usage(answers: Sequence[PartialAnswer]) -> dict[str, int]:
    """A prompt that several answers share counts once."""
    prompt = sum(len(answer.request.ids) for answer in answers if answer.request.number == 0)
    made = sum(len(answer.made) for answer in answers)
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


class Reply:
    """What both forms share. `objects`: the names of a whole answer and of a chunk."""

    prefix, objects = "", ("", "")

    def __init__(self, model: str, tokens: TokenTexts, answers: list[PartialAnswer], *, top: int | None, with_usage: bool = False):
        """top: how many alternatives to give; None gives no log-probabilities."""
        self.tokens, self.answers, self.top, self.with_usage = tokens, answers, top, with_usage
        self.about = {"id": f"{self.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def frame(self, choices: list[dict[str, Any]], *, chunk: bool, **more: Any) -> dict[str, Any]:
        about = {"id": self.about["id"], "object": self.objects[chunk], "created": self.about["created"], "model": self.about["model"]}
        return {**about, "system_fingerprint": f"weft-{__version__}", "choices": choices, **more}

    def whole(self) -> dict[str, Any]:
        choices = [self.choice(index, answer) for index, answer in enumerate(self.chosen())]
        return self.frame(choices, chunk=False, usage=usage(self.answers))

    def chunk(self, *choices: dict[str, Any]) -> dict[str, Any]:
        return self.frame(list(choices), chunk=True, **({"usage": None} if self.with_usage else {}))

    def opening(self) -> list[dict[str, Any]]:
        """Chunks before the first delta."""
        return []

    def closing(self) -> list[dict[str, Any]]:
        """Chunks after the last."""
        return [self.frame([], chunk=True, usage=usage(self.answers))] if self.with_usage else []

    def chosen(self) -> list[PartialAnswer]:
        return self.answers

    def choice(self, index: int, answer: PartialAnswer) -> dict[str, Any]:
        raise NotImplementedError

    def chunks(self, index: int, delta: Delta) -> list[dict[str, Any]]:
        """What one more delta of an answer looks like; the answer has it already."""
        raise NotImplementedError


class CompletionReply(Reply):
    prefix, objects = "cmpl", ("text_completion", "text_completion")

    def __init__(self, *arguments: Any, echoed: Sequence[str] = (), keep: int, count: int, **more: Any):
        """echoed: prompts, one for each answer, to stand before it. Of `count` answers to a prompt the best are kept."""
        super().__init__(*arguments, **more)
        self.echoed = echoed or [""] * len(self.answers)
        self.keep, self.count = keep, count
        self.begun: set[int] = set()
        self.sent = [0] * len(self.answers)
        self.offset = [0] * len(self.answers)

    def chosen(self) -> list[PartialAnswer]:
        groups = [self.answers[first : first + self.count] for first in range(0, len(self.answers), self.count)]
        if self.keep == self.count:
            return self.answers
        return [answer for group in groups for answer in sorted(group, key=lambda answer: -answer.score)[: self.keep]]

    def choice(self, index: int, answer: PartialAnswer) -> dict[str, Any]:
        echoed = next(text for text, other in zip(self.echoed, self.answers, strict=True) if other is answer)
        logprobs = None if self.top is None else self.logprobs(answer.tokens, self.offsets(answer.tokens))
        return {**completion_choice(index, echoed + answer.text, logprobs, FINISH_REASON.get(answer.finish_reason)), **answer.more}

    def chunks(self, index: int, delta: Delta) -> list[dict[str, Any]]:
        answer = self.answers[index]
        text = delta.text if index in self.begun else self.echoed[index] + delta.text
        self.begun.add(index)
        logprobs = None
        if self.top is not None and delta.tokens:
            sent = self.sent[index]
            before = [token.id for token in answer.tokens[max(0, sent - WINDOW) : sent]]
            offsets = self.offsets(delta.tokens, self.offset[index], before)
            logprobs = self.logprobs(delta.tokens, offsets)
            self.offset[index] = offsets[-1]  # not that of the text sent so far, of which some may be held back
        self.sent[index] = len(answer.tokens)
        if not (text or logprobs or delta.finish_reason):
            return []
        return [self.chunk(completion_choice(index, text, logprobs, FINISH_REASON.get(delta.finish_reason)))]

    def offsets(self, tokens: Sequence[Token], start: int = 0, before: Sequence[int] = ()) -> list[int]:
        return self.tokens.offsets([token.id for token in tokens], start, before)

    def logprobs(self, tokens: Sequence[Token], offsets: Sequence[int]) -> dict[str, Any]:
        return {
            "tokens": [self.tokens.text(token.id) for token in tokens],
            "token_logprobs": [None if token.logprob is None else finite(token.logprob) for token in tokens],
            "top_logprobs": [self.alternatives(token) for token in tokens] if self.top else None,
            "text_offset": offsets[: len(tokens)],
        }

    def alternatives(self, token: Token) -> dict[str, float] | None:
        """By text. The token itself is always among them, with the very same number: clients look for the largest."""
        if token.logprob is None:
            return None
        logprobs = dict(token.alternatives)
        logprobs.setdefault(token.id, token.logprob)
        return dict(zip(self.tokens.names(list(logprobs)), map(finite, logprobs.values()), strict=True))


def completion_choice(index: int, text: str, logprobs: dict[str, Any] | None, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


class ChatReply(Reply):
    prefix, objects = "chatcmpl", ("chat.completion", "chat.completion.chunk")

    def choice(self, index: int, answer: PartialAnswer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        finish_reason = FINISH_REASON.get(answer.finish_reason)
        return {"index": index, "message": message, "logprobs": self.logprobs(answer.tokens), "finish_reason": finish_reason}

    def opening(self) -> list[dict[str, Any]]:
        return [self.chunk(delta_choice(index, {"role": "assistant", "content": ""})) for index in range(len(self.answers))]

    def chunks(self, index: int, delta: Delta) -> list[dict[str, Any]]:
        logprobs = self.logprobs(delta.tokens) if delta.tokens else None
        chunks = [self.chunk(delta_choice(index, {"content": delta.text}, logprobs))] if delta.text or logprobs else []
        if delta.finish_reason:
            chunks.append(self.chunk(delta_choice(index, {}, finish=FINISH_REASON.get(delta.finish_reason))))
        return chunks

    def logprobs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if self.top is None:
            return None
        return {"content": [{**self.entry(t.id, t.logprob), "top_logprobs": self.alternatives(t)} for t in tokens], "refusal": None}

    def alternatives(self, token: Token) -> list[dict[str, Any]]:
        return [self.entry(number, logprob) for number, logprob in token.alternatives[: self.top]]

    def entry(self, number: int, logprob: float | None) -> dict[str, Any]:
        return {"token": self.tokens.text(number), "logprob": finite(logprob), "bytes": list(self.tokens.spelling(number))}


def delta_choice(index: int, content: dict[str, Any], logprobs: dict[str, Any] | None = None, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": content, "logprobs": logprobs, "finish_reason": finish}
