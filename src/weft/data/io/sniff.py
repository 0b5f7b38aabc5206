"""What a file is by its first bytes, so that one that holds no text is refused rather than read as such."""

from __future__ import annotations

from pathlib import Path

from weft.core.errors import DataError
from weft.data.io.encodings import without_mark

HEAD = 1 << 16
"""Bytes looked at."""
SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"%PDF", "a PDF", "take its text out first (pdftotext FILE.pdf FILE.txt)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document", "save a table as CSV, a text as plain text"),
    (b"PAR1", "a Parquet file", "weft data build reads it for language models; for anything else write CSV or JSONL"),
    (b"SQLite format 3\0", "an SQLite database", "write the table as CSV"),
    (b"\x89PNG", "a PNG image", "images are given as a folder of files"),
    (b"\xff\xd8\xff", "a JPEG image", "images are given as a folder of files"),
    (b"GIF8", "a GIF image", "images are given as a folder of files"),
    (b"\x1f\x8b", "gzipped", "give it a name that ends in .gz"),
    (b"BZh", "a bzip2 archive", "unpack it first"),
    (b"\xfd7zXZ\0", "an xz archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"\x7fELF", "a program", "name a text file"),
)
OFFICE = {
    ".xlsx": ("an Excel workbook", "save the sheet as CSV"),
    ".ods": ("a spreadsheet", "save the sheet as CSV"),
    ".docx": ("a Word document", "save it as plain text"),
    ".odt": ("a text document", "save it as plain text"),
    ".pptx": ("a presentation", "save its text as plain text"),
    ".epub": ("an e-book", "save its text as plain text"),
}
MOST_NULS = 0.005
"""Share of NUL bytes above which a file is no text in UTF-8; a few are damage, which is counted elsewhere."""


def refuse_binary(data: bytes, path: Path | str) -> None:
    """A DataError where the first bytes of a file are those of something else than text in UTF-8; it names what, and the fix."""
    kind, fix = binary_kind(data[:HEAD], str(path))
    if kind:
        shown = str(path) if str(path).isprintable() else repr(str(path))
        raise DataError(f"{shown}: is {kind}, not a text file; {fix}")


def binary_kind(head: bytes, name: str = "") -> tuple[str, str]:
    """What the first bytes of a file say that it is, and what to do; ("", "") for text."""
    if head.startswith(b"PK\x03\x04"):
        suffix = next((suffix for suffix in OFFICE if name.lower().endswith(suffix)), "")
        office = b"xl/" in head or b"word/" in head
        other = ("an Office document", "save it as CSV or plain text") if office else ("a zip archive", "unpack it first")
        return OFFICE.get(suffix, other)
    for signature, kind, fix in SIGNATURES:
        if head.startswith(signature):
            return kind, fix
    if head.count(b"\0") > max(3, MOST_NULS * len(head)) and not without_mark(head):
        return "binary (it is full of NUL bytes)", "name a text file"
    return "", ""
