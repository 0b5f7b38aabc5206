"""Detection of the text and label columns of a file by their usual names."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.errors import ConfigError, DataError
from weft.data.io.files import show
from weft.data.io.records import Records

PAIRS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("text", "second"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
)
"""Usual names of the columns of a pair of texts."""
SINGLE = ("text", "sentence")
LABELS = ("label", "gold_label", "class", "score", "is_duplicate")
LABEL_SETS = ("labels", "topics", "tags")
"""Usual names of a column of sets of labels."""
ID_COLUMNS = ("id", "idx", "index")


def find_columns(rows: Records, text: str, second: str, label: str) -> tuple[tuple[int, ...], int]:
    """The columns of one or two texts, and of the label; each is given by name or number, or empty to detect it."""
    lower = [name.lower() for name in rows.names]
    default = next((lower.index(name) for name in LABELS if name in lower), len(lower) - 1)
    label_column = rows.column(label, "--data.label") if label else default
    if second and not text:
        raise ConfigError("--data.second needs --data.text beside it")
    named = tuple(rows.column(name, f"--data.{flag}") for flag, name in (("text", text), ("second", second)) if name)
    texts = named or by_name(lower, label_column)
    if not texts:
        names = show(", ".join(rows.names)[:200])
        raise DataError(
            f"{show(rows.path)}: which of its columns ({names}) is the text? A label and one or two texts are needed; name "
            "them with --data.text, --data.second and --data.label"
        )
    if label_column in texts:
        raise ConfigError(f"--data.text: {rows.names[label_column]!r} is the label, which must not be learned from")
    return texts, label_column


def by_name(lower: list[str], label: int) -> tuple[int, ...]:
    """The columns of the texts by their usual names, or because no others are left."""
    others = {name: index for index, name in enumerate(lower) if index != label and name not in ID_COLUMNS}
    for names in (*PAIRS, *((name,) for name in SINGLE)):
        if all(name in others for name in names):
            return tuple(others[name] for name in names)
    return tuple(others.values()) if len(others) <= 2 else ()


def text_names(names: Sequence[str], number: int = 0) -> tuple[str, ...]:
    """The columns of one text or two (0: of either) in a file without labels, or with them; none where they cannot be told."""
    lower = {name.lower(): name for name in names if name.lower() not in (*LABELS, *ID_COLUMNS)}
    for usual in (*PAIRS, *((name,) for name in SINGLE)):
        if number in (0, len(usual)) and all(name in lower for name in usual):
            return tuple(lower[name] for name in usual)
    left = tuple(lower.values())
    return left if len(left) == number or (not number and len(left) <= 2) else ()
