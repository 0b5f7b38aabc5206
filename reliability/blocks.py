"""The commands that stand in documents, as somebody would type them. It needs nothing but Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("weft", "./weft", "make", "source", "python", "pip", "uv", "torchrun")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
SKIPPED = ("add-a-family.md",)
"""Documents of which another test follows every line (tests/test_guide.py)."""


@dataclass(frozen=True)
class Command:
    place: str
    """Document and line."""
    line: str
    """As it stands there, without the comment behind it."""

    @property
    def words(self) -> list[str]:
        """From `weft` on; empty for what is no command of weft's."""
        words = [word for word in shlex.split(self.line) if not ASSIGNMENT.fullmatch(word)]
        if words[:1] in (["weft"], ["./weft"]):
            return ["weft", *words[1:]]
        return ["weft", *words[words.index("weft") + 1 :]] if "-m" in words and "weft" in words else []


def blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line, language and lines of every block between fences."""
    begun, language, kept = 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            if begun:
                yield begun, language, kept
            begun, language, kept = (0 if begun else number), line[3:].strip(), []
        elif begun:
            kept.append(line)


def commands(path: Path) -> list[Command]:
    """The commands in a document's blocks, those joined by && apart; what has an ellipsis stands for several."""
    found = []
    for begun, language, lines in blocks(path.read_text(encoding="utf-8")):
        if language not in ("", "bash", "sh", "console"):
            continue
        text = "\n".join(lines).replace("\\\n", " ")
        for number, line in enumerate(text.split("\n"), start=begun + 1):
            bare = without_comment(line.strip().removeprefix("$ "))
            first = next((word for word in bare.split() if not ASSIGNMENT.fullmatch(word)), "")
            if first not in PROGRAMS or "…" in bare:
                continue
            found += [Command(f"{path.name}:{number}", part.strip()) for part in bare.split("&&")]
    return found


def without_comment(line: str) -> str:
    """A line without what a shell takes for a comment, or the & behind it; empty where its quotes do not close."""
    for end in [*(found.start() for found in re.finditer(r"\s+#", line)), len(line)]:
        try:
            shlex.split(line[:end])
        except ValueError:  # a # between quotes
            continue
        return line[:end].removesuffix("&").strip()
    return ""


def documents() -> list[Path]:
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in SKIPPED)]
