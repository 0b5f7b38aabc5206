"""Files of vectors that gensim wrote, converted and read by gensim again: whether all bits are the same."""

from __future__ import annotations

import hashlib
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.benchmarks.words.peer import Peer
from weft.benchmarks.words.speed import share_of
from weft.convert.convert import convert
from weft.inference.neighbours import word_table
from weft.runs.load import load


def compared(options: Namespace, corpus: Path, peer: Peer | None) -> Iterator[dict[str, Any]]:
    """How many files have words or bits that are not those that gensim reads."""
    if peer is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        part, _ = share_of(corpus, 0.1)
        for name, form in peer.ask("make", corpus=str(part), folder=folder):
            convert(f"{folder}/{name}", Path(folder, f"run-{name}"))
            loaded = load(Path(folder, f"run-{name}"), "cpu")
            words, vectors = word_table(loaded.model, loaded.tokenizer)
            own = hashlib.sha256(vectors.numpy().tobytes()).hexdigest()
            theirs = peer.ask("read", path=f"{folder}/{name}", form=form)
            differ = int(words != theirs["words"] or own != theirs["sha256"])
            yield {"part": "files", "contender": "weft", "file": name, "differ": differ, "vectors": list(vectors.shape)}
