"""Resumable writer of shards: after an interruption it continues to the same bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from weft.core.errors import DataError
from weft.data.io.files import show
from weft.data.shards.shard_files import INDEX_ROW, SHARD_SUFFIXES


class ShardWriter:
    """Appends documents; a shard ends with the document that fills it. A new writer resumes from the last `state`."""

    def __init__(self, folder: Path, dtype: np.dtype[Any], limit: int, state: dict[str, Any] | None = None):
        self.folder, self.dtype, self.limit = folder, dtype, limit
        state = state or {"shards": [], "tokens": 0, "documents": 0}
        self.shards: list[dict[str, Any]] = list(state["shards"])
        self.tokens, self.documents = state["tokens"], state["documents"]
        for path in folder.glob("shard-*"):
            if int(path.stem.removeprefix("shard-")) > len(self.shards):
                path.unlink()
        self._open()

    @property
    def name(self) -> str:
        return f"shard-{len(self.shards):05d}"

    def state(self) -> dict[str, Any]:
        """Sync to disk and return the state to resume from."""
        for file in self.files:
            file.flush()
            os.fsync(file.fileno())
        return {"shards": self.shards, "tokens": self.tokens, "documents": self.documents}

    def add(self, tokens: np.ndarray, rows: np.ndarray) -> None:
        """Append documents: their tokens, and index rows whose ends are relative to the first token."""
        start = first = 0
        while first < len(rows):
            ends = rows["end"][first:].astype(np.int64) - start
            number = min(int(np.searchsorted(ends, self.limit - self.tokens)) + 1, len(ends))
            end = start + int(ends[number - 1])
            self._append(tokens[start:end], rows[first : first + number], start)
            start, first = end, first + number
            if self.tokens >= self.limit:
                self._close()
                self._open()

    def finish(self) -> list[dict[str, Any]]:
        """Close the last shard; the manifest entries of all shards."""
        if self.documents:
            self._close()
        else:
            self.close()
            for suffix in SHARD_SUFFIXES:
                (self.folder / f"{self.name}{suffix}").unlink()
        return self.shards

    def close(self) -> None:
        for file in self.files:
            file.close()

    def _append(self, tokens: np.ndarray, rows: np.ndarray, start: int) -> None:
        shifted = rows.copy()
        shifted["end"] += np.uint64(self.tokens)
        shifted["end"] -= np.uint64(start)
        for file, sha256, data in zip(self.files, self.sums, (tokens.tobytes(), shifted.tobytes()), strict=True):
            file.write(data)
            sha256.update(data)
        self.tokens += len(tokens)
        self.documents += len(rows)

    def _open(self) -> None:
        """Open the files of the unfinished shard, truncated to the last state."""
        sizes = (self.tokens * self.dtype.itemsize, self.documents * INDEX_ROW.itemsize)
        files = [reopen(self.folder / f"{self.name}{suffix}", size) for suffix, size in zip(SHARD_SUFFIXES, sizes, strict=True)]
        self.files, self.sums = [file for file, _ in files], [sha256 for _, sha256 in files]

    def _close(self) -> None:
        self.state()
        self.close()
        entry: dict[str, Any] = {"name": self.name, "tokens": self.tokens, "documents": self.documents}
        self.shards.append(entry | {key: sha256.hexdigest() for key, sha256 in zip(SHARD_SUFFIXES.values(), self.sums, strict=True)})
        self.tokens = self.documents = 0


def reopen(path: Path, size: int) -> tuple[IO[bytes], Any]:
    """A file truncated to `size` bytes, opened at its end, and the sha256 so far."""
    sha256 = hashlib.sha256()
    with open(path, "ab") as old:
        if old.tell() < size:
            raise DataError(f"{show(path)}: is shorter than the saved progress; remove the folder and build it anew")
        old.truncate(size)
    file = open(path, "r+b")  # noqa: SIM115
    while block := file.read(1 << 20):
        sha256.update(block)
    return file, sha256


class SeenHashes:
    """A set of 16-byte hashes in a few sorted runs, each more than twice as long as the next."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add hashes (N, 2) -> which of them are new (N,)."""
        words = np.ascontiguousarray(hashes).view("S16")[:, 0]
        is_new = np.zeros(len(words), dtype=bool)
        is_new[np.unique(words, return_index=True)[1]] = True
        for run in self.runs:
            index = np.minimum(np.searchsorted(run, words), len(run) - 1)
            is_new &= run[index] != words
        if is_new.any():
            self.runs.append(np.sort(words[is_new]))
        while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            self.runs[-2:] = [np.sort(np.concatenate(self.runs[-2:]))]
        return is_new

    def without_duplicates(self, tokens: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents whose hash is new, from tokens and rows as for `ShardWriter.add`."""
        is_new, ends = self.add(rows["hash"]), rows["end"].astype(np.int64)
        lengths: np.ndarray = ends - np.concatenate(([0], ends[:-1]))
        unique_rows = rows[is_new]
        unique_rows["end"] = np.cumsum(lengths[is_new])
        return tokens[np.repeat(is_new, lengths)], unique_rows
