"""A corpus of the installed Python source: cleaned, deduplicated, with whole packages held out.

train.jsonl, held_out.jsonl   one file per line: "text", and "path" relative to its root folder
corpus.json               sha256 and sizes of both, counts of files left out by reason, and the packages held out

Packages are held out by a hash of their names; one that is a large part of the corpus is always trained on.
Files are left out that are not UTF-8, tiny, huge, generated, or data rather than code, and so are copies: files most of whose lines
occur in earlier files. Held-out packages come last, so no file that is mostly in the training part is ever validated on.
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
from weft.data.shards.shard_files import sha256_of, to_json_bytes, write_atomically

GENERATED = re.compile(r"generated (by|from|file|code)|auto-?generated|do not (edit|modify)", re.IGNORECASE)
SMALL, HUGE = 200, 400_000
"""Bytes of the smallest and of the largest file used."""
HEAD = 2000
"""Characters that are searched for a note that the file was generated."""
LETTER_SAMPLE = 10_000
"""Characters on which the share of letters is measured."""
LONGEST_LINE, LETTERS = 2000, 0.3
"""Longest line, and smallest share of letters, of a file that is code."""
MIN_LINE = 20
"""Characters of the shortest line that counts for detecting copies."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Config):
    held_out: float = 0.1
    """Share of the packages that is held out, by the hash of their names."""
    max_package_share: float = 0.05
    """Share of all bytes above which a package is never held out."""
    max_duplicate_lines: float = 0.7
    """Share of a file's lines (20 characters or more, each counted once) that may occur in earlier files."""
    seed: int = 1
    """Of the hash of names."""

    def check(self) -> None:
        for name in ("held_out", "max_package_share", "max_duplicate_lines"):
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


def installed_folders() -> list[Path]:
    """The standard library and the folders of installed packages."""
    paths = sysconfig.get_paths()
    folders = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return [Path(path) for path in dict.fromkeys(folders) if os.path.isdir(path)]


def find_files(roots: Iterable[Path]) -> list[File]:
    """Every Python file below the roots, sorted; site-packages within the standard library is skipped."""
    files = []
    for root in roots:
        for base, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
            paths = [Path(base, name) for name in sorted(names) if name.endswith(".py")]
            files += [File(root, path.relative_to(root).as_posix(), path.stat().st_size) for path in paths if path.is_file()]
    return files


def held_out_packages(files: list[File], config: CorpusConfig) -> set[str]:
    """The names of the packages to hold out."""
    sizes: dict[str, int] = {}
    for file in files:
        sizes[file.package] = sizes.get(file.package, 0) + file.size
    largest = config.max_package_share * sum(sizes.values())
    return {name for name, size in sizes.items() if size <= largest and hash_fraction(name, config.seed) < config.held_out}


def hash_fraction(name: str, seed: int) -> float:
    """The hash of a name as a fraction in [0, 1)."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") / 2**64


def clean_source(text: str) -> str:
    """The source with Unix line ends, without trailing whitespace and without a licence header."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    top = list(itertools.takewhile(lambda line: not line or line.startswith("#"), lines))
    if any(word in "\n".join(top).lower() for word in ("copyright", "licen")):
        lines = lines[len(top) :]
    return "\n".join(lines).strip("\n") + "\n"


def rejection_reason(text: str) -> str:
    """Why a text is rejected; empty where it is used."""
    if len(text) < SMALL:
        return "files of a few characters"
    if GENERATED.search(text[:HEAD]):
        return "files that say that they were generated"
    beginning = text[:LETTER_SAMPLE]
    if max(map(len, text.split("\n"))) > LONGEST_LINE or sum(map(str.isalpha, beginning)) < LETTERS * len(beginning):
        return "files of data rather than code"
    return ""


class CopyDetector:
    """Detects copies by the lines seen so far."""

    def __init__(self, copied: float):
        self.seen: set[int] = set()
        self.copied = copied

    def is_copy(self, text: str) -> bool:
        """Whether most lines of a text were seen before; the lines of a text that is no copy are added."""
        hashes = {hash(line) for line in map(str.strip, text.split("\n")) if len(line) >= MIN_LINE} or {hash(text)}
        if len(hashes & self.seen) >= self.copied * len(hashes):
            return True
        self.seen |= hashes
        return False


def usable_texts(files: Iterable[File], copies: CopyDetector, problems: Problems) -> Iterator[tuple[File, str]]:
    """The cleaned texts of usable files; the others are counted."""
    for file in files:
        if file.size > HUGE:
            problems.add("files too large to be written by hand", show(file.path))
            continue
        try:
            text = clean_source((file.root / file.path).read_text("utf-8"))
        except (UnicodeDecodeError, OSError):
            problems.add("files that are not UTF-8 or cannot be read", show(file.path))
            continue
        reason = rejection_reason(text) or ("copies" if copies.is_copy(text) else "")
        if reason:
            problems.add(reason, show(file.path))
        else:
            yield file, text


def build_corpus(out: str | Path, roots: Iterable[str | Path] = (), config: CorpusConfig | None = None) -> dict[str, Any]:
    """Write the corpus of the roots, by default of all installed packages, into a folder; returns corpus.json."""
    config, folder, problems = config or CorpusConfig(), Path(out), Problems()
    config.check()
    for root in roots:
        if not os.path.isdir(root):
            raise DataError(f"{show(root)}: is no folder of Python files")
    files = find_files([Path(root) for root in roots] or installed_folders())
    held_out, copies = held_out_packages(files, config), CopyDetector(config.max_duplicate_lines)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "train": write_jsonl(folder / "train.jsonl", usable_texts((f for f in files if f.package not in held_out), copies, problems)),
        "held": write_jsonl(folder / "held_out.jsonl", usable_texts((f for f in files if f.package in held_out), copies, problems)),
    }
    for name, part in parts.items():
        if not part["files"]:
            raise DataError(
                f"{show(folder)}: no file is left in the {name} part of {len(files):,} Python files; give more folders with --folder"
            )
    description = {
        "sha256": hashlib.sha256("".join(part["sha256"] for part in parts.values()).encode()).hexdigest(),
        **parts,
        "found": {"files": len(files), "bytes": sum(file.size for file in files)},
        "left_out": problems.counts,
        "held_packages": sorted(held_out),
        "settings": {
            "held_out": config.held_out,
            "max_package_share": config.max_package_share,
            "max_duplicate_lines": config.max_duplicate_lines,
            "seed": config.seed,
        },
    }
    write_atomically(folder / "corpus.json", to_json_bytes(description))
    return description


def write_jsonl(path: Path, documents: Iterator[tuple[File, str]]) -> dict[str, Any]:
    """Write documents as JSONL; returns their counts and sha256."""
    number, size, packages = 0, 0, set()
    with open(path, "w", encoding="utf-8") as out:
        for file, text in documents:
            out.write(json.dumps({"text": text, "path": file.path}, ensure_ascii=False) + "\n")
            number, size = number + 1, size + len(text.encode())
            packages.add(file.package)
    return {"files": number, "bytes": size, "packages": len(packages), "sha256": sha256_of(path)}
