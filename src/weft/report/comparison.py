"""The page of several runs: runs that differ in their seed alone are one curve with its spread; a panel for every unit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from weft.core.units import duration, number, title
from weft.metrics.intervals import student
from weft.report.curves import Curve, Panel, mean_of
from weft.report.figures import Figure, of_panel
from weft.report.page import QUIET, page
from weft.report.parts import card, rows
from weft.report.svg import panel
from weft.runs.record import RunLog
from weft.runs.units import axis, heading, unit


@dataclass(frozen=True)
class Group:
    """Runs of one recipe that differ in their seed alone."""

    label: str
    style: str
    runs: tuple[RunLog, ...]

    def curve(self, part: str, name: str) -> Curve:
        """One run's curve, or the mean of several with one standard deviation on both sides."""
        every = [points for run in self.runs if (points := run.points(part, name))]
        if len(every) < 2:
            return Curve(self.label, every[0] if every else [], self.style)
        points, band = mean_of(every)
        return Curve(f"{self.label}: mean ± s.d. of n = {len(every)} seeds", points, self.style, band=band)


def comparison_page(runs: Sequence[RunLog]) -> str:
    """Several runs with their curves in the same figures."""
    found = groups(runs)
    shown = panels(found)
    names = ", ".join(dict.fromkeys(run.name for run in runs))
    parts = [
        f"<header><h1>Comparison of {len(runs)} runs</h1><p>{escape(names)}</p></header>",
        card(results(found)),
        "<h2>Curves</h2>" + "".join(panel(one) for one in shown if one.tall),
        f'<div class="grid">{"".join(panel(one) for one in shown if not one.tall)}</div>',
        different(found),
    ]
    return page("Comparison", parts)


def figures_of(runs: Sequence[RunLog]) -> list[Figure]:
    """Every figure of the page, to be written as files."""
    return [of_panel(one) for one in panels(groups(runs))]


def groups(runs: Sequence[RunLog]) -> list[Group]:
    """Runs by their settings without the seed, in the order they were given."""
    labels = [run.folder.name if run.folder.name != "." else run.name for run in runs]
    if len(set(labels)) < len(runs):
        labels = [str(run.folder) for run in runs]
    together: dict[str, list[tuple[str, RunLog]]] = {}
    for label, run in zip(labels, runs):
        kind = str((run.name, run.environment.get("init"), sorted(seedless(run).items())))
        others = [run.settings() for _, run in together.get(kind, [])]
        together.setdefault(label if run.settings() in others else kind, []).append((label, run))  # the same seed twice is no spread
    found = []
    for place, members in enumerate(together.values()):
        label = members[0][0] if len(members) == 1 else members[0][1].name
        found.append((label, f"c{place % 8}", tuple(run for _, run in members)))
    twice = len({label for label, *_ in found}) < len(found)  # one recipe in several settings, each with several seeds
    return [Group(f"{label} ({runs[0].folder.name})" if twice and len(runs) > 1 else label, style, runs) for label, style, runs in found]


def seedless(run: RunLog) -> dict[str, str]:
    """Settings without the seeds, one of which is enough to make another run of the same recipe."""
    return {name: value for name, value in run.settings().items() if name.rpartition(".")[2] != "seed"}


def seeds(run: RunLog) -> str:
    return str(run.recipe.get("train", {}).get("seed", ""))


def panels(found: Sequence[Group]) -> list[Panel]:
    """A figure for every number and unit: runs whose numbers are counted in something else have one of their own."""
    every = [group.runs[0] for group in found]
    names = dict.fromkeys(n for run in every for n in [run.metric, "loss", *run.names("validation"), *run.names("train")])
    shown = []
    for name in names:
        for part, word in (("validation", "validation "), ("train", "" if name.endswith(QUIET) else "training ")):
            by_unit: dict[str, list[Group]] = {}
            for group in found:
                if any(run.points(part, name) for run in group.runs):
                    by_unit.setdefault(unit(group.runs[0], name), []).append(group)
            for said, members in by_unit.items():
                curves = [group.curve(part, name) for group in members]
                of = f" ({said})" if len(by_unit) > 1 and said and name != "per_second" else ""
                wide = name in (every[0].metric, "loss")
                shown.append(Panel(word + heading(members[0].runs[0], name) + of, curves, axis(members[0].runs[0], name), tall=wide))
    return shown


def results(found: Sequence[Group]) -> str:
    """The table of what each run reached, and of several seeds together."""
    head = ("run", "recipe", "seed", "best validation", "at step", "training loss", "parameters", "time")
    body = []
    for group in found:
        if len(group.runs) > 1:
            body.append(summary(group))
        for run in group.runs:
            best, train = run.best(), run.points("train", "loss")
            reached = (f"{title(run.metric)} {number(best[1])}", f"{best[0]:,.0f}") if best else ("", "")
            size = run.environment.get("parameters")
            last = (number(train[-1][1]) if train else "", number(size) if size else "", duration(run.seconds))
            name = escape(group.label if len(group.runs) == 1 else run.folder.name)
            key = f'<span class="key {group.style}">{name}</span>'
            body.append((key, *map(escape, (run.name, seeds(run), *reached, *last))))
    return rows(body, head)


def summary(group: Group) -> tuple[str, ...]:
    """The best scores of several seeds: mean, standard deviation and the interval of the mean."""
    best = [reached[1] for run in group.runs if (reached := run.best())]
    said = ""
    if len(best) > 1:
        low, high = student(best)
        said = f"{title(group.runs[0].metric)} {statistics.fmean(best):.4f} ± {statistics.stdev(best):.4f} (s.d.), "
        said += f"95 % of the mean {low:.4f} to {high:.4f}"
    name = f'<span class="key {group.style}"><b>{escape(group.label)}</b></span>'
    return name, escape(group.runs[0].name), f"n = {len(group.runs)}", escape(said), "", "", "", ""


def different(found: Sequence[Group]) -> str:
    """The settings in which the runs differ, beside their seeds."""
    every = [group.runs[0].settings() if len(group.runs) == 1 else seedless(group.runs[0]) for group in found]
    names = [n for n in dict.fromkeys(n for s in every for n in s) if len({s.get(n) for s in every}) > 1]
    if not names:
        return ""
    body = [(escape(n), *(escape(s.get(n, "")) for s in every)) for n in names]
    return "<h2>What differs</h2>" + card(rows(body, ("setting", *(group.label for group in found))))
