"""The table of implementations is that of the code, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import weft
from weft.kernels.select import IMPLEMENTATIONS

PACKAGE = Path(weft.__file__).parent
ROOT = PACKAGE.parent.parent


def rows() -> list[list[str]]:
    lines = (PACKAGE / "kernels" / "README.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ") and "---" not in line][1:]


def test_every_implementation_has_a_row() -> None:
    assert {(row[0], row[1].strip("`")) for row in rows()} == {(one.name, one.file) for one in IMPLEMENTATIONS}
    assert len({one.name for one in IMPLEMENTATIONS}) == len(IMPLEMENTATIONS)


def test_what_it_names_is_there() -> None:
    for row in rows():
        assert (PACKAGE / row[1].strip("`")).is_file()
        for name in re.findall(r"`((?:tests|results)/[^`]+)`", " ".join(row)):
            assert (ROOT / name).is_file(), name
