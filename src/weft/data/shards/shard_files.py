"""Token shards on disk: files of tokens of which parts are read, with an index of the documents.

manifest.json      tokenizer, counts, settings, sha256 of every shard and of every source; written last, so a folder with it is complete
tokenizer.json     as in a checkpoint
shard-00000.bin    tokens, uint16 or uint32, little-endian, document after document, each followed by the ids of `end`
shard-00000.idx    a row per document: end of its tokens in the shard, bytes of its text, hash of its text
problems.json      problems of the input: counts, and the first few locations of each kind
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weft.core import untrusted
from weft.core.errors import DataError
from weft.core.untrusted import mismatch, natural, parsing
from weft.data.io.files import reason, show
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer

FORMAT = "weft shards 1"
INDEX_ROW = np.dtype([("end", "<u8"), ("bytes", "<u8"), ("hash", "<u8", (2,))])
"""Of a document: the end of its tokens in the shard, bytes of its text in UTF-8, and the 16-byte blake2b of that text."""

SHARD_SUFFIXES = {".bin": "sha256", ".idx": "index_sha256"}
"""The files of a shard, and the manifest keys of their sha256."""
SOURCE: dict[str, Any] = {"path": str, "size": natural, "sha256": str, "documents": natural, "tokens": natural}
SHARD: dict[str, Any] = {
    **{
        "name": lambda name: isinstance(name, str) and bool(re.fullmatch("shard-[0-9]{5,9}", name)),
        "tokens": natural,
        "documents": natural,
    },
    **dict.fromkeys(SHARD_SUFFIXES.values(), str),
}
MANIFEST_SCHEMA: dict[str, Any] = {
    "tokenizer": {"type": str, "size": natural, "sha256": str},
    "dtype": ("<u2", "<u4"),
    "end": [natural],
    "counts": dict.fromkeys(("documents", "tokens", "bytes", "duplicates", "problems"), natural),
    "settings": dict,
    "shards": [SHARD],
    "sources": [SOURCE],
}
"""What a manifest must hold, in the form of `core.untrusted.mismatch`."""
LARGEST_MANIFEST = 1 << 28


def token_dtype(size: int) -> np.dtype[Any]:
    """The dtype of the tokens of a vocabulary of this size."""
    return np.dtype("<u2" if size <= 1 << 16 else "<u4")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: whole or not at all, even after a power cut."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    with parsing(show(path)):
        return untrusted.read_json(path, most=LARGEST_MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The validated manifest of a folder of shards."""
    if not (folder / "manifest.json").is_file():
        unfinished = "was not built to its end; give the same `weft data build` command again"
        no_shards = "is no folder of shards; make one with: weft data build INPUT --out DIR --tokenizer …"
        raise DataError(f"{show(folder)}: {unfinished if (folder / 'progress.json').is_file() else no_shards}")
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{show(folder)}: its manifest.json is not one of {FORMAT!r}; build the shards anew")
    if wrong := mismatch(manifest, MANIFEST_SCHEMA):
        raise DataError(f"{show(folder)}: its manifest.json is damaged, {wrong} is missing or invalid; build the shards anew")
    for name in ("documents", "tokens"):
        number, total = manifest["counts"][name], sum(shard[name] for shard in manifest["shards"])
        if number != total or number < 1:
            raise DataError(
                f"{show(folder)}: its manifest.json is damaged, it counts {number} {name} and {total} in the shards; build the shards anew"
            )
    return manifest


class FileArray:
    """A file of numbers of which slices are read. Unlike a mapped file, one that is cut short meanwhile is an error and no signal."""

    def __init__(self, path: Path, dtype: np.dtype[Any], number: int):
        self.path, self.dtype, self.number = path, dtype, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, part: slice) -> np.ndarray:
        """The file is opened for each slice: of a large corpus there are more shards than a process may have open."""
        first, end, _ = part.indices(self.number)
        values: np.ndarray = np.empty(max(0, end - first), dtype=self.dtype)
        with parsing(show(self.path)), untrusted.open_regular(self.path) as file:
            file.seek(first * self.dtype.itemsize)
            if file.readinto(values.view(np.uint8).data) < values.nbytes:
                raise DataError(f"{show(self.path)}: is shorter than it was when it was opened; restore it, or build the shards anew")
        return values


class Shards:
    """An opened folder of shards; tokens and index are read where they are asked for."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        self.shards = [(shard["name"], shard["tokens"], shard["documents"]) for shard in self.manifest["shards"]]
        self.first_documents = [0, *itertools.accumulate(documents for _, _, documents in self.shards)]
        self.dtype, self.vocabulary = np.dtype(self.manifest["dtype"]), int(self.manifest["tokenizer"]["size"])
        self.end: tuple[int, ...] = tuple(self.manifest["end"])

    @property
    def tokenizer(self) -> Tokenizer:
        try:
            return tokenizers.load(untrusted.read_bytes(self.folder / "tokenizer.json"))
        except OSError as error:
            raise DataError(f"{show(self.folder / 'tokenizer.json')}: cannot be read ({reason(error)})") from error

    def tokens(self, shard: int) -> FileArray:
        """All tokens of a shard (N,)."""
        name, number, _ = self.shards[shard]
        return self._array(f"{name}.bin", self.dtype, number)

    def rows(self, shard: int) -> FileArray:
        """The index of a shard, a ROW per document."""
        name, _, number = self.shards[shard]
        return self._array(f"{name}.idx", INDEX_ROW, number)

    def checked_rows(self, shard: int) -> np.ndarray:
        """The index of a shard, refused unless its documents follow one another up to the last token."""
        rows = self.rows(shard)[:]
        ends, tokens = rows["end"], self.shards[shard][1]
        if (ends[1:] < ends[:-1]).any() or (ends[-1] if len(ends) else 0) != tokens:
            raise self.damage_error(shard, ".idx", f"its documents do not follow one another up to the last of {tokens:,} tokens")
        return rows

    def checked_tokens(self, shard: int, tokens: np.ndarray) -> np.ndarray:
        """Tokens of a shard, refused where one is outside the vocabulary."""
        if tokens.size and (largest := int(tokens.max())) >= self.vocabulary:
            raise self.damage_error(shard, ".bin", f"it holds the token {largest}, outside the vocabulary of {self.vocabulary:,}")
        return tokens

    def damage_error(self, shard: int, suffix: str, message: str) -> DataError:
        """The error for a damaged file of a shard."""
        path = self.folder / f"{self.shards[shard][0]}{suffix}"
        return DataError(f"{show(path)}: is damaged, {message}; see weft data verify {show(self.folder)}, and build the shards anew")

    def document(self, number: int) -> np.ndarray:
        """The tokens of a document with its end token, in O(log shards)."""
        if not 0 <= number < self.first_documents[-1]:
            raise IndexError(f"document {number} of {self.first_documents[-1]}")
        shard = bisect.bisect_right(self.first_documents, number) - 1
        index = number - self.first_documents[shard]
        ends = [0, *self.rows(shard)[max(0, index - 1) : index + 1]["end"].tolist()]
        start, end = ends[-2:]
        if not start <= end <= self.shards[shard][1]:
            raise self.damage_error(shard, ".idx", f"its document {index} has the tokens {start} to {end} of {self.shards[shard][1]:,}")
        return self.checked_tokens(shard, self.tokens(shard)[start:end])

    def _array(self, name: str, dtype: np.dtype[Any], number: int) -> FileArray:
        path = self.folder / name
        if not path.is_file() or path.stat().st_size != number * dtype.itemsize:
            raise DataError(
                f"{show(path)}: is missing or of another length than its manifest says; see weft data verify {show(self.folder)}"
            )
        return FileArray(path, dtype, number)


def find_damage(folder: str | Path) -> Iterator[str]:
    """One sentence for every file of a folder of shards whose sha256 differs from the manifest."""
    shards = Shards(folder)
    expected = {f"{shard['name']}{suffix}": shard[key] for shard in shards.manifest["shards"] for suffix, key in SHARD_SUFFIXES.items()}
    expected["tokenizer.json"] = shards.manifest["tokenizer"]["sha256"]
    for name, sha256 in expected.items():
        path = shards.folder / name
        actual = sha256_of(path)
        if actual != sha256:
            yield f"{show(path)}: {f'has the sha256 {actual}, not {sha256}' if actual else 'is missing or cannot be read'}"


def read_rows(path: Path) -> np.ndarray:
    """The whole index of a shard that is being built."""
    with parsing(show(path)):
        data = untrusted.read_bytes(path, most=1 << 40)
        return np.frombuffer(data, dtype=INDEX_ROW, count=len(data) // INDEX_ROW.itemsize)


def sha256_of(path: str | Path) -> str:
    """The sha256 of a file; empty where it cannot be read."""
    with contextlib.suppress(OSError), untrusted.open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
