"""One self-contained HTML page for a run: style, script and drawings are all inside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from weft.core import registry
from weft.core.units import duration, number, title
from weft.metrics.scores import Scores
from weft.report import reliability
from weft.report.curves import Curve, Panel
from weft.report.figures import Figure, of_panel
from weft.report.page import QUIET, page
from weft.report.parts import card, cards, environment, settings, shown_samples
from weft.report.samples import Sample
from weft.report.svg import panel
from weft.runs.record import RunLog, command, read
from weft.runs.units import axis, heading
from weft.training.checkpoint import files

COPY = '<button type="button" class="copy">copy</button>'


def write(folder: Path, samples: Sequence[Sample] = (), scores: Scores | None = None) -> Path:
    """Write RUN/report.html."""
    target = folder / "report.html"
    files.replace(target, run_page(read(folder), samples, scores).encode())
    return target


def run_page(run: RunLog, samples: Sequence[Sample] = (), scores: Scores | None = None) -> str:
    """The page of one run."""
    entry = registry.RECIPES.get(run.name)
    what = f"{entry.summary} · " if entry else ""
    state = f"{run.step:,} steps" if run.step >= run.steps else f"{run.step:,} of {run.steps:,} steps"
    parts = [
        f"<header><h1>{escape(run.name)}</h1><p>{escape(f'{what}{state} · {run.folder}')}</p></header>",
        cards(key_numbers(run)),
        "".join(map(panel, main_panels(run))) if run.lines else card("<p>Nothing is logged yet.</p>"),
        reliability.part(scores),
        f'<div class="grid">{"".join(map(panel, small_panels(run)))}</div>',
        shown_samples(samples),
        f'<h2>Make it again</h2><section class="card command"><pre>{escape(command(run))}</pre>{COPY}</section>',
        settings(run),
        environment(run),
    ]
    return page(run.name, parts)


def key_numbers(run: RunLog) -> list[tuple[str, str, str]]:
    """(what, number, note) of the cards at the top."""
    found = []
    best, train, held = run.best(), run.points("train", "loss"), run.points("validation", "loss")
    if best:
        found.append((f"best {title(run.metric)}", number(best[1]), f"validation, step {best[0]:,.0f}"))
    for name in [n for n in run.names("train") if n.endswith("loss") and run.points("train", n)][:2]:
        step, value = run.points("train", name)[-1]
        found.append((f"last {title(name)}", number(value), f"training, step {step:,.0f}"))
    if train and held:
        gap = held[-1][1] - train[-1][1]
        averaged = " of the averaged weights" if run.recipe.get("train", {}).get("ema") else ""
        found.append(("generalisation gap", f"{gap:+.4f}", f"validation{averaged} − training loss"))
    if "parameters" in run.environment:
        found.append(("parameters", number(run.environment["parameters"]), str(run.recipe["model"].get("type", ""))))
    rates = [value for _, value in run.points("train", "per_second")]
    if rates:
        share = f", MFU {100 * run.cost['mfu']:.1f} %" if run.cost.get("mfu") else ""
        found.append((f"{run.unit}/s", number(round(sorted(rates)[len(rates) // 2])), f"median{share}"))
    found.append(("training time", duration(run.seconds), str(run.environment.get("machine", ""))))
    return found


def main_panels(run: RunLog) -> list[Panel]:
    """The loss in training and validation with the gap between them, and the progress metric where that is another."""
    names = [n for n in dict.fromkeys(["loss", run.metric]) if n in run.names("train") + run.names("validation")] or [run.metric]
    return [both(run, name, shade=name in run.names("train"), tall=True) for name in names]


def small_panels(run: RunLog) -> list[Panel]:
    """Every other number that was logged."""
    names = dict.fromkeys(run.names("train") + run.names("validation"))
    others = [name for name in names if name not in ("loss", run.metric)]
    return [both(run, name) for name in sorted(others, key=lambda name: name.endswith(QUIET))]


def both(run: RunLog, name: str, shade: bool = False, tall: bool = False) -> Panel:
    """Training and validation of one number in one figure."""
    training = run.points("train", name)
    curves = [
        Curve("training", training, "c0", noisy=len(training) > 50 and not name.endswith("lr")),
        Curve("validation", run.points("validation", name), "c1"),
    ]
    return Panel(heading(run, name), curves, axis(run, name), shade=shade, tall=tall)


def figures_of(run: RunLog, scores: Scores | None = None) -> list[Figure]:
    """Every figure of a run's page, to be written as files."""
    curves = [of_panel(panel) for panel in [*main_panels(run), *small_panels(run)] if panel.drawn()]
    return [*curves, *reliability.figures(scores)]
