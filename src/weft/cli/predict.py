"""`weft predict RUN FILE --out FILE`: what a model tells of every row of a file."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from weft.cli import console
from weft.cli.options import flags
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.core.units import duration
from weft.report.live import make_display

if TYPE_CHECKING:  # what needs a model is imported when there is one, so that --help is quick
    from weft.inference.predict.base import Predictor
    from weft.inference.predict.to_file import Progress, Source
    from weft.runs.load import Loaded

ABOUT = """Tells of every row of FILE what the model of RUN was trained to tell: a class with probabilities, a number, tags, the answer in a
paragraph, the likelier choice; of a language model how likely a text is; of any model of text its vector (--what embedding). FILE is
CSV, TSV, JSONL (also .gz), a text with a line each, or a folder of images; --out has a row for each, in order. The same command again
continues where it stopped."""
QUIET = 10.0
"""Seconds between two lines where there is no terminal."""
SHARES = 1000
"""Steps of the bar."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    out: str = ""
    """File to write: .csv, .tsv or .jsonl, or one of these and .gz. It appears when it is whole; until then what is done is in OUT.part."""
    what: Literal["auto", "embedding", "log-likelihood"] = "auto"
    """What to tell: auto is what the model was trained for; embedding the vector of a text, log-likelihood how likely a text is."""
    columns: tuple[str, ...] = ()
    """Columns of FILE to read, by name or by number from 1, such as a text and the text beside it; by default known by their names."""
    header: Literal["detect", "yes", "no"] = "detect"
    """Whether the first line of FILE names the columns."""
    separator: Literal["detect", "tab", "comma", "semicolon"] = "detect"
    """The delimiter between cells of FILE."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


def main(words: list[str]) -> int:
    console.show_warnings()
    options, (name, file) = flags.parse(Options(), words, "weft predict", "RUN FILE", ABOUT)
    if not options.out:
        raise ConfigError(f"--out names the file to write to, for example: weft predict {name} {file} --out predictions.csv")
    from weft.data.io.files import locate
    from weft.inference.predict import find, to_file
    from weft.runs.load import load
    from weft.training.checkpoint import files

    path, target = locate(file, "FILE"), Path(options.out)
    if target.absolute() == path.absolute():
        raise ConfigError(f"--out {target}: is the file that is read; name another")
    files.check_file(target)
    to_file.format_of(target)
    loaded = load(name, options.device)
    predictor = find.find(loaded, options.what)
    with contextlib.closing(to_file.open_source(path, predictor, options.header, options.separator)) as source:
        return predicted(loaded, predictor, source, options, target)


def predicted(loaded: Loaded, predictor: Predictor, source: Source, options: Options, target: Path) -> int:
    """Tell of every row of a source, and say how it went."""
    from weft.inference.predict import to_file
    from weft.inference.translate_file import fingerprint
    from weft.training.checkpoint import files

    columns = predictor.choose(source.names, options.columns)
    seen = "" if source.header else "; the first line is data"
    print(f"{loaded.recipe.name}: {predictor.kind} of each row, from {', '.join(map(repr, columns))}{seen}", file=sys.stderr)
    files.make_folder(target.parent)
    about = {"recipe": loaded.recipe.name, "weights": fingerprint(loaded.model), "what": options.what}
    begin = time.perf_counter()
    with files.writing(target.parent), Meter() as meter:
        done = to_file.predict_file(predictor, source, columns, target, about, meter)
    for line in done.problems.lines():
        print(f"data: {line}", file=sys.stderr)
    rate = (done.rows - done.begun) / max(1e-9, time.perf_counter() - begin)
    bad = f", {done.bad:,} of them without a result (column error)" if done.bad else ""
    print(f"{done.rows:,} rows{bad}, {rate:,.0f} rows/s, written to {target}")
    if done.rows and done.bad == done.rows:
        raise DataError(f"no row has a result; the column error of {target} says why")
    return 0


class Meter:
    """Rows, rows a second and the time left: a line drawn in place on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self.state = (0, SHARES, "")
        self.display = make_display(lambda: self.state, live=sys.stderr.isatty() and sys.stdout.isatty())
        self.begin = self.shown = time.perf_counter()
        self.first: float | None = None

    def __enter__(self) -> Meter:
        if self.display:
            self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.display:
            self.display.stop()

    def __call__(self, done: Progress) -> None:
        now = time.perf_counter()
        if self.first is None:
            self.first, self.begin, self.rows = done.share, now, done.rows
            return
        rate = (done.rows - self.rows) / (now - self.begin)
        pace = (done.share - self.first) / (now - self.begin)
        left = f", {duration((1 - done.share) / pace)} left" if pace > 0 else ""
        text = f"{done.rows:,} rows, {rate:,.0f} rows/s{left}"
        self.state = (round(done.share * SHARES), SHARES, text)
        if self.display is None and now - self.shown > QUIET:
            self.shown = now
            print(text, file=sys.stderr, flush=True)
