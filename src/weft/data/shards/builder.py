"""Token shards from files of text: `weft data build`.

Workers turn pieces of the input into parts; this process appends these in order to shards and writes down after each how far it is,
so the work may end at any moment and goes on to the same bytes, which depend on input and settings alone.
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
from weft.data.io.files import show
from weft.data.problems import Problems
from weft.data.shards.build_state import BuildConfig as BuildConfig
from weft.data.shards.build_state import State
from weft.data.shards.files import FORMAT, ROW, Shards, encode, kind_of, put, read_json
from weft.data.shards.inputs import Piece, find_sources, pieces
from weft.data.shards.parts import Encoder, Part, Task, end_of, part_of
from weft.data.shards.source_list import SourceList
from weft.data.shards.workers import in_order
from weft.data.shards.writer import Seen, ShardWriter
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer

ROWS, TOKENS = 1 << 16, 1 << 24
"""Documents, and about so many tokens, that are appended at once."""
SECONDS = 2.0
"""How often is written down how far it is."""
Progress = Callable[[int, int], None]
"""Told the bytes of input that are done, and all; first before any work."""


def build(
    inputs: list[str], out: str | Path, tokenizer: Tokenizer, settings: BuildConfig, workers: int = 0, progress: Progress | None = None
) -> Shards:
    """Shards of all documents of some files, in a folder; what an earlier call has done is not done again."""
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
        return Building(folder, inputs, tokenizer, settings).run(workers, progress or (lambda done, total: None))
    finally:
        os.close(lock)


class Building:
    def __init__(self, folder: Path, inputs: list[str], tokenizer: Tokenizer, settings: BuildConfig):
        self.folder, self.tokenizer, self.settings = folder, tokenizer, settings
        self.packed = tokenizers.dump(tokenizer)
        self.sha256 = hashlib.sha256(self.packed).hexdigest()
        self.problems = Problems()
        self.sources = find_sources(inputs, settings, self.problems, folder)
        self.kind, self.seen = kind_of(tokenizer.size), Seen()
        self.merged: list[Part] = []
        self.committed = time.monotonic()

    def run(self, workers: int, progress: Progress) -> Shards:
        if (self.folder / "manifest.json").is_file():
            return self.finished()
        self.resume()
        total = sum(source.size for source in self.sources)
        done = sum(source.size for source in self.sources[: self.state.source]) + self.state.start
        encoder = self.folder, self.packed, self.settings
        progress(done, total)
        with contextlib.closing(self.listing), contextlib.closing(self.writer):
            with contextlib.closing(in_order(self.tasks(), Encoder, encoder, workers)) as results:
                for task, reports in results:
                    self.merge(task, reports)
                    done += sum(piece.size for piece in task.pieces)
                    progress(min(done, total), total)
            return self.finish()

    # -- where to begin -------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Take up what an earlier run has left, or begin."""
        made_of = hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()
        if (self.folder / "progress.json").is_file():
            self.state = State(**read_json(self.folder / "progress.json"))
            if self.state.made_of != made_of:
                raise ConfigError(
                    f"{show(self.folder)} holds the beginning of shards of other input or settings; give the command that began "
                    "them, remove the folder, or use another with --out"
                )
            self.problems = Problems(**self.state.problems)
        else:
            if any(path.name != "problems.json" and not path.name.startswith(".") for path in self.folder.iterdir()):
                raise ConfigError(f"{show(self.folder)}: is not empty and holds no shards; use another folder with --out")
            self.state = State(made_of, problems=dataclasses.asdict(self.problems))
            put(self.folder / "progress.json", encode(dataclasses.asdict(self.state)))
        put(self.folder / "tokenizer.json", self.packed)
        (self.folder / "parts").mkdir(exist_ok=True)
        for path in (self.folder / "parts").iterdir():
            if path.name.startswith(".") or int(path.stem) < self.state.part:
                path.unlink(missing_ok=True)
        self.writer = ShardWriter(self.folder, self.kind, self.settings.shard_tokens, self.state.writer)
        self.listing = SourceList(self.folder / "sources.jsonl", self.state.listed)
        for shard in range(len(self.writer.shards) + 1) if self.settings.dedupe else ():
            self.seen.fresh(np.fromfile(self.folder / f"shard-{shard:05d}.idx", dtype=ROW)["hash"])

    def description(self) -> dict[str, Any]:
        """All that the shards depend on, and the dates of the files, which tell that they have changed."""
        dated = [(*source, os.stat(source.path).st_mtime_ns) for source in self.sources]
        return {"format": FORMAT, "tokenizer": self.sha256, "settings": self.plain_settings(), "sources": dated}

    def plain_settings(self) -> dict[str, Any]:
        plain = config.to_dict(self.settings)
        return {field.name: plain[field.name] for field in dataclasses.fields(BuildConfig)}

    def finished(self) -> Shards:
        """The shards that are there, if they are what would be built."""
        self.clean()
        shards = Shards(self.folder)
        built = (self.folder / "manifest.json").stat().st_mtime_ns
        before = [(source["path"], source["size"]) for source in shards.manifest["sources"]]
        same = before == [(show(source.path), source.size) for source in self.sources]
        old = shards.manifest["tokenizer"]["sha256"], shards.manifest["settings"]
        if not same or old != (self.sha256, self.plain_settings()) or any(os.stat(s.path).st_mtime_ns > built for s in self.sources):
            raise ConfigError(f"{show(self.folder)} holds shards of other input or settings; remove the folder, or use another with --out")
        return shards

    # -- work -----------------------------------------------------------------------------------------------------------

    def tasks(self) -> Iterator[Task]:
        """What is left to do: pieces in order, small ones together."""
        number, size = self.state.part, 0
        group: list[Piece] = []
        start = self.state.start
        for place in range(self.state.source, len(self.sources)):
            self.listing.begin(place, self.sources[place])
            for piece in pieces(place, self.sources[place], self.settings, start):
                group.append(piece)
                size += piece.size
                if size >= self.settings.piece_bytes:
                    yield Task(number, tuple(group))
                    number, size, group = number + 1, 0, []
            start = 0
        if group:
            yield Task(number, tuple(group))

    def merge(self, task: Task, reports: list[dict[str, Any]]) -> None:
        """Append the documents of a part."""
        part, first, begin = part_of(self.folder, task.number), 0, 0
        for piece, report in zip(task.pieces, reports, strict=True):
            begin = self.append(part, first, first + report["documents"], begin)
            first += report["documents"]
            for what, (number, named) in report["flaws"].items():
                self.tell(piece, what, number, named)
            self.state.line += report["lines"]
            if piece.last:
                self.list_source(piece)
            else:
                self.state.start = piece.start + 1 if piece.kind == "parquet" else piece.stop or 0
        self.state.part = task.number + 1
        self.merged.append(part)
        if time.monotonic() - self.committed >= SECONDS:
            self.commit()

    def commit(self) -> None:
        """Write down how far it is; from then on nothing before is needed."""
        self.state.problems = dataclasses.asdict(self.problems)
        self.state.writer = self.writer.state()
        self.state.listed = self.listing.size()
        put(self.folder / "progress.json", encode(dataclasses.asdict(self.state)))
        for part in self.merged:
            part.delete()
        self.merged, self.committed = [], time.monotonic()

    def append(self, part: Part, first: int, last: int, begin: int) -> int:
        """Append documents first … last - 1 of a part, whose tokens begin at `begin`; where those behind them begin."""
        while first < last:
            rows = np.fromfile(part.rows, dtype=ROW, count=min(ROWS, last - first), offset=first * ROW.itemsize)
            rows = rows[: int(np.searchsorted(rows["end"], begin + TOKENS)) + 1]
            first, end = first + len(rows), int(rows["end"][-1])
            tokens = np.fromfile(part.tokens, dtype=self.kind, count=end - begin, offset=begin * self.kind.itemsize)
            rows["end"] -= np.uint64(begin)
            begin = end
            if self.settings.dedupe:
                before = len(rows)
                tokens, rows = self.seen.without_duplicates(tokens, rows)
                self.state.duplicates += before - len(rows)
            self.writer.add(tokens, rows)
            self.state.documents += len(rows)
            self.state.tokens += len(tokens)
            self.state.bytes += int(rows["bytes"].sum())
        return begin

    def tell(self, piece: Piece, what: str, number: int, named: list[tuple[int, str]]) -> None:
        """Take over flaws of a piece, with their line in the file."""
        for line, detail in named:
            place = f"{show(piece.path)}:{line + self.state.line}"
            self.problems.add(what, f"{place} ({detail})" if detail else place)
        if number > len(named):
            self.problems.counts[what] += number - len(named)

    def list_source(self, piece: Piece) -> None:
        state = self.state
        self.listing.add(piece.source, self.sources[piece.source], {"documents": state.documents, "tokens": state.tokens})
        state.source, state.start, state.line, state.documents, state.tokens = piece.source + 1, 0, 0, 0, 0

    # -- the end --------------------------------------------------------------------------------------------------------

    def finish(self) -> Shards:
        """Write what was wrong and, last of all, the manifest."""
        shards = self.writer.finish()
        put(self.folder / "problems.json", encode(dataclasses.asdict(self.problems)))
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
            "dtype": self.kind.str,
            "end": end_of(self.tokenizer),
            "counts": counts,
            "settings": self.plain_settings(),
            "shards": shards,
            "sources": self.listing.rows(),
        }
        put(self.folder / "manifest.json", encode(manifest))
        self.clean()
        return Shards(self.folder)

    def clean(self, *others: str) -> None:
        """Remove what only an unfinished build needs, or was left by one."""
        shutil.rmtree(self.folder / "parts", ignore_errors=True)
        for pattern in ("progress.json", "sources.jsonl", ".*.json-*", *others):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
