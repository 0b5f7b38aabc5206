"""One self-contained HTML page for a run, and one that compares several: style, script and drawings are all inside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from weft import __version__
from weft.core import registry
from weft.core.units import duration, number, title
from weft.report.parts import card, cards, environment, rows, settings, shown_samples
from weft.report.samples import Sample
from weft.report.svg import Curve, chart
from weft.runs.record import RunLog, command, read
from weft.training.checkpoint import files

QUIET = ("lr", "grad_norm", "per_second", "mfu", "refused_updates")
"""Numbers about the training itself, shown after the metrics."""
COPY = '<button type="button" class="copy">copy</button>'


def write(folder: Path, samples: Sequence[Sample] = ()) -> Path:
    """Write RUN/report.html."""
    target = folder / "report.html"
    files.replace(target, run_page(read(folder), samples).encode())
    return target


def run_page(run: RunLog, samples: Sequence[Sample] = ()) -> str:
    """The page of one run."""
    entry = registry.RECIPES.get(run.name)
    what = f"{entry.summary} · " if entry else ""
    state = f"{run.step:,} steps" if run.step >= run.steps else f"{run.step:,} of {run.steps:,} steps"
    parts = [
        f"<header><h1>{escape(run.name)}</h1><p>{escape(f'{what}{state} · {run.folder}')}</p></header>",
        cards(key_numbers(run)),
        main_chart(run),
        small_charts(run),
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


def main_chart(run: RunLog) -> str:
    """The loss in training and validation with the gap between them, and the progress metric where that is another."""
    if not run.lines:
        return card("<p>Nothing is logged yet.</p>")
    names = [n for n in dict.fromkeys(["loss", run.metric]) if n in run.names("train") + run.names("validation")] or [run.metric]
    return "".join(both(run, name, shade=name in run.names("train"), tall=True) for name in names)


def both(run: RunLog, name: str, shade: bool = False, tall: bool = False) -> str:
    """Training and validation of one number in one figure."""
    training = run.points("train", name)
    curves = [
        Curve("training", training, "c0", noisy=len(training) > 50 and not name.endswith("lr")),
        Curve("validation", run.points("validation", name), "c1"),
    ]
    return chart(title(name).replace("examples", run.unit), curves, shade=shade, tall=tall)


def small_charts(run: RunLog) -> str:
    """Every other number that was logged."""
    names = dict.fromkeys(run.names("train") + run.names("validation"))
    others = [name for name in names if name not in ("loss", run.metric)]
    others.sort(key=lambda name: name.endswith(QUIET))
    return f'<div class="grid">{"".join(both(run, name) for name in others)}</div>'


def comparison_page(runs: Sequence[RunLog]) -> str:
    """Several runs with their curves in the same figures."""
    labels = [run.folder.name if run.folder.name != "." else run.name for run in runs]
    if len(set(labels)) < len(runs):
        labels = [str(run.folder) for run in runs]
    names = dict.fromkeys(n for run in runs for n in [run.metric, "loss", *run.names("validation"), *run.names("train")])
    figures = []
    for name in names:
        for part, word in (("validation", "validation "), ("train", "" if name.endswith(QUIET) else "training ")):
            curves = [Curve(label, run.points(part, name), f"c{i % 8}") for i, (label, run) in enumerate(zip(labels, runs))]
            wide = name in (runs[0].metric, "loss")
            figures.append((wide, chart(word + title(name), curves, tall=wide)))
    parts = [
        f"<header><h1>Comparison of {len(runs)} runs</h1><p>{escape(', '.join(dict.fromkeys(run.name for run in runs)))}</p></header>",
        card(results(runs, labels)),
        "<h2>Curves</h2>" + "".join(figure for wide, figure in figures if wide),
        f'<div class="grid">{"".join(figure for wide, figure in figures if not wide)}</div>',
        different(runs, labels),
    ]
    return page("Comparison", parts)


def results(runs: Sequence[RunLog], labels: list[str]) -> str:
    """The table of what each run reached."""
    head = ("run", "recipe", "best validation", "at step", "training loss", "parameters", "time")
    body = []
    for i, (label, run) in enumerate(zip(labels, runs)):
        best, train = run.best(), run.points("train", "loss")
        reached = (f"{title(run.metric)} {number(best[1])}", f"{best[0]:,.0f}") if best else ("", "")
        size = run.environment.get("parameters")
        last = (number(train[-1][1]) if train else "", number(size) if size else "", duration(run.seconds))
        body.append((f'<span class="key c{i % 8}">{escape(label)}</span>', escape(run.name), *map(escape, (*reached, *last))))
    return rows(body, head)


def different(runs: Sequence[RunLog], labels: list[str]) -> str:
    """The settings in which the runs differ."""
    every = [run.settings() for run in runs]
    names = [n for n in dict.fromkeys(n for s in every for n in s) if len({s.get(n) for s in every}) > 1]
    if not names:
        return ""
    body = [(escape(n), *(escape(s.get(n, "")) for s in every)) for n in names]
    return "<h2>What differs</h2>" + card(rows(body, ("setting", *labels)))


def page(name: str, parts: Sequence[str]) -> str:
    """The whole document."""
    inside = resources.files("weft.report")
    style, script = (inside.joinpath(file).read_text(encoding="utf-8") for file in ("page.css", "page.js"))
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)} · weft</title><style>\n{style}</style></head>\n<body><main>\n{body}\n"
        f"<footer>made by weft {__version__}</footer></main>\n<script>\n{script}</script></body></html>\n"
    )
