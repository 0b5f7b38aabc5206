"""A file of rows answered into a file of results, whatever its size, so that a call that was interrupted continues.

Results grow in OUT.part, and OUT.state says how many rows are in it and where they end: a window is written and synced, then the state
is replaced. What stands behind the state's end is cut off when the same call continues, so no row is torn or doubled; OUT itself appears
whole, by one rename.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from weft.core.errors import ConfigError
from weft.core.untrusted import checked, natural, parsing, read_json
from weft.data.base import Problems
from weft.data.images.folder import SUFFIXES
from weft.data.io.files import show, walk
from weft.data.io.records import Header, Separator
from weft.data.io.row_stream import RowStream, open_rows
from weft.inference.predict.base import BadRow, Predictor, Result, Row
from weft.inference.predict.run import predictions, thread_a_batch

FORMATS = ("csv", "tsv", "jsonl", "ndjson")


@dataclass
class Source:
    """Where rows come from."""

    names: list[str]
    rows: Iterator[Row | BadRow]
    digest: str
    """Of its content, so that a continued call is known to read the same."""
    share: Callable[[], float]
    """How much of it has been read, from 0 to 1."""
    header: bool = True
    close: Callable[[], None] = lambda: None


@dataclass
class Progress:
    """How far a call is."""

    rows: int = 0
    bad: int = 0
    begun: int = 0
    """Rows that were there when it began."""
    share: float = 0.0
    problems: Problems = field(default_factory=Problems)


def open_source(path: Path, predictor: Predictor, header: Header = "detect", separator: Separator = "detect") -> Source:
    """The rows of a file; of a folder its images, or its sounds."""
    if path.is_dir() or path.suffix.lower() in (predictor.files or SUFFIXES):
        files = walk(path, predictor.files or SUFFIXES, Problems()) if path.is_dir() else [path]
        digest = hashlib.sha256("\n".join(map(str, files)).encode("utf-8", "surrogateescape")).hexdigest()
        given = [0]
        return Source(["file"], numbered(files, given), digest, lambda: given[0] / max(1, len(files)))
    stream = open_rows(path, predictor.known_names(), header, separator)
    return Source(
        stream.names, of_stream(stream), digest_of(path), lambda: stream.position / max(1, stream.size), stream.header, stream.close
    )


def numbered(files: Sequence[Path], given: list[int]) -> Iterator[Row]:
    for file in files:
        given[0] += 1
        yield Row({"file": str(file)}, show(file))


def of_stream(stream: RowStream) -> Iterator[Row | BadRow]:
    for record in stream.rows:
        yield Row(record.cells, record.location) if not record.error else BadRecord(record.cells, record.location, record.error)


class BadRecord(BadRow):
    """A row that could not even be read, with what is known of it."""

    def __init__(self, cells: dict[str, Any], location: str, why: str):
        super().__init__(why)
        self.cells, self.location = cells, location


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def format_of(target: Path) -> tuple[str, bool]:
    """The format that a file's name asks for, and whether it is gzipped."""
    suffixes = target.name.lower().split(".")
    zipped = suffixes[-1] == "gz"
    found = suffixes[-2 if zipped else -1] if len(suffixes) > 1 + zipped else ""
    if found not in FORMATS:
        raise ConfigError(f"--out {show(target)}: its name must end in one of .{', .'.join(FORMATS)}, or one of these and .gz")
    return found, zipped


class Writer:
    """Rows with their results as lines of one of the formats."""

    def __init__(self, target: Path, names: Sequence[str], predictor: Predictor):
        self.format, self.gzip = format_of(target)
        self.names, self.results = list(names), predictor.columns
        self.paths = [(column, *column.partition(".")[::2]) for column in self.results]
        own = {*self.results, "error"}
        self.header = [f"input.{name}" if name in own else name for name in self.names] + [*self.results, "error"]

    def opening(self) -> bytes:
        """What stands before the first row."""
        return b"" if self.format in ("jsonl", "ndjson") else self.packed(self.table([self.header]))

    def lines(self, answered: Sequence[tuple[Row | BadRow, Result | BadRow]]) -> bytes:
        """The lines of some rows."""
        results = [{"error": str(result)} if isinstance(result, BadRow) else result for _, result in answered]
        given: list[dict[str, Any]] = [getattr(row, "cells", {}) for row, _ in answered]
        if self.format in ("jsonl", "ndjson"):
            objects = (beside(cells, to_seven_digits(result)) for cells, result in zip(given, results, strict=True))
            return self.packed("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects))
        return self.packed(self.table([self.cells(cells, result) for cells, result in zip(given, results, strict=True)]))

    def cells(self, given: dict[str, Any], result: Result) -> list[Any]:
        """The cells of a row of a table."""
        columns = [flat(looked_up(result, *path)) for path in self.paths]
        return [*[flat(given.get(name, ""), rounded=False) for name in self.names], *columns, result.get("error", "")]

    def table(self, rows: Sequence[Sequence[Any]]) -> str:
        if self.format == "tsv":
            return "".join("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in rows)
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue()

    def packed(self, text: str) -> bytes:
        data = text.encode("utf-8", "replace")
        return gzip.compress(data, mtime=0) if self.gzip else data


def beside(given: dict[str, Any], result: Result) -> dict[str, Any]:
    """A result behind the columns of its row, of which those with a name of its own are called input.NAME."""
    clash = {name for name in given if name in result or name == "error"}
    return {**{f"input.{name}" if name in clash else name: value for name, value in given.items()}, **result}


def to_seven_digits(value: Any) -> Any:
    """A value with its floats to seven digits, which is what float32 has."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: to_seven_digits(item) for name, item in value.items()}
    return [to_seven_digits(item) for item in value] if isinstance(value, list) else value


def looked_up(result: Result, column: str, outer: str, inner: str) -> Any:
    """The value of a column; "probabilities.yes" is a value inside another."""
    if column in result:
        return result[column]
    value = result.get(outer)
    if isinstance(value, dict):
        return value.get(inner, "")
    return value[int(inner)] if isinstance(value, list) and inner.isdecimal() else ""


def flat(value: Any, rounded: bool = True) -> Any:
    """A value as one cell: words of a list are separated by spaces. rounded: whether it is a result, with floats to seven digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float(f"{value:.7g}") if rounded else value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    if isinstance(value, dict | list):
        return json.dumps(to_seven_digits(value) if rounded else value, ensure_ascii=False)
    return "" if value is None else value


def predict_file(
    predictor: Predictor,
    source: Source,
    columns: Sequence[str],
    target: Path,
    about: dict[str, Any],
    progress: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Write the result of each row of a source. about: what the results depend on, such as a fingerprint of the model."""
    writer = Writer(target, source.names, predictor)
    part, state = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.state")
    about = {**about, "input": source.digest, "columns": list(columns), "header": writer.header, "window": predictor.window}
    done = continued(part, state, about)
    found = Progress(done["rows"], done["bad"], done["rows"])
    with part.open("r+b" if part.exists() else "w+b") as file, thread_a_batch(predictor) as run:
        file.truncate(done["bytes"])
        file.seek(done["bytes"])
        if not done["bytes"]:
            file.write(writer.opening())
        rest = islice(source.rows, done["rows"], None)
        for answered in predictions(predictor, rest, columns, found.problems, run):
            file.write(writer.lines(answered))
            file.flush()
            os.fsync(file.fileno())
            note_bad(answered, found.problems)
            found.rows += len(answered)
            found.bad += sum(isinstance(result, BadRow) for _, result in answered)
            found.share = source.share()
            save(state, {"about": about, "rows": found.rows, "bad": found.bad, "bytes": file.tell()})
            progress(found)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, target)
    state.unlink(missing_ok=True)
    return found


def continued(part: Path, state: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The rows that an interrupted call has written, and where they end."""
    nothing = {"rows": 0, "bad": 0, "bytes": 0}
    if not part.exists() or not state.exists():
        return nothing
    with parsing(show(state), ConfigError, f": is damaged; delete it and {show(part.name)} to begin anew"):
        old = checked(read_json(state), {"about": object, **dict.fromkeys(nothing, natural)})
    counts = {name: old[name] for name in nothing}
    if old["about"] != json.loads(json.dumps(about)) or part.stat().st_size < counts["bytes"]:
        raise ConfigError(f"{show(part)}: was begun with another model, input or settings; delete it, or use another --out")
    return counts


def save(state: Path, content: dict[str, Any]) -> None:
    whole = state.with_name(f".tmp-{state.name}-{os.getpid()}")
    with whole.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(whole, state)


def note_bad(answered: Sequence[tuple[Any, Any]], problems: Problems) -> None:
    for row, result in answered:
        if isinstance(result, BadRow):
            problems.add("rows without a result, with the reason in the column error", f"{getattr(row, 'location', '')} ({result})")
