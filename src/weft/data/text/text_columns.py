"""Which columns of a file hold a text, or two, and its label, where nobody says so: by the names they usually have."""

from __future__ import annotations

from weft.core.errors import ConfigError, DataError
from weft.data.io.files import show
from weft.data.io.rows import Rows

PAIRS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("text", "second"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
)
"""Names that two texts have together."""
SINGLE = ("text", "sentence")
LABELS = ("label", "gold_label", "class", "score", "is_duplicate")
NUMBERS_OF_ROWS = ("id", "idx", "index")


def find_columns(rows: Rows, text: str, second: str, label: str) -> tuple[tuple[int, ...], int]:
    """The places of the one or two texts, and of the label; each is given by name or number, or empty."""
    lower = [name.lower() for name in rows.names]
    usual = next((lower.index(name) for name in LABELS if name in lower), len(lower) - 1)
    told = rows.column(label, "--data.label") if label else usual
    if second and not text:
        raise ConfigError("--data.second needs --data.text beside it")
    given = tuple(rows.column(name, f"--data.{flag}") for flag, name in (("text", text), ("second", second)) if name)
    texts = given or by_name(lower, told)
    if not texts:
        names = show(", ".join(rows.names)[:200])
        raise DataError(
            f"{show(rows.path)}: which of its columns ({names}) is the text? A label and one or two texts are needed; name "
            "them with --data.text, --data.second and --data.label"
        )
    if told in texts:
        raise ConfigError(f"--data.text: {rows.names[told]!r} is the label, which must not be learned from")
    return texts, told


def by_name(lower: list[str], label: int) -> tuple[int, ...]:
    """The columns that can be nothing but the text, or the two: by their names, or because no others are left."""
    left = {name: place for place, name in enumerate(lower) if place != label and name not in NUMBERS_OF_ROWS}
    for names in (*PAIRS, *((name,) for name in SINGLE)):
        if all(name in left for name in names):
            return tuple(left[name] for name in names)
    return tuple(left.values()) if len(left) <= 2 else ()
