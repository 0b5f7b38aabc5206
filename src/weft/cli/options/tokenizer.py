"""What `--tokenizer` may name: bytes, files of a model, a run, shards, or a kind to be learned from the input."""

from __future__ import annotations

from pathlib import Path

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.core.untrusted import read_bytes
from weft.data.io.files import locate, show
from weft.data.shards.input_chunks import ReadOptions
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, Tokenizer
from weft.data.tokenizers.foreign import read_foreign, read_json, read_tokenizer_json
from weft.data.tokenizers.training import TRAINABLE, train_tokenizer


def find_tokenizer(name: str, vocabulary: int, inputs: list[str], options: ReadOptions, out: str) -> Tokenizer:
    """The tokenizer of that name; a kind that is learned gets so many pieces, and learns nothing from the folder `out`."""
    if name in TRAINABLE:
        return train_tokenizer(name, vocabulary, inputs, options, out)
    if vocabulary:
        raise ConfigError(f"--vocabulary is for a tokenizer that is learned ({', '.join(TRAINABLE)}), not for {name!r}")
    if name in ("byte", "bytes"):
        return ByteTokenizer()
    try:
        place = locate(name.partition("@")[0])
    except DataError as error:
        known = registry.nearest(name, ["bytes", *TRAINABLE])
        raise DataError(f"--tokenizer: {show(name)} is no file or folder{known}") from error
    found = from_file(place) if place.is_file() else from_folder(name, place)
    if found is None:
        raise DataError(f"--tokenizer: {show(place)} holds no tokenizer (tokenizer.json, vocab.json and merges.txt, or vocab.txt)")
    return found


def from_file(path: Path) -> Tokenizer:
    """A tokenizer.json, weft's or that of others."""
    return tokenizers.load(read_bytes(path)) if "type" in read_json(path) else read_tokenizer_json(path, {})


def from_folder(name: str, place: Path) -> Tokenizer | None:
    if (place / "checkpoints").is_dir():
        from weft.training.checkpoint import checkpoint  # takes a second to import

        data = checkpoint.find(name).files.get("tokenizer.json")
        return tokenizers.load(data) if data else None
    path = place / "tokenizer.json"
    ours = path.is_file() and "type" in read_json(path)  # of shards, or of a checkpoint
    return from_file(path) if ours else read_foreign(place)
