"""Pieces meet between documents, and everything that is wrong with a file is counted with its line."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import DataError, MissingExtra
from weft.data.problems import Problems
from weft.data.shards.documents import ChunkProblems, read_documents
from weft.data.shards.input_chunks import InputChunk, ReadOptions, find_inputs, input_chunks


def all_pieces(path: Path, options: ReadOptions) -> list[InputChunk]:
    (source,) = find_inputs([str(path)], options, Problems())
    return list(input_chunks(0, source, options, 0))


def texts(path: Path, **settings: Any) -> tuple[list[str], dict[str, tuple[int, list[tuple[int, str]]]]]:
    """The documents of a file, and its flaws with lines counted in the whole file."""
    options = ReadOptions(**settings)
    found, flaws, lines = [], {}, 0
    for chunk in all_pieces(path, options):
        own = ChunkProblems()
        found += [document.text for document in read_documents(chunk, options, own)]
        for what, (number, named) in own.counts.items():
            before = flaws.get(what, (0, []))
            flaws[what] = before[0] + number, before[1] + [(line + lines, detail) for line, detail in named]
        lines += own.lines
    return found, flaws


PARAGRAPHS = [f"Paragraph {number}: ünïcode {'x' * (number % 37)}\nand a second line." for number in range(200)]


@pytest.mark.parametrize("size", [200, 1000, 1 << 20])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("between", ["\n\n", "\n \t\n\n", "\r\n\r\n"])
def test_blank_lines_separate_documents_however_a_file_is_cut(tmp_path: Path, size: int, ending: str, between: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    data = (between.join(PARAGRAPHS) + "\n").encode()
    path.write_bytes(gzip.compress(data) if ending else data)
    found, flaws = texts(path, split="blank_lines", piece_bytes=size)
    assert found == PARAGRAPHS
    assert not flaws


@pytest.mark.parametrize("size", [200, 777, 1 << 20])
def test_lines_and_separators(tmp_path: Path, size: int) -> None:
    lines = [f"line {number} é" for number in range(300)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    assert texts(path, split="lines", piece_bytes=size)[0] == lines
    path.write_text("<|end|>".join(PARAGRAPHS))
    assert texts(path, separator="<|end|>", piece_bytes=size)[0] == PARAGRAPHS


def test_pieces_meet_and_cover_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": paragraph}) + "\n" for paragraph in PARAGRAPHS))
    found = all_pieces(path, ReadOptions(piece_bytes=500))
    assert len(found) > 10
    assert [chunk.start for chunk in found[1:]] == [chunk.stop for chunk in found[:-1]]
    assert found[-1].stop == path.stat().st_size
    assert [chunk.last for chunk in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_document_too_long_is_cut_at_a_line_and_counted(tmp_path: Path, ending: str) -> None:
    text = "".join(f"line {number} of a long text, ñandú\n" for number in range(4000))
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending else text.encode())
    found, flaws = texts(path, piece_bytes=10_000)
    assert "".join(found) == text
    assert len(found) > 5
    assert all(part.endswith("\n") for part in found)
    ((number, named),) = flaws.values()
    assert number == len(found) - 1
    assert named[0][0] == found[0].count("\n") + 1


def test_a_text_without_any_line_is_cut_between_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("日本語" * 100_000)
    found, _ = texts(path, piece_bytes=100_000)
    assert "".join(found) == "日本語" * 100_000
    assert len(found) > 3


BAD_ROWS = [
    b'{"text": "first"}',
    b"not json",
    b'{"text": 3}',
    b'{"other": "x"}',
    b"[1, 2]",
    b"",
    b'{"text": "bad \xff byte"}',
    b'{"text": null}',
    b'{"text": "   "}',
    b'{"text": "half \\ud800"}',
    b'{"text": "last"}',
]


@pytest.mark.parametrize("size", [20, 1 << 20])
def test_bad_rows_are_counted_with_their_line(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(BAD_ROWS) + b"\n")
    found, flaws = texts(path, piece_bytes=size, encoding="utf-8")
    assert found == ["first", "bad � byte", "half �", "last"]
    assert {what: [line for line, _ in named] for what, (_, named) in flaws.items()} == {
        "rows that are not JSON, left out": [2],
        "rows whose 'text' is not text, left out": [3, 8],
        "rows without the field 'text', left out": [4],
        "rows that are not JSON objects, left out": [5],
        "empty documents, left out": [6, 9],
        "documents with bytes that are not UTF-8, replaced by U+FFFD": [7],
        "documents with halves of surrogate pairs, replaced by U+FFFD": [10],
    }


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_rows_that_are_too_long_are_one_row_left_out(tmp_path: Path, ending: str, last: str) -> None:
    """Of 16 pieces no more, wherever it stands, however long it is."""
    sizes = [20, 1600, 30, 1601, 700, 1700, 40, 50_000, 15, 5000, 5001, 1600, 20, 9999]
    rows = [json.dumps({"text": ""})[:-2] + "x" * (size - 12) + '"}' for size in sizes]
    path = tmp_path / f"a.jsonl{ending}"
    data = ("\n".join(rows) + last).encode()
    path.write_bytes(gzip.compress(data) if ending else data)
    found, flaws = texts(path, piece_bytes=100)
    kept = [size for size in sizes if size <= 1600]
    assert [len(text) + 12 for text in found] == kept
    ((what, (number, named)),) = flaws.items()
    assert what == "rows longer than 1,600 bytes, left out"
    assert number == len(named) == len(sizes) - len(kept)
    assert [line for line, _ in named] == [place + 1 for place, size in enumerate(sizes) if size > 1600]


def test_other_encodings_and_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        path.write_bytes("ein Wört\n\nzwei".encode(encoding))
        for size in (20, 1 << 20):
            assert texts(path, split="blank_lines", piece_bytes=size)[0] == ["ein Wört", "zwei"]


def test_broken_files_are_counted(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d of many\n" % number for number in range(100_000)))
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    found, flaws = texts(tmp_path / "a.txt.gz", split="lines", piece_bytes=1 << 14)
    assert len(found) > 1000
    assert list(flaws) == ["files that cannot be read to their end"]
    (tmp_path / "b.gz").write_bytes(b"nothing of the kind")
    assert list(texts(tmp_path / "b.gz")[1]) == ["files that cannot be read to their end"]
    (tmp_path / "c.txt").write_bytes(b"")
    assert list(texts(tmp_path / "c.txt")[1]) == ["files without a document"]


def test_inputs_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        find_inputs(["nowhere.txt"], ReadOptions(), Problems())
    (tmp_path / "a.zip").write_bytes(b"")
    with pytest.raises(DataError, match="unpack it"):
        find_inputs([str(tmp_path / "a.zip")], ReadOptions(), Problems())
    with pytest.raises(DataError, match="--suffixes"):
        find_inputs([str(tmp_path)], ReadOptions(), Problems())


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    rows = ["one", None, " ", *(f"row {number}" for number in range(997))]
    parquet.write_table(arrow.table({"text": rows, "n": list(range(1000))}), path, row_group_size=100)
    found, flaws = texts(path)
    assert found == ["one", *rows[3:]]
    assert flaws == {"rows whose 'text' is not text, left out": (1, [(2, "null")]), "empty documents, left out": (1, [(3, "")])}
    assert list(texts(path, field="n")[1]) == ["rows whose 'n' is not text, left out"]
    assert next(iter(texts(path, field="body")[1])) == "files without the column 'body'"
    path.write_bytes(b"no parquet")
    assert list(texts(path)[1]) == ["files that cannot be read to their end"]


READ = """
import sys
from weft.data.shards.documents import ChunkProblems, read_documents
from weft.data.shards.input_chunks import ReadOptions, find_inputs, input_chunks
from weft.data.problems import Problems
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
(source,) = find_inputs(sys.argv[1:], ReadOptions(), Problems())
(chunk,) = input_chunks(0, source, ReadOptions(), 0)
before = peak()
print(sum(len(document.data) for document in read_documents(chunk, ReadOptions(), ChunkProblems())), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_row_group_is_not_held_whole(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    rows = [random.Random(number).randbytes(500).hex() for number in range(80_000)]
    parquet.write_table(arrow.table({"text": rows}), path, compression="none", use_dictionary=False)
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    size, grown = map(int, done.stdout.split())
    assert size == 80_000_000
    assert grown < 60_000, "kilobytes"


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(MissingExtra, match=r"\[parquet\]"):
        texts(tmp_path / "a.parquet")


CHINESE = "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？"


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".jsonl"])
@pytest.mark.parametrize("encoding", ["gb18030", "utf-16-le", "utf-16"])
def test_files_of_other_encodings_are_read_as_a_stream(tmp_path: Path, encoding: str, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    lines = [f"{CHINESE} {number}" for number in range(500)]
    content = "".join((f'{{"text": "{line}"}}' if ending == ".jsonl" else line) + "\n" for line in lines).encode(encoding)
    path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    assert texts(path, piece_bytes=1000, split="lines") == (lines, {})
    problems = Problems()
    find_inputs([str(path)], ReadOptions(), problems)
    assert len(problems.counts) == (encoding != "utf-16"), "what was detected is said"


def test_what_is_not_utf8_after_a_long_beginning_is_left_out_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain\n" * 200_000 + CHINESE.encode("gb18030") * 9 + b"\nplain\n")
    found, flaws = texts(path, split="lines")
    assert set(found) == {"plain"}
    assert [(what, number) for what, (number, _) in flaws.items()] == [
        ("documents that are not UTF-8, left out; --encoding names another", 1)
    ]


def test_an_encoding_that_is_not_clear_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes("天地\n".encode("gb18030"))
    with pytest.raises(DataError, match=r"a\.txt: is not UTF-8 .* name its encoding, as with --encoding \w+"):
        find_inputs([str(tmp_path / "a.txt")], ReadOptions(), Problems())
    with pytest.raises(DataError, match=r"no file can be read \(2 × files that cannot be read"):
        find_inputs([str(tmp_path)], ReadOptions(), Problems())
    assert texts(tmp_path / "a.txt", encoding="gb18030")[0] == ["天地\n"]
