"""Error propagation: what one wrong token does to those that follow.

A decoder goes on by itself, but at one position it is made to read the likeliest token that is not the true one. How often each later token
is wrong, beside how often it is wrong anyway, says how far an error carries. Data, models and training are those of `exposure-bias`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.objectives.language.seq2seq import truth
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language import exposure_bias
from weft.studies.language.exposure_bias import Subject, curve, spread, subjects


@dataclass(frozen=True, kw_only=True)
class Settings(exposure_bias.Settings):
    positions: tuple[int, ...] = (3, 6, 9)
    """Positions at which a wrong token is forced, one at a time, from 1."""
    distance: int = 12
    """How many tokens behind it are looked at."""


def forced(subject: Subject, position: int) -> tuple[Tensor, Tensor]:
    """Where the model is wrong (B, N) that reads a wrong token at this position, from 0; and where it counts."""
    wanted = truth(subject.batch)

    def change(step: int, logits: Tensor, own: Tensor) -> Tensor:
        if step != position:
            return own
        others = logits.scatter(1, wanted[:, step, None].clamp(min=0), -torch.inf)
        return others.argmax(-1)

    return subject.greedy(change)


def by_distance(subject: Subject, settings: Settings) -> tuple[list[float], list[float]]:
    """Share wrong at each distance behind a forced error, and without one at the same tokens."""
    plain, counted = subject.greedy()
    found, anyway = [], []
    runs = {position: forced(subject, position - 1)[0] for position in settings.positions if position < plain.size(1)}
    for distance in range(1, settings.distance + 1):
        at = [(wrong, position - 1 + distance) for position, wrong in runs.items() if position - 1 + distance < plain.size(1)]
        number = sum(int(counted[:, place].sum()) for _, place in at)
        if not number:
            break
        found.append(sum(int((wrong & counted)[:, place].sum()) for wrong, place in at) / number)
        anyway.append(sum(int((plain & counted)[:, place].sum()) for _, place in at) / number)
    if not found:
        raise ConfigError(f"no target is longer than the first of --positions {settings.positions}")
    return found, anyway


def study(settings: Settings) -> Finding:
    """The error behind a forced one, by distance."""
    if not settings.positions or min(settings.positions) < 1 or settings.distance < 1:
        raise ConfigError(f"expected positions from 1 on and a distance of at least 1, found {settings.positions}, {settings.distance}")
    curves, rows, said = [], [], []
    for number, (way, each) in enumerate(subjects(settings).items()):
        measured = [by_distance(one, settings) for one in each]
        after, anyway = [one for one, _ in measured], [two for _, two in measured]
        curves += [curve(f"{way}, forced", after, f"c{2 * number}"), curve(f"{way}, not forced", anyway, f"c{2 * number + 1}")]
        ends = [[run[0] for run in after], [run[-1] for run in after], [run[-1] for run in anyway]]
        total = [sum(a - b for a, b in zip(one, two, strict=True)) for one, two in measured]
        deviation = f" ± {statistics.stdev(total):.2f}" if len(total) > 1 else ""
        rows.append((way, *map(spread, ends), f"{statistics.mean(total):.2f}{deviation}"))
        said.append(f"{statistics.mean(total):.2f}{deviation} after {way}" if not settings.run else f"{statistics.mean(total):.2f}")
    figure = chart("error of a token behind a forced one, by distance", curves, tall=True, across="distance")
    claim = f"Of the {settings.distance} tokens behind one wrong token more are wrong than without it: {', '.join(said)}."
    head = (
        "trained by",
        "error at distance 1",
        f"at distance {len(after[0])}",
        "there without a forced error",
        "wrong tokens more, in all",
    )
    return Finding("Error propagation", claim, head, tuple(rows), figure)
