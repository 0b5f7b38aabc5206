"""Settings of a build of token shards, and the state that is saved to resume it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.core.errors import DataError
from weft.core.untrusted import mismatch, natural, read_json
from weft.data.io.files import reason, show
from weft.data.shards.input_chunks import ReadOptions
from weft.data.shards.shard_files import SHARD


@dataclass(frozen=True, kw_only=True)
class BuildConfig(ReadOptions):
    """Settings of a build; with input and tokenizer they determine the shards."""

    shard_tokens: int = 100_000_000
    """Tokens after which a shard ends, with the document that reaches them."""
    dedupe: bool = False
    """Keep only the first of identical documents; takes about 50 bytes of memory for each different one."""


@dataclass
class State:
    """The progress of a build, as saved in progress.json."""

    made_of: str = ""
    """sha256 of input, tokenizer and settings."""
    writer: dict[str, Any] | None = None
    part: int = 0
    """Number of the next part."""
    source: int = 0
    start: int = 0
    """Its start: the input file, and the byte or row group in it."""
    line: int = 0
    """Lines of the file before it."""
    documents: int = 0
    tokens: int = 0
    """Of the file, so far."""
    duplicates: int = 0
    bytes: int = 0
    """Of the text of all documents."""
    listed: int = 0
    """Bytes of sources.jsonl that are valid."""
    problems: dict[str, Any] = field(default_factory=dict)


COUNTS = ("part", "source", "start", "line", "documents", "tokens", "duplicates", "bytes", "listed")
WRITER = {"shards": [SHARD], "tokens": natural, "documents": natural}
PROGRESS = {
    "made_of": str,
    "problems": {"counts": {str: natural}, "places": {str: [str]}},
    **dict.fromkeys(COUNTS, natural),
}
"""What progress.json must hold, beside the writer's state, which there is none of at first."""


def read_state(folder: Path) -> State:
    """The progress of an interrupted build."""
    path = folder / "progress.json"
    try:
        content = read_json(path)
        wrong = mismatch(content, PROGRESS) or (mismatch(content.get("writer"), WRITER) if content.get("writer") is not None else "")
        if wrong or set(content) != {*PROGRESS, "writer"}:
            raise ValueError(f"{wrong or 'one of its entries'} is not that of a build")
        if any(kind not in content["problems"]["places"] for kind in content["problems"]["counts"]):
            raise ValueError("its problems have no places")
    except (OSError, ValueError) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)}); remove the folder and build it anew") from error
    return State(**content)
