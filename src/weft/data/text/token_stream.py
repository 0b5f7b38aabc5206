"""Some documents of a folder of shards as one row of tokens that is read from its files, wherever they lie."""

from __future__ import annotations

import numpy as np

from weft.data.shards.files import Shards


class Stream:
    """The documents of a folder whose hash lies in a part of [0, 1), as one row of tokens that is read from its files."""

    def __init__(self, shards: Shards, low: float, high: float):
        self.shards, self.path, self.kind = shards, shards.folder, shards.kind
        self.files = [np.asarray(shards.tokens(number)) for number in range(len(shards.shards))]
        runs, self.documents, self.bytes = [np.zeros((0, 3), dtype=np.int64)], 0, 0
        for number in range(len(self.files)):
            rows = shards.checked_rows(number)
            wanted = chosen(rows["hash"], low, high)
            runs.append(np.column_stack(spans(rows["end"], wanted, number)))
            self.documents += int(wanted.sum())
            self.bytes += int(rows["bytes"][wanted].sum())
        self.file, self.begin, sizes = np.concatenate(runs).T
        self.ends = np.cumsum(sizes)
        self.tokens = int(self.ends[-1]) if len(self.ends) else 0

    def window(self, start: int, length: int) -> np.ndarray:
        """The tokens from `start` on; behind the last comes the first."""
        found = np.empty(length, dtype=self.kind)
        filled = 0
        while filled < length:
            place = (start + filled) % self.tokens
            run = int(np.searchsorted(self.ends, place, side="right"))
            size = min(length - filled, int(self.ends[run]) - place)
            begin = int(self.begin[run]) + place - (int(self.ends[run - 1]) if run else 0)
            file = int(self.file[run])
            found[filled : filled + size] = self.shards.checked_tokens(file, self.files[file][begin : begin + size])
            filled += size
        return found


def chosen(hashes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Which of hashes (N, 2) lie in a part of [0, 1)."""
    first = (hashes[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (first >= low) & (first < high)


def spans(ends: np.ndarray, wanted: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of wanted documents of a shard (R,): the shard, where their tokens begin, how many these are."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False])).astype(np.int8)))
    bounds = np.concatenate(([0], ends.astype(np.int64)))[edges].reshape(-1, 2)
    return np.full(len(bounds), number), bounds[:, 0], bounds[:, 1] - bounds[:, 0]
