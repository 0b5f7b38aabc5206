"""Train a tokenizer on files that may be far larger than memory: on chunks sampled evenly over them.

A chunk is sampled by its position in the input, counted in `--piece-bytes`, and gives no more than its share: of a compressed file
or a row group, whose size is unbounded, only the beginning is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from weft.core import registry
from weft.core.errors import DataError
from weft.data.problems import Problems
from weft.data.shards.documents import ChunkProblems, read_documents
from weft.data.shards.input_chunks import InputChunk, InputFile, ReadOptions, find_inputs, input_chunks
from weft.data.tokenizers.base import Tokenizer

TRAINABLE = ("byte_bpe", "bpe", "unigram")
"""Tokenizers that can be trained and can have an end token."""
SAMPLE = 1 << 25
"""Approximate bytes of text to train on; more changes little."""


def train_tokenizer(name: str, vocabulary: int, inputs: list[str], options: ReadOptions, out: str = "") -> Tokenizer:
    """Train a tokenizer with an end token, deterministically, on the input without the folder `out`."""
    sources = find_inputs(inputs, options, Problems(), out)
    stride = max(1, sum(source.size for source in sources) // SAMPLE)
    texts = list(sample(sources, options, stride)) or list(sample(sources, options, 1))
    if not texts:
        raise DataError(f"{', '.join(inputs)}: no document to train a tokenizer on")
    tokenizer: Tokenizer = registry.find("tokenizers", name).train("\n".join(texts), vocabulary, special_tokens=("end",))
    return tokenizer


def sample(sources: list[InputFile], options: ReadOptions, stride: int) -> Iterator[str]:
    """About SAMPLE bytes of text, from the chunks in which every `stride`-th stretch of `piece_bytes` of the input begins."""
    total = max(1, sum(source.size for source in sources))
    position = 0
    for chunk in chain.from_iterable(input_chunks(number, source, options, 0) for number, source in enumerate(sources)):
        stretches = max(1, chunk.size // options.piece_bytes)
        if -position % stride < stretches:
            yield from first_documents(chunk, options, -(-SAMPLE * chunk.size * max(stride, stretches) // (stretches * total)))
        position += stretches


def first_documents(chunk: InputChunk, options: ReadOptions, max_bytes: int) -> Iterator[str]:
    """The first documents of a chunk, about `max_bytes` in all; a far longer document is truncated."""
    size = 0
    for document in read_documents(chunk, options, ChunkProblems()):
        yield document.text[: 2 * max_bytes]
        size += len(document.data)
        if size >= max_bytes:
            return
