"""Shards depend on input and settings alone: not on the number of workers, nor on when and how often the build was ended."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.core.errors import ConfigError, DataError
from weft.data.shards import builder
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.encoder import EncodedPart
from weft.data.shards.shard_files import Shards, find_damage
from weft.data.shards.writer import SeenHashes
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, Tokenizer
from weft.data.tokenizers.subwords import ByteBPE

SMALL: dict[str, Any] = {"piece_bytes": 2000, "shard_tokens": 1500}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is written down after every part, and nothing waits for the disk."""
    monkeypatch.setattr(builder, "SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """What no code expects."""


def corpus(folder: Path) -> list[str]:
    """A JSONL file with bad rows, a text of paragraphs, a compressed one and a folder of small files; some documents twice."""
    folder.mkdir()
    chance = random.Random(0)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    documents = [" ".join(chance.choice(words) for _ in range(chance.randrange(1, 60))) for _ in range(120)]
    rows = [json.dumps({"text": document}) for document in documents[:80]]
    rows[10], rows[20] = "broken", '{"text": 1}'
    (folder / "a.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "b.txt").write_text("\n\n".join(documents[60:]))
    (folder / "c.txt.gz").write_bytes(gzip.compress("\n\n".join(documents[:30]).encode(), mtime=0))
    (folder / "small").mkdir()
    for number in range(20):
        (folder / "small" / f"{number:02d}.txt").write_text(documents[number + 50])
    return [str(folder / name) for name in ("a.jsonl", "b.txt", "c.txt.gz", "small")]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return ByteBPE.train("alpha beta gamma delta epsilon zeta " * 50, 300, special_tokens=("end",))


@pytest.mark.parametrize("dedupe", [False, True])
def test_documents_come_back(tmp_path: Path, tokenizer: Tokenizer, dedupe: bool) -> None:
    inputs = corpus(tmp_path / "in")
    shards = build(inputs, tmp_path / "out", tokenizer, BuildConfig(split="blank_lines", dedupe=dedupe, **SMALL))
    rows = [json.loads(row) for row in Path(inputs[0]).read_text().splitlines() if row.startswith('{"text": "')]
    wanted = [row["text"] for row in rows] + Path(inputs[1]).read_text().split("\n\n")
    wanted += gzip.decompress(Path(inputs[2]).read_bytes()).decode().split("\n\n")
    wanted += [path.read_text() for path in sorted(Path(inputs[3]).iterdir())]
    if dedupe:
        wanted = list(dict.fromkeys(wanted))
    counts = shards.manifest["counts"]
    assert counts["documents"] == len(wanted)
    assert counts["duplicates"] == (len(rows) + 60 + 30 + 20 - len(wanted) if dedupe else 0)
    assert counts["bytes"] == sum(len(text.encode()) for text in wanted)
    found = [shards.document(number) for number in range(len(wanted))]
    assert [tokenizer.decode(ids[:-1].tolist()) for ids in found] == wanted
    assert {int(ids[-1]) for ids in found} == {tokenizer.special_tokens["end"]}  # type: ignore[attr-defined]
    assert sum(map(len, found)) == counts["tokens"] == sum(tokens for _, tokens, _ in shards.shards)
    assert all(1500 <= tokens < 1600 for _, tokens, _ in shards.shards[:-1]) and len(shards.shards) > 2
    assert [source["sha256"] != "" for source in shards.manifest["sources"]] == [True] * 23
    assert sum(source["documents"] for source in shards.manifest["sources"]) == len(wanted)
    assert not list(find_damage(tmp_path / "out"))


def test_the_number_of_workers_changes_nothing(tmp_path: Path, tokenizer: Tokenizer) -> None:
    inputs, settings = corpus(tmp_path / "in"), BuildConfig(split="blank_lines", dedupe=True, **SMALL)
    for workers in (0, 1, 3):
        build(inputs, tmp_path / str(workers), tokenizer, settings, workers)
    assert content(tmp_path / "0") == content(tmp_path / "1") == content(tmp_path / "3")


def interrupted(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """End the process, as far as a test can, at the at-th write, rename or removal of a file."""
    calls = [0]

    def breaking(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] == at:
                raise Killed
            return function(*arguments, **named)

        return call

    for place, name in ((os, "replace"), (os, "fsync"), (builder, "write_atomically"), (EncodedPart, "delete")):
        monkeypatch.setattr(place, name, breaking(getattr(place, name)))


def test_ended_anywhere_and_repeated_it_gives_the_same_files(tmp_path: Path, tokenizer: Tokenizer) -> None:
    inputs, settings = corpus(tmp_path / "in"), BuildConfig(split="blank_lines", dedupe=True, piece_bytes=6000, shard_tokens=1500)
    build(inputs, tmp_path / "whole", tokenizer, settings)
    whole, ended = content(tmp_path / "whole"), 0
    for at in range(1, 90, 2):
        for moment in (at, at + 11):  # once, and once more where it goes on
            with pytest.MonkeyPatch.context() as patch:
                interrupted(patch, moment)
                try:
                    build(inputs, tmp_path / str(at), tokenizer, settings)
                except Killed:
                    ended += 1
        build(inputs, tmp_path / str(at), tokenizer, settings)
        assert content(tmp_path / str(at)) == whole, f"ended at call {at}"
    assert ended > 40


def test_killed_for_real_and_repeated_it_gives_the_same_files(tmp_path: Path) -> None:
    chance = random.Random(1)
    path = tmp_path / "a.txt"
    path.write_text("\n".join("".join(chance.choice("abcdef ") for _ in range(80)) for _ in range(20_000)))
    command = [sys.executable, "-m", "weft", "data", "build", str(path), "--split", "lines", "--tokenizer", "bytes", "--workers", "2"]
    command += ["--piece-bytes", "30000", "--shard-tokens", "400000"]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*command, "--out", str(tmp_path / "cut")], stdout=subprocess.DEVNULL)
    while process.poll() is None and len([*(tmp_path / "cut" / "parts").glob("*.json")]) < 10:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut" / "manifest.json").exists(), "it was killed before its end"
    subprocess.run([*command, "--out", str(tmp_path / "cut")], check=True, capture_output=True)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_finished_build_is_left_alone_and_another_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text")
    settings = BuildConfig()
    build([str(path)], tmp_path / "out", ByteTokenizer(), settings)
    before = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns
    build([str(path)], tmp_path / "out", ByteTokenizer(), settings)
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == before
    for other in (BuildConfig(dedupe=True), BuildConfig(split="lines")):
        with pytest.raises(ConfigError, match="other input or settings"):
            build([str(path)], tmp_path / "out", ByteTokenizer(), other)
    os.utime(path)
    with pytest.raises(ConfigError, match="other input or settings"):
        build([str(path)], tmp_path / "out", ByteTokenizer(), settings)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("keep me")
    with pytest.raises(ConfigError, match="is not empty"):
        build([str(path)], tmp_path / "full", ByteTokenizer(), settings)


def test_a_beginning_of_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = corpus(tmp_path / "in")
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, 30)
        with pytest.raises(Killed):
            build(inputs, tmp_path / "out", ByteTokenizer(), BuildConfig(**SMALL))
    with pytest.raises(DataError, match="not built to its end"):
        Shards(tmp_path / "out")
    with pytest.raises(ConfigError, match="beginning of shards of other"):
        build(inputs[:1], tmp_path / "out", ByteTokenizer(), BuildConfig(**SMALL))


def test_problems_are_reported_with_their_place(tmp_path: Path) -> None:
    inputs = corpus(tmp_path / "in")
    (tmp_path / "in" / "small" / "picture.png").write_bytes(b"")
    (tmp_path / "in" / "small" / "empty.txt").write_bytes(b"")
    build(inputs, tmp_path / "out", ByteTokenizer(), BuildConfig(split="blank_lines", **SMALL))
    report = json.loads((tmp_path / "out" / "problems.json").read_bytes())
    assert set(report["counts"].values()) == {1} and len(report["counts"]) == 4
    places = {what: places[0] for what, places in report["places"].items()}
    assert places["rows that are not JSON, left out"].startswith(f"{inputs[0]}:11 (")
    assert places["rows whose 'text' is not text, left out"] == f"{inputs[0]}:21 (int)"
    assert places["files without a document"].endswith("empty.txt:1")


def test_input_of_which_nothing_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("broken\n" * 50)
    with pytest.raises(DataError, match=r"problems\.json"):
        build([str(path)], tmp_path / "out", ByteTokenizer(), BuildConfig())
    report = json.loads((tmp_path / "out" / "problems.json").read_bytes())
    assert report["counts"] == {"rows that are not JSON, left out": 50}
    assert len(report["places"]["rows that are not JSON, left out"]) == 10
    path.write_text('{"text": "mended"}\n')
    assert build([str(path)], tmp_path / "out", ByteTokenizer(), BuildConfig()).manifest["counts"]["documents"] == 1


def test_documents_that_a_tokenizer_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abc\nabx\ncab\nx\n")
    shards = build([str(path)], tmp_path / "out", CharacterTokenizer("abc"), BuildConfig(split="lines"))
    assert [shards.document(number).tolist() for number in range(3)] == [[0, 1, 2], [0, 1], [2, 0, 1]]
    assert shards.manifest["counts"]["documents"] == 3, "nothing is left of the last"
    report = json.loads((tmp_path / "out" / "problems.json").read_bytes())
    assert report["places"]["documents with characters that the model does not know, left out"][0] == f"{path}:2 ('x'; 'abx')"


def test_damage_is_found(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(corpus(tmp_path / "in"), tmp_path / "out", tokenizer, BuildConfig(split="blank_lines", **SMALL))
    path = tmp_path / "out" / "shard-00001.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    (tmp_path / "out" / "shard-00000.idx").unlink()
    found = list(find_damage(tmp_path / "out"))
    assert len(found) == 2
    assert "shard-00000.idx: is missing" in found[0] and "shard-00001.bin: has the sha256" in found[1]
    with pytest.raises(DataError, match=r"shard-00000\.idx: is missing or of another length"):
        Shards(tmp_path / "out").rows(0)


def test_large_vocabularies_take_four_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\u0394𝒳")
    letters = "".join(chr(point) for point in range(70_000) if not 0xD800 <= point < 0xE000) + "𝒳"
    shards = build([str(path)], tmp_path / "out", CharacterTokenizer(letters), BuildConfig())
    assert shards.manifest["dtype"] == "<u4"
    assert shards.document(0)[:3].tolist() == [97, 0x394, len(letters) - 1]


def test_hashes_met_before() -> None:
    chance = np.random.default_rng(0)
    pool = chance.integers(0, 1 << 63, size=(500, 2)).astype(np.uint64)
    seen, known = SeenHashes(), set[bytes]()
    for _ in range(40):
        some = pool[chance.integers(0, 500, size=37)]
        expected = []
        for row in some:
            expected.append(row.tobytes() not in known)
            known.add(row.tobytes())
        assert seen.add(some).tolist() == expected
    assert sum(map(len, seen.runs)) == len(known)
    assert len(seen.runs) < 8
