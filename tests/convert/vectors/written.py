"""fastText's `.bin` written by hand, with random tables: a file of which every byte is known."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

LOSS = {"hierarchical_softmax": 1, "negative_sampling": 2, "softmax": 3, "one_vs_all": 4}


def fasttext(
    words: Sequence[str],
    labels: Sequence[tuple[str, int]],
    *,
    loss: str = "softmax",
    dim: int = 5,
    buckets: int = 40,
    minn: int = 0,
    maxn: int = 0,
    word_ngrams: int = 1,
    seed: int = 0,
) -> bytes:
    """A supervised model; labels: names with how often each occurs, falling."""
    settings = (dim, 5, 5, 1, 5, word_ngrams, LOSS[loss], 3, buckets, minn, maxn, 100)
    head = struct.pack("<2i", 793712314, 12) + struct.pack("<12id", *settings, 1e-4)
    entries = [(word, 3, 0) for word in words] + [(f"__label__{name}", count, 1) for name, count in labels]
    head += struct.pack("<3i2q", len(entries), len(words), len(labels), 1000, -1)
    for word, count, kind in entries:
        head += word.encode() + b"\0" + struct.pack("<qb", count, kind)
    chance = np.random.default_rng(seed)
    for rows in (len(words) + buckets, len(labels)):
        table = chance.normal(size=(rows, dim)).astype("<f4")
        head += b"\0" + struct.pack("<2q", rows, dim) + table.tobytes()
    return head
