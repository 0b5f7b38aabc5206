"""Text that needs no download: the source code of the Python installation."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from weft.core.errors import DataError
from weft.data.base import Data, DataConfig, Problems
from weft.data.io.text import Text, read_all
from weft.data.split import check_share
from weft.data.text.token_windows import Unit, language_data
from weft.data.tokenizers.base import Tokenizer


def python_files(packages: bool = False) -> list[Path]:
    """The modules of the standard library, then optionally those of installed packages, sorted by path.

    Tests and empty files are left out.
    """
    paths = sysconfig.get_paths()
    root = Path(paths["stdlib"])
    files = modules(root)
    if packages:
        files += modules(Path(paths["purelib"]))
    if not files:
        raise DataError(f"{root}: this Python installation has no source files; give a text with --data.path instead")
    return files


def modules(root: Path) -> list[Path]:
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "lib2to3", "__pycache__"}
    files = []
    for base, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in skipped]
        files += [Path(base, name) for name in names if name.endswith(".py")]
    return sorted(path for path in files if path.stat().st_size)


def split_files(files: list[Path], validation: float) -> tuple[list[Path], list[Path]]:
    """Hold out every n-th file, so that both splits have whole files of every kind; none where the share is 0."""
    check_share(validation)
    if not validation:
        return files, []
    stride = max(2, round(1 / validation))
    return [path for number, path in enumerate(files, 1) if number % stride], files[stride - 1 :: stride]


@dataclass(frozen=True, kw_only=True)
class PythonSourceConfig(DataConfig):
    file_source: ClassVar[str] = "text"
    tokenizer: Unit = "characters"
    """Tokenizer that is trained on the data, where no model brings its own."""
    vocabulary: int = 0
    """Largest number of words or pieces of words; 0 is 10,000."""
    context: int = 128
    """Tokens per example."""
    lanes: int = 0
    """Read the text in so many contiguous lanes, as truncated_bptt wants it: as many as --train.batch; 0 for windows from anywhere."""
    validation_context: int = 0
    """Tokens per validation example; 0 is `context`."""
    megabytes: float = 4.0
    """Text to use, taken from the start of the list of files; 0 for all of it."""
    packages: bool = False
    """Also read the installed packages, after the standard library: hundreds of megabytes where there are many."""
    validation: float = 0.1
    """Share of the files kept for validation, at most half; 0 for none."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        problems = Problems()
        train, validation_files = split_files(self._files(), self.validation)
        texts = [Text("\n".join(self._ascii(text) for text in read_all(group, problems)).encode()) for group in (train, validation_files)]
        windows = self.lanes, self.validation_context
        return language_data(texts[0], texts[1], self.tokenizer, self.vocabulary, self.context, problems, tokenizer, *windows)

    def _files(self) -> list[Path]:
        chosen, size = [], 0.0
        for path in python_files(self.packages):
            chosen.append(path)
            size += path.stat().st_size / 1e6
            if self.megabytes and size >= self.megabytes:
                break
        return chosen

    @staticmethod
    def _ascii(text: str) -> str:
        """The text without non-ASCII characters, which would triple the vocabulary for a handful of comments."""
        return text.encode("ascii", errors="ignore").decode()
