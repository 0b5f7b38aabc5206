"""Texts in archives, in several files, and between WikiExtractor's tags."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.text import read_text, read_texts
from weft.data.text.documentation import documents

TEXTS = {"b/two.txt": "second\n", "a/one.txt": "first\r\n", "a/pic.png": "no", "a/.hidden.txt": "no", "__MACOSX/x.txt": "no"}


def archive(path: Path) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, text in TEXTS.items():
                zipped.writestr(name, text)
    else:
        with tarfile.open(path, f"w:{path.suffix.removeprefix('.').replace('tar', '')}") as tarred:
            for name, text in TEXTS.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                tarred.addfile(entry, io.BytesIO(text.encode()))
            link = tarfile.TarInfo("a/link.txt")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tarred.addfile(link)
    return str(path)


@pytest.mark.parametrize("name", ["t.zip", "t.tar", "t.tar.gz", "t.tar.xz"])
def test_the_texts_of_an_archive_in_order(tmp_path: Path, name: str) -> None:
    problems = Problems()
    assert read_texts(archive(tmp_path / name), problems) == ["first\n", "second\n"]
    assert problems.counts == {"files with another suffix, not read": 1}


def test_several_paths_with_commas_between(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.zip")
    (tmp_path / "c.txt").write_text("third")
    assert read_text(f"{path}, {tmp_path / 'c.txt'}", Problems()) == "first\n\nsecond\n\nthird"
    (tmp_path / "odd,name.txt").write_text("odd")
    assert read_text(str(tmp_path / "odd,name.txt"), Problems()) == "odd"


def test_bad_archives_are_one_sentence(tmp_path: Path) -> None:
    for name in ("t.zip", "t.tar.xz", "t.tar"):
        whole = Path(archive(tmp_path / name)).read_bytes()
        for data in (b"junk" * 99, whole[:60]):
            (tmp_path / f"bad{name}").write_bytes(data)
            with pytest.raises(DataError, match=r"cannot be read|holds no text"):
                read_text(str(tmp_path / f"bad{name}"), Problems())
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as zipped:
        zipped.writestr("a.png", "")
    with pytest.raises(DataError, match="the archive holds no file"):
        read_text(str(tmp_path / "none.zip"), Problems())
    locked = bytearray(Path(archive(tmp_path / "t.zip")).read_bytes())
    locked[locked.index(b"PK\x01\x02") + 8] |= 1  # the first file says that it is encrypted
    (tmp_path / "locked.zip").write_bytes(locked)
    with pytest.raises(DataError, match=r"locked\.zip: cannot be read"):
        read_text(str(tmp_path / "locked.zip"), Problems())


def test_a_damaged_file_of_an_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as zipped:
        zipped.writestr("a.txt", "whole")
        zipped.writestr("b.txt.gz", gzip.compress(b"cut off" * 99)[:30])
    problems = Problems()
    assert read_texts(str(tmp_path / "t.zip"), problems) == ["whole"]
    assert "1 × files that cannot be read" in problems.lines()[0] and "t.zip/b.txt.gz (" in problems.lines()[0]


def test_documents_of_several_files_and_of_tags(tmp_path: Path) -> None:
    wiki = "".join(f'<doc id="{i}" title="t">\nArticle {i}.\n\nMore of it.\n</doc>\n' for i in range(10))
    (tmp_path / "wiki.txt").write_text(wiki)
    train, held = documents(str(tmp_path / "wiki.txt"), "", 0.2, Problems())
    assert len(train) == 8 and held == ["Article 2.\n\nMore of it.", "Article 7.\n\nMore of it."]
    train, held = documents(archive(tmp_path / "t.zip"), "", 0.0, Problems())
    assert (train, held) == (["first\n", "second\n"], [])
    (tmp_path / "plain.txt").write_text("one\n\ntwo\n\nthree")
    assert documents(str(tmp_path / "plain.txt"), "", 0.0, Problems())[0] == ["one", "two", "three"]
