"""Answers in the form of OpenAI's completions and chats, whole or in chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft import __version__
from weft.inference.request import Piece, Request, Token
from weft.serving.tokens import WINDOW, TokenTexts

FINISH = {"stop": "stop", "stop text": "stop", "length": "length", "context": "length"}
LEAST = -9999.0
"""Stands for minus infinity, which JSON cannot say."""


@dataclass
class Draft:
    """An answer as far as it has come."""

    request: Request
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    """Those of the prompt first, where it is echoed."""
    finish: str = ""
    more: dict[str, float] = field(default_factory=dict)
    """What else is told of it."""

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.tokens += piece.tokens
        self.finish = piece.finish

    @property
    def made(self) -> list[Token]:
        """The tokens of the answer."""
        return self.tokens[len(self.request.ids) if self.request.echo else 0 :]

    @property
    def score(self) -> float:
        """Log-probability a token."""
        return sum(finite(token.logprob) for token in self.made) / max(1, len(self.made))


def finite(logprob: float | None) -> float:
    return logprob if logprob is not None and logprob >= LEAST else LEAST


def usage(drafts: Sequence[Draft]) -> dict[str, int]:
    """A prompt that several answers share counts once."""
    prompt = sum(len(draft.request.ids) for draft in drafts if draft.request.number == 0)
    made = sum(len(draft.made) for draft in drafts)
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


class Reply:
    """What both forms share. `objects`: the names of a whole answer and of a chunk."""

    prefix, objects = "", ("", "")

    def __init__(self, model: str, tokens: TokenTexts, drafts: list[Draft], *, top: int | None, with_usage: bool = False):
        """top: how many alternatives to tell; None tells no log-probabilities."""
        self.tokens, self.drafts, self.top, self.with_usage = tokens, drafts, top, with_usage
        self.about = {"id": f"{self.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def frame(self, choices: list[dict[str, Any]], *, chunk: bool, **more: Any) -> dict[str, Any]:
        found = {"id": self.about["id"], "object": self.objects[chunk], "created": self.about["created"], "model": self.about["model"]}
        return {**found, "system_fingerprint": f"weft-{__version__}", "choices": choices, **more}

    def whole(self) -> dict[str, Any]:
        choices = [self.choice(index, draft) for index, draft in enumerate(self.chosen())]
        return self.frame(choices, chunk=False, usage=usage(self.drafts))

    def chunk(self, *choices: dict[str, Any]) -> dict[str, Any]:
        return self.frame(list(choices), chunk=True, **({"usage": None} if self.with_usage else {}))

    def opening(self) -> list[dict[str, Any]]:
        """Chunks before the first piece."""
        return []

    def closing(self) -> list[dict[str, Any]]:
        """Chunks after the last."""
        return [self.frame([], chunk=True, usage=usage(self.drafts))] if self.with_usage else []

    def chosen(self) -> list[Draft]:
        return self.drafts

    def choice(self, index: int, draft: Draft) -> dict[str, Any]:
        raise NotImplementedError

    def chunks(self, place: int, piece: Piece) -> list[dict[str, Any]]:
        """What one more piece of an answer looks like; its draft has it already."""
        raise NotImplementedError


class CompletionReply(Reply):
    prefix, objects = "cmpl", ("text_completion", "text_completion")

    def __init__(self, *arguments: Any, echoed: Sequence[str] = (), keep: int, count: int, **more: Any):
        """echoed: prompts, one for each draft, to stand before it. Of `count` answers to a prompt the best are kept."""
        super().__init__(*arguments, **more)
        self.echoed = echoed or [""] * len(self.drafts)
        self.keep, self.count = keep, count
        self.begun: set[int] = set()
        self.told = [0] * len(self.drafts)
        self.offset = [0] * len(self.drafts)

    def chosen(self) -> list[Draft]:
        groups = [self.drafts[first : first + self.count] for first in range(0, len(self.drafts), self.count)]
        if self.keep == self.count:
            return self.drafts
        return [draft for group in groups for draft in sorted(group, key=lambda draft: -draft.score)[: self.keep]]

    def choice(self, index: int, draft: Draft) -> dict[str, Any]:
        place = next(place for place, other in enumerate(self.drafts) if other is draft)
        told = None if self.top is None else self.logprobs(draft.tokens, self.offsets(draft.tokens))
        return {**completion_choice(index, self.echoed[place] + draft.text, told, FINISH.get(draft.finish)), **draft.more}

    def chunks(self, place: int, piece: Piece) -> list[dict[str, Any]]:
        draft = self.drafts[place]
        text = piece.text if place in self.begun else self.echoed[place] + piece.text
        self.begun.add(place)
        told = None
        if self.top is not None and piece.tokens:
            told_before = self.told[place]
            before = [token.id for token in draft.tokens[max(0, told_before - WINDOW) : told_before]]
            offsets = self.offsets(piece.tokens, self.offset[place], before)
            told = self.logprobs(piece.tokens, offsets)
            self.offset[place] = offsets[-1]  # not that of the text told so far, of which some may be held back
        self.told[place] = len(draft.tokens)
        if not (text or told or piece.finish):
            return []
        return [self.chunk(completion_choice(place, text, told, FINISH.get(piece.finish)))]

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
        found = dict(token.alternatives)
        found.setdefault(token.id, token.logprob)
        return dict(zip(self.tokens.names(list(found)), map(finite, found.values()), strict=True))


def completion_choice(index: int, text: str, logprobs: dict[str, Any] | None, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


class ChatReply(Reply):
    prefix, objects = "chatcmpl", ("chat.completion", "chat.completion.chunk")

    def choice(self, index: int, draft: Draft) -> dict[str, Any]:
        message = {"role": "assistant", "content": draft.text, "refusal": None}
        return {"index": index, "message": message, "logprobs": self.logprobs(draft.tokens), "finish_reason": FINISH.get(draft.finish)}

    def opening(self) -> list[dict[str, Any]]:
        return [self.chunk(delta(place, {"role": "assistant", "content": ""})) for place in range(len(self.drafts))]

    def chunks(self, place: int, piece: Piece) -> list[dict[str, Any]]:
        told = self.logprobs(piece.tokens) if piece.tokens else None
        found = [self.chunk(delta(place, {"content": piece.text}, told))] if piece.text or told else []
        return [*found, self.chunk(delta(place, {}, finish=FINISH.get(piece.finish)))] if piece.finish else found

    def logprobs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if self.top is None:
            return None
        return {"content": [{**self.entry(t.id, t.logprob), "top_logprobs": self.alternatives(t)} for t in tokens], "refusal": None}

    def alternatives(self, token: Token) -> list[dict[str, Any]]:
        return [self.entry(number, logprob) for number, logprob in token.alternatives[: self.top]]

    def entry(self, number: int, logprob: float | None) -> dict[str, Any]:
        return {"token": self.tokens.text(number), "logprob": finite(logprob), "bytes": list(self.tokens.spelling(number))}


def delta(index: int, content: dict[str, Any], logprobs: dict[str, Any] | None = None, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": content, "logprobs": logprobs, "finish_reason": finish}
