"""How much longer the steps of somebody else's tokenizer.json could make a text: a few lines of it can turn one letter into a gigabyte."""

from __future__ import annotations

import base64
from typing import Any

MOST_STEPS = 64
MOST_GROWTH = 1024
"""Characters that may come of one; of Unicode's own normal forms at most 18 do."""
LONGEST_PATTERN = 10_000
UNICODE = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Nmt": 1, "Lowercase": 3, "StripAccents": 1, "BertNormalizer": 6, "ByteLevel": 2}
KINDS = {"single", "pair"}


def check(step: Any, place: str) -> None:
    """Refuse a normalizer, pre-tokenizer, decoder or post-processor that is no object, has too many steps, or makes a text far longer."""
    steps = flat(step, place)
    growth = 1
    for one in steps:
        growth *= max(1, growth_of(one))
        if growth > MOST_GROWTH or len(steps) > MOST_STEPS:
            raise ValueError(f"the {place} has {len(steps)} steps, which could make a text {growth:,} times as long")
        for name, part in pattern(one).items():
            if not isinstance(part, str) or len(part) > LONGEST_PATTERN:
                raise ValueError(f"the {place} has a pattern ({name}) that is no text of at most {LONGEST_PATTERN:,} characters")
    if place == "post_processor":
        check_template(steps)


def flat(step: Any, place: str) -> list[dict[str, Any]]:
    """The steps of a sequence, one after another."""
    if step is None:
        return []
    if not isinstance(step, dict) or not isinstance(step.get("type"), str):
        raise ValueError(f"the {place} is no step with a type")
    inner = [part for name in ("normalizers", "pretokenizers", "decoders", "processors") if isinstance(part := step.get(name), list)]
    return [one for part in inner for inside in part for one in flat(inside, place)] or [step]


def growth_of(step: dict[str, Any]) -> int:
    """The most characters that a step makes of one."""
    kind = step["type"]
    if kind == "Replace":
        return len(text(step, "content")) + (1 if "Regex" in pattern(step) else 0)  # an expression may match nothing, everywhere
    if kind == "Prepend":
        return 1 + len(text(step, "prepend"))
    if kind == "Precompiled":
        return longest_replacement(text(step, "precompiled_charsmap"))
    if kind == "Metaspace":
        return max(1, len(text(step, "replacement")))
    return UNICODE.get(kind, 1)


def text(step: dict[str, Any], name: str) -> str:
    value = step.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} of {step['type']} is no text")
    return value


def pattern(step: dict[str, Any]) -> dict[str, Any]:
    found = step.get("pattern")
    return found if isinstance(found, dict) else {}


def longest_replacement(table: str) -> int:
    """The longest text in a table of sentencepiece: the size of an index, the index, and texts that end with a zero."""
    data = base64.b64decode(table, validate=True)
    texts = data[4 + int.from_bytes(data[:4], "little") :]
    return max(map(len, texts.split(b"\0")))


def check_template(steps: list[dict[str, Any]]) -> None:
    """Refuse templates that repeat the text or the special tokens beyond reason."""
    for step in steps:
        parts = sum(len(step[kind]) for kind in KINDS if isinstance(step.get(kind), list))
        special = step.get("special_tokens")
        named = [one.get("ids", ()) if isinstance(one, dict) else () for one in special.values()] if isinstance(special, dict) else []
        if parts + sum(len(ids) if isinstance(ids, list) else 0 for ids in named) > MOST_STEPS:
            raise ValueError(f"the post_processor is made of {parts:,} parts")
