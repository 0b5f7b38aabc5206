"""Tokens as clients see them: the text and bytes of each, where it begins in a text, and the special tokens around a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.data.annotated.gpt_finetuning import GPTFinetuningTokenizer
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.io.files import well_formed
from weft.data.tokenizers.base import ByteTokenizer, Tokenizer
from weft.data.tokenizers.foreign import special_tokens
from weft.data.tokenizers.subwords import ByteBPE, Subwords
from weft.data.tokenizers.unknown import warn_unknown

BYTE = re.compile(r"<0x([0-9A-F]{2})>")
WINDOW = 8
"""Tokens before another that can change how it is written."""
SLACK = 256
"""Tokens by which the beginning of a text may have more than it has inside the whole: a word that is cut is another word."""


class TooManyTokens(Exception):
    """A text was not encoded to its end, as it has more tokens than so many."""

    def __init__(self, most: int):
        super().__init__(f"more than {most} tokens")
        self.most = most


def byte_letters() -> dict[str, int]:
    """The letters in which byte-level BPE writes bytes (Radford et al., 2019): printable ones as themselves, others from U+0100 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


LETTERS = byte_letters()


def innermost(tokenizer: Tokenizer | None) -> Any:
    """The tokenizer inside those that add something and leave its ids as they are."""
    if isinstance(tokenizer, LabelledTokenizer):
        return innermost(tokenizer.tokens)
    return innermost(tokenizer.inner) if isinstance(tokenizer, GPTFinetuningTokenizer) else tokenizer


class TokenTexts:
    """The texts of a tokenizer's tokens, each worked out once."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.inner = tokenizer, innermost(tokenizer)
        self.size: int = tokenizer.size
        self._spelled: dict[int, bytes] = {}
        engine = self.inner.engine if isinstance(self.inner, Subwords) else None
        self.special_tokens: dict[str, int] = {text: engine.token_to_id(text) for text in special_tokens(engine) if text} if engine else {}
        self.unknown = 0
        """Characters of requests that the model does not know."""
        self.before, self.after = self.inner.around

    def spelling(self, number: int) -> bytes:
        """What a token writes; half a character is possible."""
        if number not in self._spelled:
            self._spelled[number] = self._spell(number)
        return self._spelled[number]

    def _spell(self, number: int) -> bytes:
        if isinstance(self.inner, ByteTokenizer) and number < ByteTokenizer.size:
            return bytes([number])
        text = self.decode([number])
        if isinstance(self.inner, Subwords) and number < self.inner.size:
            piece = self.inner.engine.id_to_token(number) or ""
            if found := BYTE.fullmatch(piece):
                return bytes([int(found[1], 16)])
            if isinstance(self.inner, ByteBPE) and piece not in self.special_tokens and all(letter in LETTERS for letter in piece):
                return bytes(LETTERS[letter] for letter in piece)
            if piece.startswith("\u2581") and not text.startswith(" "):  # lost where a token stands alone
                text = f" {text}"
        return text.encode()

    def text(self, number: int) -> str:
        """A token as text; one that is no whole character is written as OpenAI does, bytes:\\xe2."""
        spelled = self.spelling(number)
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return hexadecimal(spelled)

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Texts of different tokens, no two alike: they are keys in a JSON object, where one would hide the other."""
        found: list[str] = []
        for number in numbers:
            ways = (self.text(number), hexadecimal(self.spelling(number)), f"token_id:{number}")
            found.append(next(way for way in ways if way not in found))
        return found

    def decode(self, numbers: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(numbers))
        return well_formed(text)

    def offsets(self, numbers: Sequence[int], start: int = 0, before: Sequence[int] = ()) -> list[int]:
        """Where each token begins, and where the next would, in characters of the text that all of them make; `before` stand in
        front, `start` characters long."""
        every = [*before[-WINDOW:], *numbers]
        skipped = len(every) - len(numbers)
        found = []
        for index in range(skipped, len(every)):
            found.append(start)
            window = every[max(0, index - WINDOW) : index + 1]
            start += self._length(window) - self._length(window[:-1])
        return [*found, start]

    def _length(self, numbers: Sequence[int]) -> int:
        return len(self.decode(numbers).rstrip("\ufffd")) if numbers else 0

    def count_unknown(self, text: str) -> None:
        """Count the characters of a request that the model does not know; only the first such request is logged."""
        if number := len(self.tokenizer.unknown(text)):
            if not self.unknown:
                warn_unknown(self.tokenizer, (text,), "request (/metrics counts them from now on)")
            self.unknown += number

    def encode(self, text: str, special: bool = True, most: int = 0) -> list[int]:
        """Tokens of a text, between the special tokens its model is used to; a text that looks like one is only text.

        most: where a text has far more tokens than so many, TooManyTokens says so before all of it is encoded; 0 for any number.
        """
        self.check_length(text, most)
        self.count_unknown(text)
        ids = self.tokenizer.encode(text).tolist()
        return [*self.before, *ids, *self.after] if special else ids

    def check_length(self, text: str, most: int) -> None:
        """Encodes longer and longer beginnings, so that the time and memory of a text that does not fit depend on `most` alone."""
        enough = 2 * most + SLACK
        length = 2 * enough
        while most and length < len(text):
            if len(self.tokenizer.encode(text[:length])) > enough:
                raise TooManyTokens(most)
            length *= 2

    def encode_special(self, text: str, most: int = 0) -> list[int]:
        """Tokens of a text in which special tokens are meant as such, as in a rendered chat."""
        if not self.special_tokens:
            return self.encode(text, special=False, most=most)
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        found: list[int] = []
        end = 0
        for match in re.finditer("|".join(map(re.escape, longest_first)), text):
            found += [*self._between(text[end : match.start()], most), self.special_tokens[match[0]]]
            end = match.end()
            check_number(found, most)
        return found + self._between(text[end:], most)

    def _between(self, text: str, most: int) -> list[int]:
        return self.encode(text, special=False, most=most) if text else []


def check_number(ids: Sequence[int], most: int) -> None:
    """Stop where parts of a text have more tokens together than all of it may have."""
    if most and len(ids) > 2 * most + SLACK:
        raise TooManyTokens(most)


def hexadecimal(spelled: bytes) -> str:
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)
