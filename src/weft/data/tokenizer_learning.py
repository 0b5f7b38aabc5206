"""A tokenizer learned from the documents of files that may be far larger than memory: from pieces spread evenly over them."""

from __future__ import annotations

from itertools import chain

from weft import registry
from weft.data.documents import Flaws, read
from weft.data.pieces import Reading, find_sources, pieces
from weft.data.problems import Problems
from weft.data.tokenizers import Tokenizer
from weft.errors import DataError

LEARNED = ("byte_bpe", "bpe", "unigram")
"""Tokenizers that can be learned and can have a mark for the end of a document."""
SAMPLE = 1 << 25
"""Bytes of text to learn from; more changes little."""


def learn(name: str, vocabulary: int, inputs: list[str], reading: Reading) -> Tokenizer:
    """A tokenizer with a mark for the end of a document; the same for the same input."""
    sources = find_sources(inputs, reading, Problems())
    every = max(1, sum(source.size for source in sources) // SAMPLE)
    cut = chain.from_iterable(pieces(number, source, reading, 0) for number, source in enumerate(sources))
    texts: list[str] = []
    size = 0
    for piece in (piece for number, piece in enumerate(cut) if number % every == 0):
        for document in read(piece, reading, Flaws()):
            texts.append(document.text)
            size += len(document.data)
            if size > SAMPLE:
                break
    if not texts:
        raise DataError(f"{', '.join(inputs)}: no document was found to learn a tokenizer from")
    tokenizer: Tokenizer = registry.find("tokenizers", name).train("\n".join(texts), vocabulary, marks=("end",))
    return tokenizer
