"""Token shards from files of text: `weft data build`.

Worker processes encode chunks of the input into part files; this process appends these in order to shards and commits its progress,
so a build that was interrupted resumes to the same bytes, which depend on input and settings alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weft.core import config
from weft.core.errors import ConfigError, DataError
from weft.core.posix import lock_folder
from weft.core.untrusted import parsing
from weft.data.io.files import show
from weft.data.problems import Problems
from weft.data.shards.build_state import BuildConfig as BuildConfig
from weft.data.shards.build_state import State, read_state
from weft.data.shards.encoder import EncodedPart, Encoder, Task, document_end, part_files
from weft.data.shards.input_chunks import InputChunk, find_inputs, input_chunks
from weft.data.shards.shard_files import FORMAT, INDEX_ROW, Shards, read_rows, to_json_bytes, token_dtype, write_atomically
from weft.data.shards.source_list import SourceList
from weft.data.shards.workers import map_in_order
from weft.data.shards.writer import SeenHashes, ShardWriter
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer

ROWS, TOKENS = 1 << 16, 1 << 24
"""Documents, and approximate tokens, that are appended at once."""
SECONDS = 2.0
"""Seconds between commits of the progress."""
Progress = Callable[[int, int], None]
"""Called with the bytes of input done and in total; first before any work."""


def build(
    inputs: list[str], out: str | Path, tokenizer: Tokenizer, settings: BuildConfig, workers: int = 0, progress: Progress | None = None
) -> Shards:
    """Build the shards of all documents of the inputs in a folder, resuming an interrupted build."""
    for name, least in (("shard-tokens", settings.shard_tokens), ("workers", workers + 1)):
        if least < 1:
            raise ConfigError(f"--{name} must be at least {1 if name != 'workers' else 0}, not {least - (name == 'workers')}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = lock_folder(folder)
    except BlockingIOError as error:
        raise DataError(f"{show(folder)}: another process is building here; let it end, or use another folder with --out") from error
    try:
        return ShardBuilder(folder, inputs, tokenizer, settings).run(workers, progress or (lambda done, total: None))
    finally:
        os.close(lock)


class ShardBuilder:
    def __init__(self, folder: Path, inputs: list[str], tokenizer: Tokenizer, settings: BuildConfig):
        self.folder, self.tokenizer, self.settings = folder, tokenizer, settings
        self.tokenizer_bytes = tokenizers.dump(tokenizer)
        self.sha256 = hashlib.sha256(self.tokenizer_bytes).hexdigest()
        self.problems = Problems()
        self.sources = find_inputs(inputs, settings, self.problems, folder)
        self.dtype, self.seen_hashes = token_dtype(tokenizer.size), SeenHashes()
        self.merged: list[EncodedPart] = []
        self.committed = time.monotonic()

    def run(self, workers: int, progress: Progress) -> Shards:
        if (self.folder / "manifest.json").is_file():
            return self.finished()
        with parsing(show(self.folder), fault=": what was built of it is damaged; remove the folder and build it anew"):
            self.resume()
        total = sum(source.size for source in self.sources)
        done = sum(source.size for source in self.sources[: self.state.source]) + self.state.start
        arguments = self.folder, self.tokenizer_bytes, self.settings
        progress(done, total)
        with contextlib.closing(self.listing), contextlib.closing(self.writer):
            with contextlib.closing(map_in_order(self.tasks(), Encoder, arguments, workers)) as results:
                for task, reports in results:
                    with parsing(show(self.folder), fault=": a part of it is damaged; remove the folder and build it anew"):
                        self.merge(task, reports)
                    done += sum(chunk.size for chunk in task.chunks)
                    progress(min(done, total), total)
            return self.finish()

    def resume(self) -> None:
        """Resume an interrupted build, or begin."""
        digest = hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()
        if (self.folder / "progress.json").is_file():
            self.state = read_state(self.folder)
            if self.state.made_of != digest:
                raise ConfigError(
                    f"{show(self.folder)} holds the beginning of shards of other input or settings; give the command that began "
                    "them, remove the folder, or use another with --out"
                )
            self.problems = Problems(**self.state.problems)
        else:
            if any(path.name != "problems.json" and not path.name.startswith(".") for path in self.folder.iterdir()):
                raise ConfigError(f"{show(self.folder)}: is not empty and holds no shards; use another folder with --out")
            self.state = State(digest, problems=dataclasses.asdict(self.problems))
            write_atomically(self.folder / "progress.json", to_json_bytes(dataclasses.asdict(self.state)))
        write_atomically(self.folder / "tokenizer.json", self.tokenizer_bytes)
        (self.folder / "parts").mkdir(exist_ok=True)
        for path in (self.folder / "parts").iterdir():
            if not path.stem.isdecimal() or int(path.stem) < self.state.part:
                path.unlink(missing_ok=True)
        self.writer = ShardWriter(self.folder, self.dtype, self.settings.shard_tokens, self.state.writer)
        self.listing = SourceList(self.folder / "sources.jsonl", self.state.listed)
        for shard in range(len(self.writer.shards) + 1) if self.settings.dedupe else ():
            self.seen_hashes.add(read_rows(self.folder / f"shard-{shard:05d}.idx")["hash"])

    def description(self) -> dict[str, Any]:
        """All that the shards depend on, and the modification times of the files, to detect changes."""
        sources = [(*source[: 3 + (source.encoding != "utf-8")], os.stat(source.path).st_mtime_ns) for source in self.sources]
        return {"format": FORMAT, "tokenizer": self.sha256, "settings": self.plain_settings(), "sources": sources}

    def plain_settings(self) -> dict[str, Any]:
        plain = config.to_dict(self.settings)
        names = [field.name for field in dataclasses.fields(BuildConfig)]
        return {name: plain[name] for name in names if name != "encoding" or plain[name]}  # builds from before it was there go on

    def finished(self) -> Shards:
        """The finished shards, refused unless they are of the same input and settings."""
        self.clean()
        shards = Shards(self.folder)
        built = (self.folder / "manifest.json").stat().st_mtime_ns
        before = [(source["path"], source["size"]) for source in shards.manifest["sources"]]
        same = before == [(show(source.path), source.size) for source in self.sources]
        old = shards.manifest["tokenizer"]["sha256"], shards.manifest["settings"]
        if not same or old != (self.sha256, self.plain_settings()) or any(os.stat(s.path).st_mtime_ns > built for s in self.sources):
            raise ConfigError(f"{show(self.folder)} holds shards of other input or settings; remove the folder, or use another with --out")
        return shards

    def tasks(self) -> Iterator[Task]:
        """The tasks left to do: chunks in order, small ones grouped."""
        number, size = self.state.part, 0
        group: list[InputChunk] = []
        start = self.state.start
        for index in range(self.state.source, len(self.sources)):
            self.listing.begin(index, self.sources[index])
            for chunk in input_chunks(index, self.sources[index], self.settings, start):
                group.append(chunk)
                size += chunk.size
                if size >= self.settings.piece_bytes:
                    yield Task(number, tuple(group))
                    number, size, group = number + 1, 0, []
            start = 0
        if group:
            yield Task(number, tuple(group))

    def merge(self, task: Task, reports: list[dict[str, Any]]) -> None:
        """Append the documents of a part to the shards."""
        part, first, start = part_files(self.folder, task.number), 0, 0
        for chunk, report in zip(task.chunks, reports, strict=True):
            start = self.append(part, first, first + report["documents"], start)
            first += report["documents"]
            for reason, (number, locations) in report["flaws"].items():
                self.add_problems(chunk, reason, number, locations)
            self.state.line += report["lines"]
            if chunk.last:
                self.list_source(chunk)
            else:
                self.state.start = chunk.start + 1 if chunk.kind == "parquet" else chunk.stop or 0
        self.state.part = task.number + 1
        self.merged.append(part)
        if time.monotonic() - self.committed >= SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit the progress, after which the parts merged so far are deleted."""
        self.state.problems = dataclasses.asdict(self.problems)
        self.state.writer = self.writer.state()
        self.state.listed = self.listing.size()
        write_atomically(self.folder / "progress.json", to_json_bytes(dataclasses.asdict(self.state)))
        for part in self.merged:
            part.delete()
        self.merged, self.committed = [], time.monotonic()

    def append(self, part: EncodedPart, first: int, last: int, start: int) -> int:
        """Append documents first … last - 1 of a part, whose tokens start at `start`; the start of the tokens after them."""
        while first < last:
            rows = np.fromfile(part.rows, dtype=INDEX_ROW, count=min(ROWS, last - first), offset=first * INDEX_ROW.itemsize)
            rows = rows[: int(np.searchsorted(rows["end"], start + TOKENS)) + 1]
            first, end = first + len(rows), int(rows["end"][-1])
            tokens = np.fromfile(part.tokens, dtype=self.dtype, count=end - start, offset=start * self.dtype.itemsize)
            rows["end"] -= np.uint64(start)
            start = end
            if self.settings.dedupe:
                before = len(rows)
                tokens, rows = self.seen_hashes.without_duplicates(tokens, rows)
                self.state.duplicates += before - len(rows)
            self.writer.add(tokens, rows)
            self.state.documents += len(rows)
            self.state.tokens += len(tokens)
            self.state.bytes += int(rows["bytes"].sum())
        return start

    def add_problems(self, chunk: InputChunk, reason: str, number: int, locations: list[tuple[int, str]]) -> None:
        """Add the problems of a chunk, with their line in the file."""
        for line, detail in locations:
            location = f"{show(chunk.path)}:{line + self.state.line}"
            self.problems.add(reason, f"{location} ({detail})" if detail else location)
        if number > len(locations):
            self.problems.counts[reason] += number - len(locations)

    def list_source(self, chunk: InputChunk) -> None:
        state = self.state
        self.listing.add(chunk.source, self.sources[chunk.source], {"documents": state.documents, "tokens": state.tokens})
        state.source, state.start, state.line, state.documents, state.tokens = chunk.source + 1, 0, 0, 0, 0

    def finish(self) -> Shards:
        """Write problems.json and, last of all, the manifest."""
        shards = self.writer.finish()
        write_atomically(self.folder / "problems.json", to_json_bytes(dataclasses.asdict(self.problems)))
        documents = sum(shard["documents"] for shard in shards)
        if not documents:
            self.clean("shard-*", "tokenizer.json")
            raise DataError(f"{show(self.folder)}: no document could be used; its problems.json says why")
        counts = {
            "documents": documents,
            "tokens": sum(shard["tokens"] for shard in shards),
            "bytes": self.state.bytes,
            "duplicates": self.state.duplicates,
            "problems": sum(self.problems.counts.values()),
        }
        manifest = {
            "format": FORMAT,
            "tokenizer": {"type": self.tokenizer.name, "size": self.tokenizer.size, "sha256": self.sha256},
            "dtype": self.dtype.str,
            "end": document_end(self.tokenizer),
            "counts": counts,
            "settings": self.plain_settings(),
            "shards": shards,
            "sources": self.listing.rows(),
        }
        write_atomically(self.folder / "manifest.json", to_json_bytes(manifest))
        self.clean()
        return Shards(self.folder)

    def clean(self, *others: str) -> None:
        """Remove the files of an unfinished build."""
        shutil.rmtree(self.folder / "parts", ignore_errors=True)
        for pattern in ("progress.json", "sources.jsonl", ".*.json-*", *others):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
