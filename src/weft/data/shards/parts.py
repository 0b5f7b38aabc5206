"""What a worker does for shards: reads some pieces of the input, and leaves their documents as tokens in files of their own."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from weft.core.errors import DataError
from weft.data.shards.documents import Document, Flaws, read
from weft.data.shards.files import ROW, kind_of, sha256_of
from weft.data.shards.inputs import Piece, Reading
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.subword_engines import cut
from weft.data.tokenizers.subwords import Subwords

BATCH = 1 << 20
"""Bytes of text that are encoded together."""


class Task(NamedTuple):
    """Pieces whose documents become one part."""

    number: int
    pieces: tuple[Piece, ...]


class Part(NamedTuple):
    """The files of a part: tokens, rows as those of a shard, and a report on every piece, which comes last.

    They are not synced: after a power cut their sha256 tells whether they are whole.
    """

    tokens: Path
    rows: Path
    report: Path

    def read(self) -> list[dict[str, Any]] | None:
        """The reports of a part that an earlier run has left, if it is whole."""
        try:
            found = json.loads(self.report.read_bytes())
            reports: list[dict[str, Any]] = found["reports"]
            return reports if found["sha256"] == [sha256_of(path) for path in self[:2]] else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def delete(self) -> None:
        for path in reversed(self):  # without its report a part does not count
            path.unlink(missing_ok=True)


def part_of(folder: Path, number: int) -> Part:
    return Part(*(folder / "parts" / f"{number:08d}.{ending}" for ending in ("bin", "idx", "json")))


def end_of(tokenizer: Tokenizer) -> list[int]:
    """What stands behind a document: the mark for that, or a line end where the tokenizer has no marks."""
    marks: dict[str, int] = getattr(tokenizer, "marks", {})
    if "end" in marks:
        return [marks["end"]]
    try:
        return [int(number) for number in tokenizer.encode("\n")]
    except DataError:
        return []


class Encoder:
    """Does tasks. A part that is there already stays as it is."""

    def __init__(self, folder: Path, tokenizer: bytes, reading: Reading):
        self.folder, self.reading = folder, reading
        self.tokenizer = tokenizers.load(tokenizer)
        self.kind, self.end = kind_of(self.tokenizer.size), end_of(self.tokenizer)
        self.separable: bool = getattr(self.tokenizer, "_separable", False)

    def __call__(self, task: Task) -> tuple[Task, list[dict[str, Any]]]:
        """The task, and of each piece its lines, documents and flaws."""
        part = part_of(self.folder, task.number)
        if (found := part.read()) is not None:
            return task, found
        own = [path.with_name(f".{path.name}-{os.getpid()}") for path in part]
        with open(own[0], "wb") as tokens, open(own[1], "wb") as rows:
            reports, end = [], 0
            for piece in task.pieces:
                report, end = self.write(piece, tokens, rows, end)
                reports.append(report)
        own[2].write_text(json.dumps({"sha256": [sha256_of(path) for path in own[:2]], "reports": reports}))
        for path, target in zip(own, part, strict=True):
            os.replace(path, target)
        return task, reports

    def write(self, piece: Piece, tokens: IO[bytes], rows: IO[bytes], end: int) -> tuple[dict[str, Any], int]:
        """Append the documents of a piece behind so many tokens; the report on it, and the tokens there are now."""
        flaws = Flaws()
        number = 0
        for batch in batches(read(piece, self.reading, flaws)):
            found = [(document, ids) for document, ids in zip(batch, self.encode(batch), strict=True) if ids is not None]
            if not found:
                continue
            made = np.zeros(len(found), dtype=ROW)
            made["end"] = end + np.cumsum([len(ids) + len(self.end) for _, ids in found], dtype=np.int64)
            made["bytes"] = [len(document.data) for document, _ in found]
            made["hash"] = np.frombuffer(b"".join(digest(document) for document, _ in found), dtype="<u8").reshape(-1, 2)
            closing = np.array(self.end, dtype=self.kind).tobytes()
            tokens.write(closing.join(ids.tobytes() for _, ids in found) + closing)
            rows.write(made.tobytes())
            end, number = int(made["end"][-1]), number + len(found)
        return {"documents": number, "lines": flaws.lines, "flaws": flaws.found}, end

    def encode(self, batch: list[Document]) -> list[np.ndarray | None]:
        """The tokens of every document; None where there can be none, which is noted."""
        if isinstance(self.tokenizer, Subwords):
            try:
                return self.encode_together(batch)
            except Exception:  # the library raises nothing narrower; alone, only the one it cannot encode is lost
                pass
        return [self.encode_alone(document) for document in batch]

    def encode_together(self, batch: list[Document]) -> list[np.ndarray | None]:
        texts = [list(cut(document.text)) if self.separable else [document.text] for document in batch]
        found = iter(self.tokenizer.engine.encode_batch_fast([part for parts in texts for part in parts], add_special_tokens=False))  # type: ignore[attr-defined]
        code = "H" if self.kind.itemsize == 2 else "I"
        ids = []
        for parts in texts:
            gathered = array(code)
            for _ in parts:
                gathered.extend(array(code, next(found).ids))
            ids.append(np.frombuffer(gathered, dtype=self.kind))
        return list(ids)

    def encode_alone(self, document: Document) -> np.ndarray | None:
        try:
            return self.tokenizer.encode(document.text).astype(self.kind)
        except DataError as error:
            document.place.note("documents that the tokenizer cannot encode, left out", f"{error}; {document.text[:40]!r}")
            return None


def digest(document: Document) -> bytes:
    return hashlib.blake2b(document.data, digest_size=16).digest()


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in groups of about BATCH bytes."""
    group: list[Document] = []
    size = 0
    for document in documents:
        group.append(document)
        size += len(document.data)
        if size >= BATCH:
            yield group
            group, size = [], 0
    if group:
        yield group
