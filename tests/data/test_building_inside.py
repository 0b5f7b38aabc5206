"""The folder of the shards may lie inside the input, and nothing is written before the input can be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.data.shards.test_builder import SMALL, Killed, content, corpus, interrupted
from weft.core.errors import ConfigError, MissingExtra
from weft.data.io.files import walk
from weft.data.problems import Problems
from weft.data.shards import builder
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.input_chunks import ReadOptions, find_inputs
from weft.data.shards.shard_files import Shards
from weft.data.tokenizers.base import ByteTokenizer
from weft.data.tokenizers.training import train_tokenizer

SETTINGS = BuildConfig(split="blank_lines", **SMALL)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def ended(inputs: list[str], out: Path, at: int) -> None:
    """A build that ends at the at-th write."""
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, at)
        with pytest.raises(Killed):
            build(inputs, out, ByteTokenizer(), SETTINGS)


def mixed(folder: Path) -> str:
    """A corpus with a file that is not read."""
    corpus(folder)
    (folder / "picture.png").write_bytes(b"")
    return str(folder)


@pytest.mark.parametrize("at", [4, 5, 10, 25, 60])
def test_ended_inside_its_input_it_goes_on_to_the_same_files(tmp_path: Path, at: int) -> None:
    given, out = mixed(tmp_path / "in"), tmp_path / "in" / "shards"
    build([given], tmp_path / "whole", ByteTokenizer(), SETTINGS)
    ended([given], out, at)
    assert (out / "progress.json").exists()
    build([given], out, ByteTokenizer(), SETTINGS)
    assert content(out) == content(tmp_path / "whole")
    assert build([given], out, ByteTokenizer(), SETTINGS).manifest["counts"]["problems"] == 3


def test_the_folder_itself_may_be_named_beside_the_input(tmp_path: Path) -> None:
    """As in the second `weft data build in/* --out in/shards`."""
    mixed(tmp_path / "in")
    out = tmp_path / "in" / "shards"
    before = sorted(map(str, (tmp_path / "in").glob("*[!g]")))
    ended(before, out, 10)
    after = sorted(map(str, (tmp_path / "in").glob("*[!g]")))
    assert str(out) in after and str(out) not in before
    build(after, out, ByteTokenizer(), SETTINGS)
    assert not any("shards" in source["path"] for source in Shards(out).manifest["sources"])


def test_nothing_is_learned_from_it(tmp_path: Path) -> None:
    given, out = mixed(tmp_path / "in"), tmp_path / "in" / "shards"
    before = train_tokenizer("byte_bpe", 300, [given], SETTINGS, str(out)).to_json()
    ended([given], out, 30)
    (out / "sources.jsonl").write_text('{"text": "quick brown fox quick brown fox"}\n')
    assert train_tokenizer("byte_bpe", 300, [given], SETTINGS, str(out)).to_json() == before
    assert train_tokenizer("byte_bpe", 300, [given], SETTINGS).to_json() != before


def test_the_input_cannot_be_the_folder(tmp_path: Path) -> None:
    given = mixed(tmp_path / "in")
    before = content(tmp_path / "in")
    with pytest.raises(ConfigError, match="is the input itself; use another folder with --out"):
        build([given], given, ByteTokenizer(), SETTINGS)
    assert content(tmp_path / "in") == before


def test_a_link_to_it_is_left_out_too(tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for place in ("in/a/a.txt", "out/b.txt"):
        (tmp_path / place).write_text("text")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    assert [path.name for path in walk(tmp_path / "in", [".txt"], Problems(), tmp_path / "out")] == ["a.txt"]
    assert [Path(source.path).name for source in find_inputs([str(tmp_path / "in")], ReadOptions(), Problems())] == ["a.txt", "b.txt"]


def test_what_reads_parquet_is_asked_for_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    given = mixed(tmp_path / "in")
    (tmp_path / "in" / "z.parquet").write_bytes(b"")
    with pytest.raises(MissingExtra, match=r"\[parquet\]"):
        build([given], tmp_path / "out", ByteTokenizer(), SETTINGS)
    assert not content(tmp_path / "out")
    (tmp_path / "in" / "z.parquet").unlink()
    assert build([given], tmp_path / "out", ByteTokenizer(), BuildConfig()).manifest["counts"]["documents"]
