"""A tokenizer learned from the documents of files that may be far larger than memory: from pieces spread evenly over them.

A piece is taken by its place in the input, counted in `--piece-bytes`, and gives no more than its share: of a compressed file or a
row group, which may be as large as they like, the beginning is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from weft.core import registry
from weft.core.errors import DataError
from weft.data.problems import Problems
from weft.data.shards.documents import Flaws, read
from weft.data.shards.inputs import Piece, Reading, Source, find_sources, pieces
from weft.data.tokenizers.base import Tokenizer

LEARNED = ("byte_bpe", "bpe", "unigram")
"""Tokenizers that can be learned and can have a mark for the end of a document."""
SAMPLE = 1 << 25
"""Bytes of text to learn from, about; more changes little."""


def learn(name: str, vocabulary: int, inputs: list[str], reading: Reading, out: str = "") -> Tokenizer:
    """A tokenizer with a mark for the end of a document; the same for the same input, of which the folder `out` is no part."""
    sources = find_sources(inputs, reading, Problems(), out)
    every = max(1, sum(source.size for source in sources) // SAMPLE)
    texts = list(sample(sources, reading, every)) or list(sample(sources, reading, 1))
    if not texts:
        raise DataError(f"{', '.join(inputs)}: no document was found to learn a tokenizer from")
    tokenizer: Tokenizer = registry.find("tokenizers", name).train("\n".join(texts), vocabulary, marks=("end",))
    return tokenizer


def sample(sources: list[Source], reading: Reading, every: int) -> Iterator[str]:
    """Texts of about SAMPLE bytes in all, of the pieces in which each `every`-th stretch of `piece_bytes` of the input begins."""
    total = max(1, sum(source.size for source in sources))
    place = 0
    for piece in chain.from_iterable(pieces(number, source, reading, 0) for number, source in enumerate(sources)):
        stretches = max(1, piece.size // reading.piece_bytes)
        if -place % every < stretches:
            yield from beginning(piece, reading, -(-SAMPLE * piece.size * max(every, stretches) // (stretches * total)))
        place += stretches


def beginning(piece: Piece, reading: Reading, share: int) -> Iterator[str]:
    """The first documents of a piece, until they have so many bytes; of one far longer than that, the beginning."""
    size = 0
    for document in read(piece, reading, Flaws()):
        yield document.text[: 2 * share]
        size += len(document.data)
        if size >= share:
            return
