"""The text of an answer as its tokens come in, up to the first stop sequence.

A tokenizer is asked for a few tokens at a time, never for the whole answer, so a token costs the same however long the answer is, unless
it says that it must know all tokens. What has been released never changes. Two things are held back: tokens whose text may still change,
and text that may become a stop sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

REPLACEMENT = "\ufffd"
"""What tokenizers write for bytes that are no character, or not yet."""
UNDECIDED = (REPLACEMENT, " \n")
"""Ends that the next token may change; words are put together with the spaces around a line break left out on both sides or on none."""
SPLIT = 3
"""Most tokens that a character can have and not be whole, in UTF-8."""
LONGEST = 64
"""Most tokens that are held back, or looked back at."""


class Detokenizer:
    """The text of one answer."""

    def __init__(self, tokenizer: Any, stops: Sequence[str] = (), prompt: Sequence[int] = ()):
        """prompt: tokens before the answer, where a space between the two is to be part of it."""
        self.decode, self.stops = tokenizer.decode, tuple(stops)
        self.whole = getattr(tokenizer, "needs_all_tokens", False)
        self.stopped = False
        """Whether a stop sequence came."""
        self.read = 0
        """Number of tokens that were read, those after a stop sequence not counted."""
        self._before = list(prompt[-LONGEST:])  # tokens whose text is settled, as context of the next
        self._before_text: str = self.decode(self._before)
        self._open: list[int] = []  # tokens whose text is not settled
        self._open_text = ""
        self._settled = ""  # text that is settled but not released

    def push(self, ids: Sequence[int]) -> str:
        """Further tokens -> text that can no longer change. After a stop sequence there is none."""
        released = ""
        for number in ids:
            if self.stopped:
                break
            self.read += 1
            self._open.append(number)
            self._open_text = self._text_of(self._open)
            if not self._open_text.endswith(UNDECIDED):
                self._settle(len(self._open))
            elif len(self._open) >= LONGEST:
                self._settle(len(self._open) - SPLIT)  # broken bytes, or the replacement character itself, again and again
            released += self._release(self._open_text.rstrip(REPLACEMENT))
        return released

    def finish(self) -> str:
        """No more tokens come -> the rest of the text."""
        if self.stopped:
            return ""
        self._settle(len(self._open))
        released = self._release("") + self._settled
        self._settled = ""
        return released

    def _text_of(self, ids: list[int]) -> str:
        """What tokens add to those before. What these say alone counts where they would change what is settled: the tokenizers
        library gives up a whole run of bytes for one that is broken."""
        whole: str = self.decode(self._before + ids)
        if whole.startswith(self._before_text):
            return whole[len(self._before_text) :]
        alone: str = self.decode(ids)
        return alone

    def _settle(self, number: int) -> None:
        """So many of the open tokens will not change their text any more."""
        ids, self._open = self._open[:number], self._open[number:]
        text = self._text_of(ids) if self._open else self._open_text
        self._settled += text
        if self.whole:
            self._before = self._before + ids
        elif any(map(str.isalnum, text)) or (text and len(self._before) + number > LONGEST):
            self._before = ids  # no tokenizer puts what follows a word together by what stands before it
        elif len(self._before) < 2 * LONGEST:
            self._before = self._before + ids  # else a token without text, of which thousands may follow an END, but never the END itself
        self._before_text = self.decode(self._before)
        self._open_text = self._text_of(self._open) if self._open else ""

    def _release(self, following: str) -> str:
        """The settled text that can be released, given what follows as far as known."""
        if not self.stops:
            released, self._settled = self._settled, ""
            return released
        text = self._settled + following
        begins = [begin for stop in self.stops if (begin := text.find(stop)) >= 0]
        if begins:
            self.stopped, self._settled = True, ""
            return text[: min(begins)]
        withheld = partial_stop(self._settled, self.stops)
        released = self._settled[: len(self._settled) - withheld]
        self._settled = self._settled[len(released) :]
        return released


def partial_stop(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of a text may become a stop sequence, none of which it holds."""
    most = min(len(text), max(map(len, stops), default=1) - 1)
    return next((number for number in range(most, 0, -1) if any(text.endswith(stop[:number]) for stop in stops)), 0)
