"""The selected documents of a folder of shards as one stream of tokens, read from the files where it is asked for."""

from __future__ import annotations

import numpy as np

from weft.data.shards.shard_files import Shards


class DocumentStream:
    """The documents of a folder whose hash, as a fraction, lies in [low, high), as one stream of tokens."""

    def __init__(self, shards: Shards, low: float, high: float):
        self.shards, self.path, self.dtype = shards, shards.folder, shards.dtype
        self.files = [shards.tokens(number) for number in range(len(shards.shards))]
        runs, self.documents, self.bytes = [np.zeros((0, 3), dtype=np.int64)], 0, 0
        for number in range(len(self.files)):
            rows = shards.checked_rows(number)
            selected = in_hash_range(rows["hash"], low, high)
            runs.append(np.column_stack(token_runs(rows["end"], selected, number)))
            self.documents += int(selected.sum())
            self.bytes += int(rows["bytes"][selected].sum())
        self.file, self.starts, sizes = np.concatenate(runs).T
        self.ends = np.cumsum(sizes)
        self.tokens = int(self.ends[-1]) if len(self.ends) else 0

    def window(self, start: int, length: int) -> np.ndarray:
        """The tokens from `start` on, wrapping around at the end."""
        tokens = np.empty(length, dtype=self.dtype)
        filled = 0
        while filled < length:
            position = (start + filled) % self.tokens
            run = int(np.searchsorted(self.ends, position, side="right"))
            size = min(length - filled, int(self.ends[run]) - position)
            start_in_file = int(self.starts[run]) + position - (int(self.ends[run - 1]) if run else 0)
            file = int(self.file[run])
            tokens[filled : filled + size] = self.shards.checked_tokens(file, self.files[file][start_in_file : start_in_file + size])
            filled += size
        return tokens


def in_hash_range(hashes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Which of hashes (N, 2), as fractions, lie in [low, high)."""
    first = (hashes[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (first >= low) & (first < high)


def token_runs(ends: np.ndarray, selected: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of selected documents of a shard (R,): the shard, the start of their tokens, and their number."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], selected, [False])).astype(np.int8)))
    bounds = np.concatenate(([0], ends.astype(np.int64)))[edges].reshape(-1, 2)
    return np.full(len(bounds), number), bounds[:, 0], bounds[:, 1] - bounds[:, 0]
