"""A tokenizer is learned from text spread over the input, however large its pieces are."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from weft.core.errors import DataError
from weft.data.problems import Problems
from weft.data.shards.documents import ChunkProblems, read_documents
from weft.data.shards.input_chunks import ReadOptions, find_inputs, input_chunks
from weft.data.tokenizers import training
from weft.data.tokenizers.subwords import ByteBPE
from weft.data.tokenizers.training import train_tokenizer

SMALL = ReadOptions(piece_bytes=1000)


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 16 kB were 32 MB, and pieces of 1 kB those of 2 MiB."""
    monkeypatch.setattr(training, "SAMPLE", 16_000)
    monkeypatch.setattr("weft.data.shards.input_chunks.SEARCH_WINDOW", 60)


def lines(letters: str, number: int) -> list[str]:
    chance = random.Random(letters)
    return ["".join(chance.choice(letters) for _ in range(90)) for _ in range(number)]


def rows(letters: str, number: int) -> bytes:
    return "".join(json.dumps({"text": line}) + "\n" for line in lines(letters, number)).encode()


def sampled(folder: Path) -> str:
    """The text that a tokenizer is learned from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ByteBPE, "train", lambda text, vocabulary, special_tokens: text)
        found = train_tokenizer("byte_bpe", 300, [str(folder)], SMALL)
    assert isinstance(found, str)
    return found


def test_a_large_compressed_file_beside_small_ones(tmp_path: Path) -> None:
    (tmp_path / "a_empty.txt").write_bytes(b"")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(rows("abcdefgh", 800)))
    assert (tmp_path / "b.jsonl.gz").stat().st_size > 2 * 16_000
    assert train_tokenizer("byte_bpe", 300, [str(tmp_path)], SMALL).size == 300
    (tmp_path / "README.md").write_text("xyz")
    found = sampled(tmp_path)
    assert found.startswith("xyz\n")
    assert 12_000 < len(found) < 20_000, "the beginning of the compressed file"


def test_compressed_files_share_what_is_learned_from(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(rows(name + "0123456789", 300)))
    found = sampled(tmp_path)
    counts = [found.count(name) for name in "abcdef"]
    assert min(counts) > 100 and max(counts) < 2 * min(counts)
    assert 14_000 < len(found) < 20_000


def test_rows_of_every_file_are_seen(tmp_path: Path) -> None:
    """Of two files that together are a little less than twice what is learned from, both give half."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(rows(name, 150))
    found = sampled(tmp_path)
    assert found.count("a") == pytest.approx(found.count("b"), rel=0.1)
    assert 14_000 < len(found) < 20_000


def test_row_groups_larger_than_pieces_are_all_seen(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    for name in "abc":
        table = arrow.table({"text": lines(f"{name}0123456789", 150)})
        parquet.write_table(table, tmp_path / f"{name}.parquet", compression="none", use_dictionary=False)
    found = sampled(tmp_path)
    counts = [found.count(name) for name in "abc"]
    assert min(counts) > 300 and max(counts) < 1.3 * min(counts)
    assert 14_000 < len(found) < 20_000


@pytest.mark.parametrize("number", [10, 90, 170, 1000])
def test_of_plain_text_every_nth_piece_is_taken_whole(tmp_path: Path, number: int) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("\n".join(lines(name + "xyz", number)))
    sources = find_inputs([str(tmp_path)], SMALL, Problems())
    cut = [piece for number, source in enumerate(sources) for piece in input_chunks(number, source, SMALL, 0)]
    every = max(1, 3 * 91 * number // 16_000)
    assert sampled(tmp_path) == "\n".join(
        document.text for piece in cut[::every] for document in read_documents(piece, SMALL, ChunkProblems())
    )


def test_where_the_chosen_pieces_hold_nothing_all_are_read(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02d}.jsonl").write_bytes(b"broken\n" * 140 if number % 2 == 0 else rows("abc", 9))
    assert len(sampled(tmp_path)) > 5_000


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(DataError, match="no document to train a tokenizer on"):
        train_tokenizer("byte_bpe", 300, [str(tmp_path)], SMALL)
