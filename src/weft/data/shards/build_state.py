"""What token shards depend on besides input and tokenizer, and what is written down of a build that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.data.shards.inputs import Reading


@dataclass(frozen=True, kw_only=True)
class BuildConfig(Reading):
    """What shards depend on, besides input and tokenizer."""

    shard_tokens: int = 100_000_000
    """Tokens after which a shard ends, with the document that reaches them."""
    dedupe: bool = False
    """Keep only the first of documents whose text is the same; takes about 50 bytes of memory for each different one."""


@dataclass
class State:
    """How far a build is."""

    made_of: str = ""
    """sha256 of what the shards depend on."""
    writer: dict[str, Any] | None = None
    part: int = 0
    """Number of the next part."""
    source: int = 0
    start: int = 0
    """Where it begins: in this source, at this byte or row group."""
    line: int = 0
    """Lines of the source before it."""
    documents: int = 0
    tokens: int = 0
    """Of the source, so far."""
    duplicates: int = 0
    bytes: int = 0
    """Of the text of all documents."""
    listed: int = 0
    """Bytes of the list of sources that are done."""
    problems: dict[str, Any] = field(default_factory=dict)
