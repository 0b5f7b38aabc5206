"""`weft report RUN… [--out FILE]`: the page of a run, or one page that compares several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.cli import console
from weft.cli.options import flags
from weft.core.config import Config
from weft.core.errors import WeftError
from weft.report import html, samples
from weft.runs.load import load
from weft.runs.record import read
from weft.training.checkpoint import files

ABOUT = "Writes RUN/report.html with curves, samples and settings; of several runs, one page that compares them."


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    out: str = ""
    """File to write; empty is RUN/report.html, or comparison.html for several runs."""
    samples: bool = True
    """Load the model and show samples of it."""


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft report", "RUN [RUN…]", ABOUT)
    runs = [read(Path(folder)) for folder in free]
    target = Path(options.out) if options.out else runs[0].folder / "report.html" if len(runs) == 1 else Path("comparison.html")
    files.check_file(target)
    text = html.comparison_page(runs) if len(runs) > 1 else html.run_page(runs[0], drawn(free[0]) if options.samples else [])
    files.deliver(target, text.encode())
    print(f"written to {target}")
    return 0


def drawn(run: str) -> list[samples.Sample]:
    """Samples of the run's model; a run that has no checkpoint yet has none."""
    try:
        return samples.draw(load(run))
    except WeftError as error:
        return [samples.Sample("No samples", text=str(error))]
