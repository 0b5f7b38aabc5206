"""The work of a worker process: read chunks of the input and write their documents as tokens to part files."""

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
from weft.core.untrusted import checked, natural, read_json
from weft.data.shards.documents import ChunkProblems, Document, read_documents
from weft.data.shards.input_chunks import InputChunk, ReadOptions
from weft.data.shards.shard_files import INDEX_ROW, sha256_of, token_dtype
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.subword_engines import split_text
from weft.data.tokenizers.subwords import Subwords
from weft.data.tokenizers.unknown import reason

PART = {"sha256": [str], "reports": [{"documents": natural, "lines": natural, "flaws": {str: lambda found: isinstance(found, list)}}]}
"""What the report on a part must hold."""
BATCH = 1 << 20
"""Bytes of text per call of the tokenizer."""


class Task(NamedTuple):
    """Chunks whose documents become one part."""

    number: int
    chunks: tuple[InputChunk, ...]


class EncodedPart(NamedTuple):
    """The files of a part: tokens and index rows as of a shard, and a report on every chunk, written last.

    They are not synced to disk: after a power cut their sha256 tells whether they are complete.
    """

    tokens: Path
    rows: Path
    report: Path

    def read(self) -> list[dict[str, Any]] | None:
        """The reports of a part that an earlier run has finished, else None."""
        try:
            content = checked(read_json(self.report), PART)
            reports: list[dict[str, Any]] = content["reports"]
            return reports if content["sha256"] == [sha256_of(path) for path in self[:2]] else None
        except (OSError, ValueError):
            return None

    def delete(self) -> None:
        for path in reversed(self):  # without its report a part does not count
            path.unlink(missing_ok=True)


def part_files(folder: Path, number: int) -> EncodedPart:
    return EncodedPart(*(folder / "parts" / f"{number:08d}.{ending}" for ending in ("bin", "idx", "json")))


def document_end(tokenizer: Tokenizer) -> list[int]:
    """The tokens after each document: the end token, or a line end where the tokenizer has none."""
    special_tokens: dict[str, int] = getattr(tokenizer, "special_tokens", {})
    if "end" in special_tokens:
        return [special_tokens["end"]]
    try:
        return [int(number) for number in tokenizer.encode("\n")]
    except DataError:
        return []


class Encoder:
    """Encodes tasks into part files; a finished part is reused."""

    def __init__(self, folder: Path, tokenizer: bytes, options: ReadOptions):
        self.folder, self.options = folder, options
        self.tokenizer = tokenizers.load(tokenizer)
        self.dtype, self.end = token_dtype(self.tokenizer.size), document_end(self.tokenizer)
        self.separable: bool = getattr(self.tokenizer, "_separable", False)

    def __call__(self, task: Task) -> tuple[Task, list[dict[str, Any]]]:
        """The task, and the lines, documents and problems of each chunk."""
        part = part_files(self.folder, task.number)
        if (finished := part.read()) is not None:
            return task, finished
        temporary = [path.with_name(f".{path.name}-{os.getpid()}") for path in part]
        with open(temporary[0], "wb") as tokens, open(temporary[1], "wb") as rows:
            reports, end = [], 0
            for chunk in task.chunks:
                report, end = self.write(chunk, tokens, rows, end)
                reports.append(report)
        temporary[2].write_text(json.dumps({"sha256": [sha256_of(path) for path in temporary[:2]], "reports": reports}))
        for path, target in zip(temporary, part, strict=True):
            os.replace(path, target)
        return task, reports

    def write(self, chunk: InputChunk, tokens: IO[bytes], rows: IO[bytes], end: int) -> tuple[dict[str, Any], int]:
        """Append the documents of a chunk after `end` tokens; its report, and the new number of tokens."""
        problems = ChunkProblems()
        number = 0
        for batch in document_batches(read_documents(chunk, self.options, problems)):
            encoded = [(document, ids) for document, ids in zip(batch, self.encode(batch), strict=True) if ids is not None]
            if not encoded:
                continue
            index_rows = np.zeros(len(encoded), dtype=INDEX_ROW)
            index_rows["end"] = end + np.cumsum([len(ids) + len(self.end) for _, ids in encoded], dtype=np.int64)
            index_rows["bytes"] = [len(document.data) for document, _ in encoded]
            index_rows["hash"] = np.frombuffer(b"".join(digest(document) for document, _ in encoded), dtype="<u8").reshape(-1, 2)
            end_tokens = np.array(self.end, dtype=self.dtype).tobytes()
            tokens.write(end_tokens.join(ids.tobytes() for _, ids in encoded) + end_tokens)
            rows.write(index_rows.tobytes())
            end, number = int(index_rows["end"][-1]), number + len(encoded)
        return {"documents": number, "lines": problems.lines, "flaws": problems.counts}, end

    def encode(self, batch: list[Document]) -> list[np.ndarray | None]:
        """The tokens of every document; None where it cannot be encoded, which is counted."""
        if isinstance(self.tokenizer, Subwords):
            try:
                return self.encode_together(batch)
            except Exception:  # the library raises nothing narrower; alone, only the one it cannot encode is lost
                pass
        return [self.encode_alone(document) for document in batch]

    def encode_together(self, batch: list[Document]) -> list[np.ndarray | None]:
        texts = [list(split_text(document.text)) if self.separable else [document.text] for document in batch]
        encodings = iter(self.tokenizer.engine.encode_batch_fast([part for parts in texts for part in parts], add_special_tokens=False))  # type: ignore[attr-defined]
        code = "H" if self.dtype.itemsize == 2 else "I"
        ids = []
        for parts in texts:
            document_ids = array(code)
            for _ in parts:
                document_ids.extend(array(code, next(encodings).ids))
            ids.append(np.frombuffer(document_ids, dtype=self.dtype))
        return list(ids)

    def encode_alone(self, document: Document) -> np.ndarray | None:
        try:
            ids = self.tokenizer.encode(document.text).astype(self.dtype)
            if unknown := self.tokenizer.unknown(document.text):
                document.location.note(f"documents with {reason(self.tokenizer, unknown[0])}", f"{unknown[0]!r}; {document.text[:40]!r}")
            return ids if len(ids) else None
        except DataError as error:
            document.location.note("documents that the tokenizer cannot encode, left out", f"{error}; {document.text[:40]!r}")
            return None


def digest(document: Document) -> bytes:
    return hashlib.blake2b(document.data, digest_size=16).digest()


def document_batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
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
