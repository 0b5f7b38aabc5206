"""A corpus of Python source and docstrings from what is installed: cleaned, without copies, whole packages held out.

train.jsonl, held.jsonl   a file a line: "text", and "path" below the folder that it was found in
corpus.json               sha256 of both, what they hold, what was left out and why, which packages are held out

Which packages are held out is the matter of a hash of their names. One that is a large part of the corpus is always trained on.
Files are left out that others cannot learn from: those that are no UTF-8, hardly more than a name, huge, generated, or data in the
guise of code. Then copies: a file most of whose lines stand in files before it. Held-out packages come last, so nothing of which
much stands in the training part is ever validated on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import site
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.io.files import show
from weft.data.problems import Problems
from weft.data.shards.files import encode, put, sha256_of

GENERATED = re.compile(r"generated (by|from|file|code)|auto-?generated|do not (edit|modify)", re.IGNORECASE)
SMALL, HUGE = 200, 400_000
"""Bytes of the smallest and of the largest file that is used."""
HEAD = 2000
"""Characters in which a file would say that it was generated."""
LOOKED_AT = 10_000
"""Characters of which letters are counted."""
LONGEST_LINE, LETTERS = 2000, 0.3
"""Characters of a line, and the share of letters, beyond which a file is data."""
LONG = 20
"""Characters of a line that says something of where it comes from."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Config):
    held_out: float = 0.1
    """Share of the packages that is held out, by the hash of their names."""
    largest: float = 0.05
    """Share of all bytes above which a package is never held out."""
    copied: float = 0.7
    """Share of a file's lines (20 characters or more, each counted once) that may stand in files before it."""
    seed: int = 1
    """Of the hash of names."""

    def check(self) -> None:
        for name in ("held_out", "largest", "copied"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"--{name.replace('_', '-')} must be above 0 and at most 1, not {getattr(self, name)}")


class File(NamedTuple):
    root: Path
    path: str
    """Below the root."""
    size: int

    @property
    def package(self) -> str:
        """The first name of its import: a folder, or a module of its own."""
        return self.path.split("/")[0].removesuffix(".py")


def installed() -> list[Path]:
    """The standard library and the folders of installed packages."""
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return [Path(path) for path in dict.fromkeys(found) if os.path.isdir(path)]


def find(roots: Iterable[Path]) -> list[File]:
    """Every Python file below some folders, in order; a folder of packages within the standard library is not its part."""
    files = []
    for root in roots:
        for base, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
            paths = [Path(base, name) for name in sorted(names) if name.endswith(".py")]
            files += [File(root, path.relative_to(root).as_posix(), path.stat().st_size) for path in paths if path.is_file()]
    return files


def held_packages(files: list[File], config: CorpusConfig) -> set[str]:
    """The packages to hold out."""
    sizes: dict[str, int] = {}
    for file in files:
        sizes[file.package] = sizes.get(file.package, 0) + file.size
    most = config.largest * sum(sizes.values())
    return {name for name, size in sizes.items() if size <= most and lot(name, config.seed) < config.held_out}


def lot(name: str, seed: int) -> float:
    """A number in [0, 1) that belongs to a name."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") / 2**64


def cleaned(text: str) -> str:
    """Plain line ends, nothing behind a line, one line end at the end, and no licence at the top."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    top = list(itertools.takewhile(lambda line: not line or line.startswith("#"), lines))
    if any(word in "\n".join(top).lower() for word in ("copyright", "licen")):
        lines = lines[len(top) :]
    return "\n".join(lines).strip("\n") + "\n"


def flaw(text: str) -> str:
    """Why a text is not used; nothing where it is."""
    if len(text) < SMALL:
        return "files of a few characters"
    if GENERATED.search(text[:HEAD]):
        return "files that say that they were generated"
    shown = text[:LOOKED_AT]
    if max(map(len, text.split("\n"))) > LONGEST_LINE or sum(map(str.isalpha, shown)) < LETTERS * len(shown):
        return "files of data in the guise of code"
    return ""


class Lines:
    """Lines that were seen, to tell copies by."""

    def __init__(self, copied: float):
        self.seen: set[int] = set()
        self.copied = copied

    def is_copy(self, text: str) -> bool:
        """Whether most lines of a text are known; those of one that is no copy are from now on."""
        own = {hash(line) for line in map(str.strip, text.split("\n")) if len(line) >= LONG} or {hash(text)}
        if len(own & self.seen) >= self.copied * len(own):
            return True
        self.seen |= own
        return False


def texts(files: Iterable[File], lines: Lines, problems: Problems) -> Iterator[tuple[File, str]]:
    """What is used of some files, cleaned; the rest is counted."""
    for file in files:
        if file.size > HUGE:
            problems.add("files too large to be written by hand", show(file.path))
            continue
        try:
            text = cleaned((file.root / file.path).read_text("utf-8"))
        except (UnicodeDecodeError, OSError):
            problems.add("files that are not UTF-8 or cannot be read", show(file.path))
            continue
        what = flaw(text) or ("copies" if lines.is_copy(text) else "")
        if what:
            problems.add(what, show(file.path))
        else:
            yield file, text


def gather(out: str | Path, roots: Iterable[str | Path] = (), config: CorpusConfig | None = None) -> dict[str, Any]:
    """Write a corpus into a folder, of what is installed where no folders are given; its description."""
    config, folder, problems = config or CorpusConfig(), Path(out), Problems()
    config.check()
    for root in roots:
        if not os.path.isdir(root):
            raise DataError(f"{show(root)}: is no folder of Python files")
    files = find([Path(root) for root in roots] or installed())
    held, lines = held_packages(files, config), Lines(config.copied)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "train": write(folder / "train.jsonl", texts((f for f in files if f.package not in held), lines, problems)),
        "held": write(folder / "held.jsonl", texts((f for f in files if f.package in held), lines, problems)),
    }
    for name, part in parts.items():
        if not part["files"]:
            raise DataError(
                f"{show(folder)}: no file is left in the {name} part of {len(files):,} Python files; give more folders with --from"
            )
    description = {
        "sha256": hashlib.sha256("".join(part["sha256"] for part in parts.values()).encode()).hexdigest(),
        **parts,
        "found": {"files": len(files), "bytes": sum(file.size for file in files)},
        "left_out": problems.counts,
        "held_packages": sorted(held),
        "settings": {"held_out": config.held_out, "largest": config.largest, "copied": config.copied, "seed": config.seed},
    }
    put(folder / "corpus.json", encode(description))
    return description


def write(path: Path, found: Iterator[tuple[File, str]]) -> dict[str, Any]:
    """Write documents as JSONL; how many and how large they are."""
    number, size, packages = 0, 0, set()
    with open(path, "w", encoding="utf-8") as out:
        for file, text in found:
            out.write(json.dumps({"text": text, "path": file.path}, ensure_ascii=False) + "\n")
            number, size = number + 1, size + len(text.encode())
            packages.add(file.package)
    return {"files": number, "bytes": size, "packages": len(packages), "sha256": sha256_of(path)}
