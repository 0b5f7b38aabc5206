"""What predictions of files share: which column names them, and what an example is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from weft.core.errors import ConfigError
from weft.inference.predict.base import Predictor, Row, named, text_of


class FilePredictor(Predictor):
    """Tells something of a file that a row names, or whose content it brings."""

    noun: ClassVar[str]
    """What the files are, as in "the image files"."""
    names: ClassVar[tuple[str, ...]]
    """What a column is called that names them."""

    def known_names(self) -> set[str]:
        return set(self.names)

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        found = named(names, chosen) or tuple(name for wanted in self.names for name in names if name.lower() == wanted)[:1]
        found = found or (tuple(names) if len(names) == 1 else ())
        if len(found) != 1:
            raise ConfigError(f"which of the columns ({', '.join(names)}) names the {self.noun} files? say it with --columns")
        return found

    def example(self, row: Row, columns: Sequence[str]) -> Any:
        """The file, or its content where the row brings that."""
        value = row.cells.get(columns[0])
        return value if isinstance(value, bytes) else Path(text_of(row, columns[0])).expanduser()
