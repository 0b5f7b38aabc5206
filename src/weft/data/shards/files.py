"""Token shards on disk: files that are mapped into memory, with an index that finds every document at once.

manifest.json      tokenizer, counts, settings, sha256 of every shard and of every source; written last, so a folder with it is whole
tokenizer.json     as in a checkpoint
shard-00000.bin    tokens, uint16 or uint32, little-endian, one document behind the other, each with the ids of `end` behind it
shard-00000.idx    a row per document: where its tokens end in the shard, bytes of its text, hash of its text
problems.json      what was wrong with the input: counts, and the first few places of each kind
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import DataError
from weft.data.io.files import reason, show
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer

FORMAT = "weft shards 1"
ROW = np.dtype([("end", "<u8"), ("bytes", "<u8"), ("hash", "<u8", (2,))])
"""Of a document: the token behind its last in the shard, bytes of its text in UTF-8, and blake2b of that text in 16 bytes."""

ENDINGS = {".bin": "sha256", ".idx": "index_sha256"}
"""The files of a shard, and what the manifest calls their sha256."""
MANIFEST: dict[str, Any] = {
    "tokenizer": {"type": str, "size": int, "sha256": str},
    "dtype": ("<u2", "<u4"),
    "end": list,
    "counts": dict.fromkeys(("documents", "tokens", "bytes", "duplicates", "problems"), int),
    "settings": dict,
    "shards": [{"name": str, "tokens": int, "documents": int, **dict.fromkeys(ENDINGS.values(), str)}],
    "sources": [{"path": str, "size": int, "sha256": str, "documents": int, "tokens": int}],
}
"""What a manifest must hold: a type, one of several values, or parts; of a list, what everything in it must be."""


def kind_of(size: int) -> np.dtype[Any]:
    """The type of tokens of a vocabulary."""
    return np.dtype("<u2" if size <= 1 << 16 else "<u4")


def put(path: Path, data: bytes) -> None:
    """Give a file this content at once; it is there whole or not at all, even after a power cut."""
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


def encode(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error


def lacking(value: Any, wanted: Any, name: str) -> str:
    """The name of the first thing in a value of JSON that is missing, empty or not what is wanted; nothing where there is none."""
    if isinstance(wanted, type | tuple):
        return "" if (isinstance(value, wanted) if isinstance(wanted, type) else value in wanted) else name
    if not value or not isinstance(value, type(wanted)):
        return name
    if isinstance(wanted, dict):
        parts = ((value.get(key), wanted[key], f"{name}.{key}" if name else key) for key in wanted)
    else:
        parts = ((part, wanted[0], f"{name}[{place}]") for place, part in enumerate(value))
    return next(filter(None, (lacking(*part) for part in parts)), "")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards, with all that it must hold."""
    if not (folder / "manifest.json").is_file():
        begun = "was not built to its end; give the same `weft data build` command again"
        other = "is no folder of shards; make one with: weft data build INPUT --out DIR --tokenizer …"
        raise DataError(f"{show(folder)}: {begun if (folder / 'progress.json').is_file() else other}")
    found = read_json(folder / "manifest.json")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{show(folder)}: its manifest.json is not one of {FORMAT!r}; build the shards anew")
    if lack := lacking(found, MANIFEST, ""):
        raise DataError(f"{show(folder)}: its manifest.json is damaged, {lack} is missing or not what it must be; build the shards anew")
    for what in ("documents", "tokens"):
        number, added = found["counts"][what], sum(shard[what] for shard in found["shards"])
        if number != added or number < 1:
            raise DataError(
                f"{show(folder)}: its manifest.json is damaged, it counts {number} {what} and {added} in the shards; build the shards anew"
            )
    return found


class Shards:
    """A folder of shards, opened: tokens and rows are mapped, nothing is read before it is asked for."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        self.shards = [(shard["name"], shard["tokens"], shard["documents"]) for shard in self.manifest["shards"]]
        self.firsts = [0, *itertools.accumulate(documents for _, _, documents in self.shards)]
        self.kind, self.vocabulary = np.dtype(self.manifest["dtype"]), int(self.manifest["tokenizer"]["size"])
        self.end: tuple[int, ...] = tuple(self.manifest["end"])

    @property
    def tokenizer(self) -> Tokenizer:
        try:
            return tokenizers.load((self.folder / "tokenizer.json").read_bytes())
        except OSError as error:
            raise DataError(f"{show(self.folder / 'tokenizer.json')}: cannot be read ({reason(error)})") from error

    def tokens(self, shard: int) -> np.ndarray:
        """All tokens of a shard (N,)."""
        name, number, _ = self.shards[shard]
        return self._mapped(f"{name}.bin", self.kind, number)

    def rows(self, shard: int) -> np.ndarray:
        """The index of a shard, a ROW per document."""
        name, _, number = self.shards[shard]
        return self._mapped(f"{name}.idx", ROW, number)

    def checked_rows(self, shard: int) -> np.ndarray:
        """The same of a shard in which one document follows the other to the last token; others are refused."""
        rows = np.asarray(self.rows(shard))
        ends, tokens = rows["end"], self.shards[shard][1]
        if (ends[1:] < ends[:-1]).any() or (ends[-1] if len(ends) else 0) != tokens:
            raise self.damage(shard, ".idx", f"its documents do not end one behind the other at the last of {tokens:,} tokens")
        return rows

    def checked_tokens(self, shard: int, tokens: np.ndarray) -> np.ndarray:
        """Some tokens of a shard; refused where the tokenizer does not have them."""
        if tokens.size and (largest := int(tokens.max())) >= self.vocabulary:
            raise self.damage(shard, ".bin", f"it holds the token {largest}, of a vocabulary of {self.vocabulary:,}")
        return tokens

    def damage(self, shard: int, ending: str, what: str) -> DataError:
        """What is wrong with a file of a shard."""
        path = self.folder / f"{self.shards[shard][0]}{ending}"
        return DataError(f"{show(path)}: is damaged, {what}; see weft data verify {show(self.folder)}, and build the shards anew")

    def document(self, number: int) -> np.ndarray:
        """The tokens of a document, with what ends it; found without looking at any other."""
        if not 0 <= number < self.firsts[-1]:
            raise IndexError(f"document {number} of {self.firsts[-1]}")
        shard = bisect.bisect_right(self.firsts, number) - 1
        place, ends = number - self.firsts[shard], self.rows(shard)["end"]
        begin, end = int(ends[place - 1]) if place else 0, int(ends[place])
        if not begin <= end <= self.shards[shard][1]:
            raise self.damage(shard, ".idx", f"its document {place} has the tokens {begin} to {end} of {self.shards[shard][1]:,}")
        return self.checked_tokens(shard, self.tokens(shard)[begin:end])

    def _mapped(self, name: str, kind: np.dtype[Any], number: int) -> np.ndarray:
        path = self.folder / name
        if not path.is_file() or path.stat().st_size != number * kind.itemsize:
            raise DataError(
                f"{show(path)}: is missing or of another length than its manifest says; see weft data verify {show(self.folder)}"
            )
        return np.memmap(path, dtype=kind, mode="r", shape=(number,)) if number else np.zeros(0, dtype=kind)


def damages(folder: str | Path) -> Iterator[str]:
    """One sentence for every file of a folder of shards that is not what its manifest says."""
    shards = Shards(folder)
    wanted = {f"{shard['name']}{ending}": shard[key] for shard in shards.manifest["shards"] for ending, key in ENDINGS.items()}
    wanted["tokenizer.json"] = shards.manifest["tokenizer"]["sha256"]
    for name, sha256 in wanted.items():
        path = shards.folder / name
        found = sha256_of(path)
        if found != sha256:
            yield f"{show(path)}: {f'has the sha256 {found}, not {sha256}' if found else 'is missing or cannot be read'}"


def sha256_of(path: str | Path) -> str:
    """Of the content of a file; nothing where it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
