"""Random bytes under every name a data source reads: it works or it says so in one sentence, and nothing else happens."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import tempfile
import wave
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from PIL import Image

from weft.core.errors import DataError
from weft.data.audio.waves import AudioConfig
from weft.data.base import DataConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tables.table import TableConfig
from weft.data.text.pairs import PairsConfig
from weft.data.text.token_windows import TextConfig

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1")
BYTES = st.binary(max_size=300)
CELL = st.one_of(st.text(max_size=12), st.sampled_from(["", "label", "1", "-2.5", "nan", "1e400", '"', '""', "\0", "\r", "a b"]))
TABLES = st.builds(
    lambda rows, sign, end, encoding: end.join(sign.join(row) for row in rows).encode(encoding, errors="replace"),
    st.one_of(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=30), st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=30)),
    st.sampled_from("\t,;"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(ENCODINGS),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("\ud800")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["text", "label", "source", "target", "\udc00"]), inner)
    ),
    max_leaves=8,
)
JSON_LINES = st.lists(st.one_of(JSON.map(json.dumps), st.text(max_size=10)), max_size=12).map(
    lambda lines: "\n".join(lines).encode(errors="replace")
)
TEXTS = st.one_of(
    st.text(max_size=200).flatmap(lambda text: st.sampled_from(ENCODINGS).map(lambda name: text.encode(name, errors="replace"))), BYTES
)


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(buffer, kind)
    return buffer.getvalue()


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.linspace(-9000, 9000, 100).astype("<i2").tobytes())
    return buffer.getvalue()


def labels() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, labels=np.arange(4))
    return buffer.getvalue()


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Good bytes, cut short and with a few of them changed."""

    def damage(changes: list[tuple[int, int]], length: int) -> bytes:
        data = bytearray(good)
        for place, value in changes:
            data[place % len(data)] = value
        return bytes(data[:length])

    changes = st.lists(st.tuples(st.integers(0, len(good)), st.integers(0, 255)), max_size=4)
    return st.builds(damage, changes, st.one_of(st.just(len(good)), st.just(len(good)), st.integers(0, len(good))))


IDX = st.builds(
    lambda magic, shape, data: magic + b"".join(struct.pack(">I", size) for size in shape) + data,
    st.one_of(st.just(b"\0\0\x08\x03"), st.binary(max_size=4)),
    st.one_of(st.tuples(*[st.integers(0, 4)] * 3), st.tuples(*[st.integers(0, 2**32 - 1)] * 3)),
    st.binary(min_size=40, max_size=300),
)
LABELS = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 255)), max_size=4)
CIFAR = st.builds(lambda labels, rest: b"".join(bytes([label]) * 2 + bytes(3072) for label in labels) + rest, LABELS, BYTES)


def packed(content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(content.map(gzip.compress), content)


CASES: list[tuple[DataConfig, str, st.SearchStrategy[bytes]]] = [
    (TextConfig(context=8), "a.txt", TEXTS),
    (TextConfig(context=8, tokenizer="bytes"), "a.txt", TEXTS),
    (TextConfig(context=8, tokenizer="words", vocabulary=5, validation=0.0), "a.txt.gz", packed(TEXTS)),
    (TableConfig(hash_buckets=16), "a.tsv", st.one_of(TABLES, BYTES)),
    (TableConfig(hash_buckets=16, char_ngram=0), "a.csv", st.one_of(TABLES, BYTES)),
    (TableConfig(hash_buckets=16), "a.jsonl", st.one_of(JSON_LINES, BYTES)),
    (PairsConfig(max_length=5), "a.tsv", st.one_of(TABLES, BYTES)),
    (PairsConfig(max_length=5, tokenizer="bytes"), "a.jsonl", st.one_of(JSON_LINES, BYTES)),
    (ImagesConfig(), "cat/a.png", st.one_of(BYTES, damaged(picture("PNG")))),
    (ImagesConfig(size=4), "a.jpg", st.one_of(BYTES, damaged(picture("JPEG")))),
    (ImagesConfig(channels=1), "a.gif", damaged(picture("GIF"))),
    (ImagesConfig(size=3), "a.webp", damaged(picture("WEBP"))),
    (ImagesConfig(), "a.tif", damaged(picture("TIFF"))),
    (ImagesConfig(), "a.bmp", damaged(picture("BMP"))),
    (ImagesConfig(), "train-images-idx3-ubyte", st.one_of(IDX, BYTES)),
    (ImagesConfig(), "train-images-idx3-ubyte.gz", packed(IDX)),
    (ImagesConfig(), "data_batch_1.bin", CIFAR),
    (ImagesConfig(), "train.bin", CIFAR),
    (ImagesConfig(), "train_labels.npz", st.one_of(BYTES, damaged(labels()))),
    (AudioConfig(sample_rate=4000, seconds=0.1), "x_1.wav", st.one_of(BYTES, damaged(sound()))),
    (AudioConfig(sample_rate=4000, seconds=0.1), "x_1.flac", BYTES),
]


@pytest.mark.parametrize(("config", "name", "content"), CASES, ids=lambda value: value if isinstance(value, str) else None)
def test_any_bytes_work_or_are_one_sentence(config: DataConfig, name: str, content: st.SearchStrategy[bytes]) -> None:
    folder = Path(tempfile.mkdtemp())
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    if isinstance(config, AudioConfig):
        pytest.importorskip("soundfile")
    given_file = not isinstance(config, (ImagesConfig, AudioConfig))
    config = type(config)(**{**vars(config), "path": str(file if given_file else folder)})
    if name.endswith(".npz"):
        (folder / "train_0.webp").write_bytes(picture("WEBP"))
    if name.startswith("train-images"):
        (folder / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x05\0\1\2\3\4")

    @settings(max_examples=40)
    @given(content)
    def check(data: bytes) -> None:
        file.write_bytes(data)
        use(config)

    try:
        check()
    finally:
        shutil.rmtree(folder)


def check_printable(lines: list[str]) -> None:
    assert all(line.isprintable() for line in lines)


def use(config: DataConfig) -> None:
    """Build and take a batch of everything; only a DataError of one printable sentence may escape."""
    try:
        data = config.build()
    except DataError as error:
        check_printable([str(error)])
        return
    json.dumps([data.info, data.problems.lines()])
    check_printable(data.problems.lines())
    for part in (data.train, data.validation):
        if part is not None:
            index = torch.arange(len(part))
            batch = part.batch(index, index)
            assert len(index) > 0
            assert all(len(tensor) == len(index) for tensor in batch.values())
            assert all(torch.isfinite(tensor).all() for tensor in batch.values() if tensor.is_floating_point())
