from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.text.documentation import comments, docstrings, documents, paragraphs

SOURCE = '''"""Module."""
TEXT = """
no docstring
"""

# One comment
#   of two lines.
def f(x):  # beside code
    r"""First line.

        indented
    not
    """
    return """neither"""
'''


def test_docstrings_are_the_strings_that_begin_a_line() -> None:
    assert docstrings(SOURCE) == ["Module.", "First line.\n\n    indented\nnot"]


def test_comments_are_runs_of_comment_lines() -> None:
    assert comments(SOURCE) == ["One comment\n  of two lines.\n"]


def test_paragraphs_are_apart_by_blank_lines() -> None:
    assert paragraphs("a\nb\n \nc\n\n\n") == ["a\nb", "c"]


def test_the_standard_library_is_split_by_files() -> None:
    problems = Problems()
    train, held = documents("", "", 0.1, problems)
    assert len(train) > 1000
    assert 0.02 < len(held) / len(train) < 0.3
    with_comments, _ = documents("", "", 0.1, problems, with_comments=True)
    assert len(with_comments) > len(train)


def test_a_text_of_ones_own_is_split_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_text("one\n\ntwo\n\nthree\n\nfour")
    assert documents(str(path), "", 0.2, Problems()) == (["one", "two", "three"], ["four"])
    assert documents(str(path), "", 0.0, Problems())[1] == []
    assert documents(str(path), str(path), 0.2, Problems()) == (["one", "two", "three", "four"],) * 2
    with pytest.raises(ConfigError, match=r"data\.validation"):
        documents(str(path), "", 1.5, Problems())
