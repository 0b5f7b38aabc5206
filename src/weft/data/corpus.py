"""The text every machine has: the source code of its own Python installation."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

from weft.data.base import Data, DataConfig, Problems
from weft.data.text import Unit, decode, language_data, read_bytes
from weft.errors import DataError


def python_files() -> list[Path]:
    """The standard library's modules, in the order of their path; tests and installed packages are left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "lib2to3", "__pycache__"}
    files = [p for p in sorted(root.rglob("*.py")) if not skipped & set(p.relative_to(root).parts)]
    if not files:
        raise DataError(f"{root}: this Python installation has no source files; give a text with --data.path instead")
    return files


def split_files(files: list[Path], validation: float) -> tuple[list[Path], list[Path]]:
    """Every n-th file for validation, so that both halves hold whole files of every kind."""
    every = max(2, round(1 / validation))
    held = files[every - 1 :: every]
    return [p for p in files if p not in set(held)], held


@dataclass(frozen=True, kw_only=True)
class PythonSourceConfig(DataConfig):
    unit: Unit = "characters"
    """What a token is."""
    vocabulary: int = 0
    """Largest number of words; 0 is 10,000."""
    context: int = 128
    """Tokens per example."""
    megabytes: float = 4.0
    """Text to use, taken from the start of the list of files; 0 for all of it."""
    validation: float = 0.1
    """Share of the files kept for validation."""

    def build(self) -> Data:
        problems = Problems()
        train, held = split_files(self._files(), self.validation)
        texts = ["\n".join(self._ascii(decode(read_bytes(p), p, problems)) for p in group) for group in (train, held)]
        return language_data(texts[0], texts[1], self.unit, self.vocabulary, self.context, problems)

    def _files(self) -> list[Path]:
        chosen, size = [], 0.0
        for path in python_files():
            chosen.append(path)
            size += path.stat().st_size / 1e6
            if self.megabytes and size >= self.megabytes:
                break
        return chosen

    @staticmethod
    def _ascii(text: str) -> str:
        """Without the few characters beyond ASCII, which would triple the vocabulary for a handful of comments."""
        return text.encode("ascii", errors="ignore").decode()
