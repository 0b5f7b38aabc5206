"""The list of input files with their sha256, computed in a thread while others are read."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from weft.core.untrusted import checked, open_regular, parse_json, parsing
from weft.data.io.files import show
from weft.data.shards.input_chunks import InputFile
from weft.data.shards.shard_files import SOURCE


class SourceList:
    """An append-only list of the input files, of which the first `size` bytes on disk are valid."""

    def __init__(self, path: Path, size: int):
        self.file = open(path, "a+b")  # noqa: SIM115
        self.file.truncate(size)
        self.thread = ThreadPoolExecutor(1)
        self.sums: dict[int, Future[str]] = {}
        self.stopped = False

    def begin(self, number: int, source: InputFile) -> None:
        """Start to compute the sha256 of an input file."""
        self.sums[number] = self.thread.submit(self.sha256, source.path)

    def add(self, number: int, source: InputFile, counts: dict[str, int]) -> None:
        """Append an input file that was read completely, with its counts."""
        row = {"path": show(source.path), "size": source.size, "sha256": self.sums.pop(number).result(), **counts}
        self.file.write(json.dumps(row).encode() + b"\n")

    def size(self) -> int:
        """Flush to disk and return the size in bytes."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def rows(self) -> list[dict[str, Any]]:
        self.file.seek(0)
        with parsing(show(self.file.name)):
            return [checked(parse_json(line), SOURCE) for line in self.file]

    def close(self) -> None:
        self.stopped = True
        self.thread.shutdown(cancel_futures=True)
        self.file.close()

    def sha256(self, path: str) -> str:
        """The sha256 of a file; empty where it cannot be read."""
        digest = hashlib.sha256()
        try:
            with open_regular(path) as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    if self.stopped:
                        return ""
        except OSError:
            return ""
        return digest.hexdigest()
