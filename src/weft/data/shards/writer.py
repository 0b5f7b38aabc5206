"""Documents appended to shards such that the work may end at any moment and go on later to the same bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from weft.core.errors import DataError
from weft.data.io.files import show
from weft.data.shards.files import ENDINGS, ROW


class ShardWriter:
    """Appends documents; a shard ends with the document that fills it. What `state` said last is what a new writer goes on from."""

    def __init__(self, folder: Path, kind: np.dtype[Any], limit: int, state: dict[str, Any] | None = None):
        self.folder, self.kind, self.limit = folder, kind, limit
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
        """Where the next document comes; everything before it is on disk."""
        for file in self.files:
            file.flush()
            os.fsync(file.fileno())
        return {"shards": self.shards, "tokens": self.tokens, "documents": self.documents}

    def add(self, tokens: np.ndarray, rows: np.ndarray) -> None:
        """Append documents: their tokens, and rows whose ends count from the first of these."""
        begin = first = 0
        while first < len(rows):
            ends = rows["end"][first:].astype(np.int64) - begin
            number = min(int(np.searchsorted(ends, self.limit - self.tokens)) + 1, len(ends))
            end = begin + int(ends[number - 1])
            self._append(tokens[begin:end], rows[first : first + number], begin)
            begin, first = end, first + number
            if self.tokens >= self.limit:
                self._close()
                self._open()

    def finish(self) -> list[dict[str, Any]]:
        """End the last shard; what the manifest says of all of them."""
        if self.documents:
            self._close()
        else:
            self.close()
            for ending in ENDINGS:
                (self.folder / f"{self.name}{ending}").unlink()
        return self.shards

    def close(self) -> None:
        for file in self.files:
            file.close()

    def _append(self, tokens: np.ndarray, rows: np.ndarray, begin: int) -> None:
        shifted = rows.copy()
        shifted["end"] += np.uint64(self.tokens)
        shifted["end"] -= np.uint64(begin)
        for file, sha256, data in zip(self.files, self.sums, (tokens.tobytes(), shifted.tobytes()), strict=True):
            file.write(data)
            sha256.update(data)
        self.tokens += len(tokens)
        self.documents += len(rows)

    def _open(self) -> None:
        """The files of the shard that is being filled, as long as the last state says."""
        sizes = (self.tokens * self.kind.itemsize, self.documents * ROW.itemsize)
        opened = [reopened(self.folder / f"{self.name}{ending}", size) for ending, size in zip(ENDINGS, sizes, strict=True)]
        self.files, self.sums = [file for file, _ in opened], [sha256 for _, sha256 in opened]

    def _close(self) -> None:
        self.state()
        self.close()
        done: dict[str, Any] = {"name": self.name, "tokens": self.tokens, "documents": self.documents}
        self.shards.append(done | {key: sha256.hexdigest() for key, sha256 in zip(ENDINGS.values(), self.sums, strict=True)})
        self.tokens = self.documents = 0


def reopened(path: Path, size: int) -> tuple[IO[bytes], Any]:
    """A file cut to so many bytes, open behind them, and their sha256."""
    sha256 = hashlib.sha256()
    with open(path, "ab") as old:
        if old.tell() < size:
            raise DataError(f"{show(path)}: has lost what was written before; remove the folder and build it anew")
        old.truncate(size)
    file = open(path, "r+b")  # noqa: SIM115
    while block := file.read(1 << 20):
        sha256.update(block)
    return file, sha256


class Seen:
    """Hashes that were met, 16 bytes each, in a few sorted runs of which each is more than twice as long as the next."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []

    def fresh(self, hashes: np.ndarray) -> np.ndarray:
        """hashes (N, 2) -> which of them are met for the first time (N,); they are remembered."""
        words = np.ascontiguousarray(hashes).view("S16")[:, 0]
        fresh = np.zeros(len(words), dtype=bool)
        fresh[np.unique(words, return_index=True)[1]] = True
        for run in self.runs:
            place = np.minimum(np.searchsorted(run, words), len(run) - 1)
            fresh &= run[place] != words
        if fresh.any():
            self.runs.append(np.sort(words[fresh]))
        while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            self.runs[-2:] = [np.sort(np.concatenate(self.runs[-2:]))]
        return fresh

    def without_duplicates(self, tokens: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Documents of which none was met before, from tokens and rows as for `ShardWriter.add`."""
        fresh, ends = self.fresh(rows["hash"]), rows["end"].astype(np.int64)
        lengths: np.ndarray = ends - np.concatenate(([0], ends[:-1]))
        kept = rows[fresh]
        kept["end"] = np.cumsum(lengths[fresh])
        return tokens[np.repeat(fresh, lengths)], kept
