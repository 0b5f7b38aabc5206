"""The words of a model and their vectors, as a word2vec file."""

from __future__ import annotations

from pathlib import Path

from weft.convert.vectors import files
from weft.convert.vectors.files import WordVectors
from weft.inference.neighbours import word_table
from weft.runs.load import load

SUFFIXES = (".bin", ".txt", ".vec")


def exported(source: str, target: Path) -> tuple[bytes, int, int]:
    """The content of a file, binary where it is called .bin, with the numbers of words and of dimensions."""
    loaded = load(source, "cpu")
    words, table = word_table(loaded.model, loaded.tokenizer)
    return files.write(target, WordVectors(words, table.numpy())), *table.shape
