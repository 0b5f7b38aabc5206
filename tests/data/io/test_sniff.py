"""Files that hold no text are refused in one sentence that names what they are and the fix."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

import weft
from weft.core.errors import DataError
from weft.data.io.sniff import binary_kind
from weft.data.tables.table import TableConfig
from weft.runs.assemble import assemble


def workbook() -> bytes:
    """What a spreadsheet program writes, as far as a reader of the first bytes sees."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"%PDF-1.7\n" + b"text " * 99, "is a PDF, not a text file; take its text out first"),
        ("a.xlsx", workbook(), "is an Excel workbook, not a text file; save the sheet as CSV"),
        ("renamed.csv", workbook(), "is an Office document, not a text file; save it as CSV"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "is an Office document"),
        ("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(99), "is a PNG image"),
        ("a.csv", bytes(range(256)) * 40 + bytes(400), "is binary"),
        ("a.csv", b"\x1f\x8b\x08\x00" + b"x" * 99, "give it a name that ends in .gz"),
    ],
)
def test_what_holds_no_text_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    path = str(tmp_path / name)
    with pytest.raises(DataError, match="not a text file") as caught:
        TableConfig(path=path).build()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="not a text file"):
        assemble(weft.recipe("gpt/text", {"data.path": path, "train.device": "cpu"}), tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"a,b\n", "Grüße, 你好\n".encode(), b"fin\xe9 \0" + b"x" * 999, "naïve".encode("latin-1")])
def test_text_is_text(content: bytes) -> None:
    assert binary_kind(content) == ("", "")
