"""The files that shards were made of, each with its sha256, which is computed while others are still read."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from weft.data.io.files import show
from weft.data.shards.inputs import Source


class SourceList:
    """Grows by one source after the other; `size` bytes of its file are what counts of it."""

    def __init__(self, path: Path, size: int):
        self.file = open(path, "a+b")  # noqa: SIM115
        self.file.truncate(size)
        self.thread = ThreadPoolExecutor(1)
        self.sums: dict[int, Future[str]] = {}
        self.stopped = False

    def begin(self, number: int, source: Source) -> None:
        """Start to compute the sha256 of a source."""
        self.sums[number] = self.thread.submit(self.sha256, source.path)

    def add(self, number: int, source: Source, counts: dict[str, int]) -> None:
        """A source that was read to its end, with what came of it."""
        row = {"path": show(source.path), "size": source.size, "sha256": self.sums.pop(number).result(), **counts}
        self.file.write(json.dumps(row).encode() + b"\n")

    def size(self) -> int:
        """Bytes that are on disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def rows(self) -> list[dict[str, Any]]:
        self.file.seek(0)
        return [json.loads(line) for line in self.file]

    def close(self) -> None:
        self.stopped = True
        self.thread.shutdown(cancel_futures=True)
        self.file.close()

    def sha256(self, path: str) -> str:
        """Of a file; nothing where it cannot be read."""
        found = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    found.update(block)
                    if self.stopped:
                        return ""
        except OSError:
            return ""
        return found.hexdigest()
