"""Shards that are damaged are refused in one sentence that names the file, whatever is asked of them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.core.errors import DataError
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.shard_files import INDEX_ROW, Shards, find_damage
from weft.data.shards.shard_windows import MixedWindows, ShardsConfig
from weft.data.tokenizers.subwords import ByteBPE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Shards of a few documents."""
    chance = random.Random(0)
    lines = ["".join(chance.choice("abcdef ") for _ in range(chance.randrange(5, 40))) for _ in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    tokenizer = ByteBPE.train("abcdef", 300, special_tokens=("end",))
    return build([str(tmp_path / "a.txt")], tmp_path / "out", tokenizer, BuildConfig(split="lines", shard_tokens=2000)).folder


def trained(folder: Path) -> None:
    """What training reads of shards."""
    data = ShardsConfig(path=(str(folder),), context=16, validation=0.1).build()
    assert isinstance(data.train, MixedWindows) and data.validation is not None
    data.train.batch(torch.arange(0, data.train.streams[0].tokens, 16), torch.zeros(0))


def falling(data: bytes) -> bytes:
    rows = np.frombuffer(data, dtype=INDEX_ROW).copy()
    rows["end"][:-1] = rows["end"][:-1][::-1].copy()
    return rows.tobytes()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shard-00001.bin", lambda data: random.Random(1).randbytes(len(data)), r"shard-00001\.bin: is damaged, it holds the token"),
        ("shard-00001.idx", lambda data: random.Random(1).randbytes(len(data)), r"shard-00001\.idx: is damaged, its documents"),
        ("shard-00000.idx", lambda data: bytes(len(data)), r"shard-00000\.idx: is damaged, its documents"),
        ("shard-00000.idx", falling, r"shard-00000\.idx: is damaged, its documents"),
        ("shard-00000.idx", lambda data: data[:-1], r"shard-00000\.idx: is missing or of another length"),
    ],
)
def test_files_of_another_content_are_not_trained_on(folder: Path, name: str, change: Callable[[bytes], bytes], message: str) -> None:
    trained(folder)
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    with pytest.raises(DataError, match=rf"{message}.*; see weft data verify {folder}"):
        trained(folder)
    assert len(list(find_damage(folder))) == 1


def test_tokens_that_go_to_a_gpu_are_checked(folder: Path) -> None:
    data = ShardsConfig(path=(str(folder),), context=16, validation=0.1).build()
    path = folder / "shard-00001.bin"
    path.write_bytes(path.read_bytes()[:-2] + b"\xff\xff")
    assert isinstance(data.train, MixedWindows)
    with pytest.raises(DataError, match=r"shard-00001\.bin: is damaged, it holds the token 65535, outside the vocabulary of 262"):
        data.train.on_device(torch.device("cpu"))


def test_documents_of_damaged_files_are_not_shown(folder: Path) -> None:
    for name in ("shard-00000.bin", "shard-00001.idx"):
        path = folder / name
        path.write_bytes(random.Random(2).randbytes(path.stat().st_size))
    shards = Shards(folder)
    with pytest.raises(DataError, match=r"shard-00000\.bin: is damaged"):
        shards.document(0)
    with pytest.raises(DataError, match=r"shard-00001\.idx: is damaged"):
        shards.document(shards.first_documents[1] + 1)


def removed(manifest: Any, *place: str | int) -> None:
    for key in place[:-1]:
        manifest = manifest[key]
    del manifest[place[-1]]


@pytest.mark.parametrize(
    "place",
    [
        *(("counts",), ("counts", "bytes"), ("sources",), ("sources", 0, "path"), ("settings",), ("dtype",), ("end",), ("shards",)),
        *(("tokenizer",), ("tokenizer", "sha256"), ("tokenizer", "size"), ("shards", 1, "sha256"), ("shards", 0, "index_sha256")),
    ],
)
def test_a_manifest_that_lacks_something_is_refused(folder: Path, place: tuple[str | int, ...]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    removed(manifest, *place)
    path.write_text(json.dumps(manifest))
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
    with pytest.raises(DataError) as caught:
        list(find_damage(folder))
    assert f"its manifest.json is damaged, {name} is missing or invalid; build the shards anew" in str(caught.value)


def test_a_shard_cut_short_while_it_is_read_is_one_sentence(folder: Path) -> None:
    data = ShardsConfig(path=(str(folder),), context=8, validation=0.0).build()
    for path in folder.glob("shard-*.bin"):
        os.truncate(path, 3)
    with pytest.raises(DataError, match="is shorter than it was when it was opened"):
        data.train.batch(torch.arange(2), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": []}, "it counts 200 documents and 0 in the shards"),
        ({"shards": [1]}, r"shards\[0\] is missing"),
        ({"shards": {"name": "a"}}, "shards is missing"),
        ({"dtype": "nonsense"}, "dtype is missing"),
        (
            {"counts": {"documents": 1, "tokens": 2, "bytes": 3, "duplicates": 0, "problems": 0}},
            "it counts 1 documents and 200 in the shards",
        ),
        ({"format": "other"}, "is not one of 'weft shards 1'"),
    ],
)
def test_a_manifest_that_holds_something_else_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(DataError, match=message):
        Shards(folder)
