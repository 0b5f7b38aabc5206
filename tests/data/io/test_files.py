from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.images.idx_cifar import idx_array
from weft.data.io import files
from weft.data.io.text import read_text


def test_a_path_that_leads_nowhere_is_one_sentence_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    for path in ("no/such", "~nobody-here/x", "a" * 5000, "nul\0byte", "loop"):
        with pytest.raises(DataError, match=r"--data\.path") as caught:
            files.locate(path)
        assert "\n" not in str(caught.value)
        assert str(caught.value).isprintable()
    with pytest.raises(DataError, match="no data path"):
        files.locate("")


def test_paths_below_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set").mkdir()
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    assert files.locate("set") == tmp_path / "set"
    with pytest.raises(DataError, match="nor below WEFT_DATA"):
        files.locate("other")


def test_what_cannot_be_read_is_a_data_error(tmp_path: Path) -> None:
    folder, pipe, broken, short = (tmp_path / name for name in ("folder", "pipe", "broken.gz", "short.gz"))
    folder.mkdir()
    os.mkfifo(pipe)
    broken.write_bytes(b"not gzip")
    short.write_bytes(gzip.compress(b"hello" * 100)[:-12])
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(os.urandom(1000))[:40] + b"\xff" * 300)
    for path in (folder, pipe, broken, short, damaged, tmp_path / "missing"):
        with pytest.raises(DataError):
            files.read_bytes(path)


def test_lone_surrogates_are_mended() -> None:
    assert files.well_formed("a\ud800b\udc00 😀") == "a\ufffdb\ufffd 😀"


def test_walking_survives_loops_and_dangling_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "1.txt").touch()
    (tmp_path / "a" / "b" / "2.TXT").touch()
    (tmp_path / "a" / "b" / ".hidden.txt").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    (tmp_path / "readme.pdf").touch()
    os.mkfifo(tmp_path / "pipe.txt")
    problems = Problems()
    assert [path.name for path in files.walk(tmp_path, (".txt",), problems)] == ["1.txt", "2.TXT"]
    assert sum(problems.counts.values()) == 4
    assert len(problems.counts) == 3


def test_names_that_are_no_text_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9\n.txt")).touch()
    (found,) = files.walk(tmp_path, (".txt",), Problems())
    assert files.show(found).isprintable()
    files.show(found).encode()


def bomb(kind: str, path: Path, size: int) -> Path:
    """A small file that becomes `size` bytes of zeros."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("a.txt", bytes(size))
    elif kind == "tar":
        with tarfile.open(path, "w:gz") as tarred:
            entry = tarfile.TarInfo("a.txt")
            entry.size = size
            tarred.addfile(entry, io.BytesIO(bytes(size)))
    else:
        path.write_bytes(gzip.compress(bytes(size)))
    return path


@pytest.mark.parametrize(
    ("kind", "name"), [("gz", "a.txt.gz"), ("zip", "a.zip"), ("tar", "a.tar.gz"), ("gz", "train-images-idx3-ubyte.gz")]
)
def test_small_files_that_become_huge_are_refused_before_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.setattr(files, "INFLATED_BYTES", 1 << 20)
    path = bomb(kind, tmp_path / name, 20 << 20)
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"{name}: its [\d,]+ bytes become more than [\d,]+ when decompressed, .*; decompress it first"):
        idx_array(path, 3, Problems()) if "idx" in name else read_text(str(path), Problems())
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    honest = tmp_path / "b.txt.gz"
    honest.write_bytes(gzip.compress(os.urandom(1 << 21).hex().encode()))
    assert len(files.read_bytes(honest)) == 4 << 20, "what becomes a few times as large may be as large as it likes"
