"""How messages become a prompt: the template a model came with, or a plain one.

A template is a program from somebody else's model folder. It is rendered in jinja2's sandbox, and in a process of its own with
little memory and time, because the sandbox does not stop a text from being doubled forty times.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.errors import DataError
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.birthplace_characters import MASK, MASK_CHARACTER, PAD, BirthplaceCharacters
from weft.serving.tokens import TokenTexts, check_number, innermost

SECONDS = 3.0
"""A template that takes longer is stopped."""
PLAIN = """\
{% for message in messages %}{% if message.role != 'system' %}{{ message.role | capitalize }}: {% endif %}{{ message.content }}
{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
PLAIN_WORDS = "User: \nAssistant: \n"
PLAIN_STOPS = ("\nUser:",)
"""A model that was not trained to chat goes on with both parts."""
QUESTION = "{{ messages[-1].content }}" + MASK_CHARACTER
"""Models of the birthplace task answer a question between two special tokens."""


@dataclass(frozen=True)
class ChatTemplate:
    source: str
    foreign: bool = False
    """Whether it came with a model, and so is not to be trusted."""
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[int, ...] = ()

    @property
    def own(self) -> bool:
        """Whether the model was trained with it."""
        return self.source != PLAIN


def template_for(tokenizer: Tokenizer | None, source: str = "", own: str = "") -> ChatTemplate | None:
    """The template of a model: the one it came with, or that of its data, `own`, where there is one; the plain one where it can write the
    plain one's words, or none."""
    if source:
        return ChatTemplate(source, foreign=True)
    if own:
        return ChatTemplate(own)
    if isinstance(innermost(tokenizer), BirthplaceCharacters):
        return ChatTemplate(QUESTION, stop_tokens=(MASK, PAD))
    return ChatTemplate(PLAIN, stop=PLAIN_STOPS) if tokenizer is not None and writes(tokenizer, PLAIN_WORDS) else None


def writes(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text is the same after it was encoded and decoded, so that nothing in it is unknown to the tokenizer."""
    try:
        found: str = tokenizer.decode(tokenizer.encode(text).tolist())
    except DataError:
        return False
    return bare(found) == bare(text)


def bare(text: str) -> str:
    return "".join(text.split()).casefold()  # some tokenizers know neither capitals nor where spaces were


class Renderer:
    """Renders templates, foreign ones in a process that is started when first needed and again after it had to be stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def prompt(self, template: ChatTemplate, messages: Sequence[Mapping[str, str]], tokens: TokenTexts, most: int = 0) -> list[int]:
        """The tokens of a conversation, up to where the model is to answer; TooManyTokens where they are far more than `most`."""
        try:
            return self._prompt(template, messages, tokens, most)
        except DataError:
            for message in messages:  # say where it stands in what somebody wrote, not behind words of the template
                tokens.encode(message["content"], special=False, most=most)
            raise

    def _prompt(self, template: ChatTemplate, messages: Sequence[Mapping[str, str]], tokens: TokenTexts, most: int) -> list[int]:
        from weft.serving.rendering import render

        looks = {name: tokens.decode([number]) for name, number in getattr(tokens.tokenizer, "special_tokens", {}).items()}
        hidden, shown = hide(messages, list(tokens.special_tokens))
        given = {"messages": hidden, "bos_token": looks.get("start", ""), "eos_token": looks.get("end", ""), "add_generation_prompt": True}
        text = self._render(template.source, given) if template.foreign else render(template.source, given)
        if not shown:
            return tokens.encode_special(text, most)
        ids: list[int] = []
        end = 0
        for match in re.finditer(f"{HIDDEN}([0-9]+){HIDDEN}", text):
            ids += tokens.encode_special(text[end : match.start()], most) + tokens.encode(shown[int(match[1])], special=False)
            end = match.end()
            check_number(ids, most)
        ids += tokens.encode_special(text[end:], most)
        return ids

    def _render(self, source: str, variables: Mapping[str, Any]) -> str:
        request = json.dumps({"template": source, "variables": variables}).encode() + b"\n"
        with self._lock:
            process = self._process = self._process or start()
            assert process.stdin and process.stdout
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            try:
                process.stdin.write(request)
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            finally:
                timer.cancel()
            if not line:
                self._end()
                raise DataError("the chat template of this model took too long or too much memory")
        found: dict[str, str] = json.loads(line)
        if "error" in found:
            raise DataError(f"the chat template of this model cannot be used: {found['error']}")
        return found["text"]

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        with self._lock:
            self._end()


HIDDEN = "\ue000\ue001\ue000"
"""Stands around the number of a text that looks like a special token, while a template is rendered."""


def hide(messages: Sequence[Mapping[str, str]], special_tokens: Sequence[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Messages in which texts that look like special tokens are replaced, so that nobody can end a turn by writing so; and those texts."""
    shown: list[str] = []
    hidden = []
    for message in messages:
        content = message["content"].replace(HIDDEN, "\ufffd")
        for special_token in sorted(special_tokens, key=len, reverse=True):
            if special_token in content:
                content = content.replace(special_token, f"{HIDDEN}{len(shown)}{HIDDEN}")
                shown.append(special_token)
        hidden.append({**message, "content": content})
    return hidden, shown


def start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "weft.serving.rendering"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
