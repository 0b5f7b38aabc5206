"""`weft report RUN… [--out FILE]`: the page of a run, or one page that compares several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.cli import console
from weft.cli.options import flags
from weft.core.config import Config
from weft.core.errors import ConfigError, WeftError, require
from weft.evaluation.scores import measure
from weft.metrics.scores import Scores
from weft.report import comparison, figures, html, samples
from weft.runs.load import load
from weft.runs.record import read
from weft.training.checkpoint import files

ABOUT = "Writes RUN/report.html with curves, scores, samples and settings; of several runs, one page that compares them."


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    out: str = ""
    """File to write; empty is RUN/report.html, or comparison.html for several runs."""
    samples: bool = True
    """Load the model, show samples of it, and measure its scores with their intervals."""
    figures: str = ""
    """Folder for SVG, PNG and CSV of every figure."""


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft report", "RUN [RUN…]", ABOUT)
    runs = [read(Path(folder)) for folder in free]
    if options.figures:
        check_folder(Path(options.figures))
    target = Path(options.out) if options.out else runs[0].folder / "report.html" if len(runs) == 1 else Path("comparison.html")
    files.check_file(target)
    if len(runs) > 1:
        text, shown = comparison.comparison_page(runs), comparison.figures_of(runs)
    else:
        drawn, scores = inside(free[0]) if options.samples else ([], None)
        text, shown = html.run_page(runs[0], drawn, scores), html.figures_of(runs[0], scores)
    files.deliver(target, text.encode())
    print(f"written to {target}")
    if options.figures:
        figures.write(shown, Path(options.figures))
        print(f"{len(shown)} figures as SVG, PNG and CSV in {options.figures}")
    return 0


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be one, and a missing matplotlib, before anything is measured."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--figures: {folder} is a file, and a folder is to be written; name one")
    require("matplotlib.figure", "plots")


def inside(run: str) -> tuple[list[samples.Sample], Scores | None]:
    """Samples and scores of the run's model; a run that has no checkpoint yet, or whose data are gone, lacks them."""
    try:
        loaded = load(run)
        drawn = samples.draw(loaded)
    except WeftError as error:
        return [samples.Sample("No samples", text=str(error))], None
    try:
        return drawn, measure(loaded)
    except WeftError as error:
        return [*drawn, samples.Sample("No scores", text=str(error))], None
