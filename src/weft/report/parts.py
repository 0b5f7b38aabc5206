"""Pieces of a report's page: cards, tables, samples, settings, where it ran."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from weft.core import config
from weft.core.errors import WeftError
from weft.core.units import title
from weft.core.untrusted import parsing
from weft.planning import cost
from weft.recipes.base import recipe
from weft.report.samples import Sample
from weft.runs.record import RunLog, show


def card(body: str) -> str:
    return f'<section class="card">{body}</section>'


def cards(numbers: Sequence[tuple[str, str, str]]) -> str:
    """(what, number, note) side by side."""
    inside = (
        f'<div class="number"><span>{escape(what)}</span><b>{escape(value)}</b><small>{escape(note)}</small></div>'
        for what, value, note in numbers
    )
    return f'<div class="numbers">{"".join(inside)}</div>'


def rows(body: Sequence[Sequence[str]], head: Sequence[str] = (), changed: frozenset[int] = frozenset()) -> str:
    """A table of cells that are HTML already; the first column names the row."""
    top = f"<thead><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr></thead>" if head else ""
    lines = "".join(
        f"<tr{' class=changed' if number in changed else ''}><th>{line[0]}</th>{''.join(f'<td>{cell}</td>' for cell in line[1:])}</tr>"
        for number, line in enumerate(body)
    )
    return f'<div class="wide"><table class="{"sheet" if head else "pairs"}">{top}<tbody>{lines}</tbody></table></div>'


def bars(shares: Sequence[tuple[str, float]]) -> str:
    """Shares of one, each as a bar with its name and its number."""
    lines = []
    for number, (name, share) in enumerate(shares):
        filled = f'<i><b style="width:{100 * share:.1f}%"></b></i>'
        lines.append(f'<div class="bar c{number % 8}"><span>{escape(name)}</span>{filled}<em>{100 * share:.1f} %</em></div>')
    return f'<div class="bars">{"".join(lines)}</div>'


def shown_samples(samples: Sequence[Sample]) -> str:
    """What the model wrote or drew."""
    if not samples:
        return ""
    found = []
    for sample in samples:
        body = f"<h3>{escape(sample.title)}</h3>"
        body += f"<pre>{escape(sample.text)}</pre>" if sample.text else ""
        body += rows([tuple(map(escape, row)) for row in sample.rows]) if sample.rows else ""
        body += f'<img src="{sample.image}" alt="{escape(sample.title)}">' if sample.image else ""
        found.append(card(body))
    return "<h2>Samples</h2>" + "".join(found)


def settings(run: RunLog) -> str:
    """The recipe, part by part; what differs from the registered one stands out."""
    usual = registered(run)
    found = []
    for part in ("model", "data", "objective", "optim", "train", "progress"):
        own = {name: text for name, text in run.settings().items() if name == part or name.startswith(part + ".")}
        body = [
            (escape(name.removeprefix(part + ".").replace("_", " ")) if name != part else "kind", escape(text))
            for name, text in own.items()
        ]
        changed = frozenset(i for i, (name, text) in enumerate(own.items()) if usual and usual.get(name) != text)
        found.append(card(f"<h3>{part}</h3>{rows(body, changed=changed)}"))
    note = "<p>Settings in colour differ from the registered recipe.</p>" if usual and usual != run.settings() else ""
    return f'<h2>Recipe</h2>{note}<div class="columns">{"".join(found)}</div>'


def registered(run: RunLog) -> dict[str, str]:
    """Settings of the recipe as it is registered, filled in from the run's data; nothing where it is not known here."""
    try:
        with parsing(run.folder):
            usual = recipe(run.name).resolve(run.environment.get("data", {}))
    except WeftError:
        return {}
    return {name: show(value) for name, value in config.flat(config.to_dict(usual)).items()}


def environment(run: RunLog) -> str:
    """Where and how it ran, the facts of its data, and every problem of the data."""
    facts = run.environment
    versions = " · ".join(f"{name} {value}" for name, value in facts.get("versions", {}).items())
    plan = [tuple(map(escape, (line.partition(": ")[0], line.partition(": ")[2]))) for line in facts.get("plan", [])]
    spent = [tuple(map(escape, line.split(": ", 1))) for line in cost.lines(run.cost)]
    where = [("machine", escape(str(facts.get("machine", "")))), ("versions", escape(versions)), *spent, *plan]
    data = [(escape(title(name)), escape(show(value))) for name, value in facts.get("data", {}).items()]
    problems = "".join(f"<li>{escape(line)}</li>" for line in facts.get("problems", []))
    both = card("<h3>execution</h3>" + rows(where)) + card("<h3>facts of the data</h3>" + rows(data))
    return (
        f'<h2>Environment</h2><div class="grid">{both}</div>'
        f"<h2>Problems of the data</h2>{card(f'<ul>{problems}</ul>' if problems else '<p>None were found.</p>')}"
    )
