"""The part of a page about how far its numbers may be trusted: examples, intervals, trivial baselines, and a classifier's mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

from weft.core.units import number, title
from weft.metrics.classification import (
    BINS,
    Bin,
    bins_of_confidence,
    brier,
    confusion,
    expected_calibration_error,
    scores_of_classes,
)
from weft.metrics.intervals import wilson
from weft.metrics.scores import ClassPredictions, NumberPredictions, Scores
from weft.report.curves import table_csv
from weft.report.drawing import Drawing, Place
from weft.report.figures import Figure, picture
from weft.report.parts import card, rows
from weft.report.scales import limits, short, ticks

SIDE, ROOM, TOP = 340, 64, 40
"""Pixels of the frame of the reliability diagram, and around it."""
MOST_CLASSES, MOST_DOTS = 100, 1000
"""Classes of which a matrix is drawn, and dots that are drawn of more examples."""


def part(scores: Scores | None) -> str:
    """All of it, as HTML."""
    if scores is None:
        return ""
    head = ("score", "value", "95 % interval", "trivial baseline")
    body = [tuple(map(escape, line)) for line in lines(scores)]
    note = f"<p>n = {scores.examples:,} validation examples. {escape(scores.method)}</p>"
    found = f"<h2>Reliability of the numbers</h2>{note}{card(rows(body, head))}"
    if pictures := "".join(picture(figure) for figure in figures(scores)):
        found += f'<h2>Predictions</h2><div class="grid pictures">{pictures}</div>'
    if scores.classes is not None:
        found += card(class_table(scores.classes))
    return found


def lines(scores: Scores) -> Iterable[tuple[str, str, str, str]]:
    """The table: each score with its interval and what something trivial reaches."""
    for score in scores.scores:
        interval = f"{number(score.interval[0])} to {number(score.interval[1])}" if score.interval else "not known"
        baseline = f"{score.baseline[0]}: {number(score.baseline[1])}" if score.baseline else ""
        yield title(score.name), number(score.value), interval, baseline
    if scores.classes is not None:
        bins = bins_of_confidence(scores.classes.probabilities, scores.classes.label)
        yield "expected calibration error", number(expected_calibration_error(bins)), f"{BINS} bins of equal width", ""
        yield "Brier score", number(brier(scores.classes.probabilities, scores.classes.label)), "0 is best, 2 worst", ""


def figures(scores: Scores | None) -> list[Figure]:
    """Confusion matrix and reliability diagram of a classifier, predicted by true numbers of a regression; none of other models."""
    if scores is None:
        return []
    if scores.classes is None:
        return [predicted_by_true(scores.numbers)] if scores.numbers is not None else []
    few = len(scores.classes.names) <= MOST_CLASSES
    return [*([confusion_matrix(scores.classes)] if few else []), reliability_diagram(scores.classes)]


def class_table(classes: ClassPredictions) -> str:
    """Precision, recall and F1 of every class."""
    table = confusion(classes.probabilities.argmax(-1), classes.label, len(classes.names))
    body = []
    for name, one, right in zip(classes.names, scores_of_classes(table), table.diagonal().tolist(), strict=True):
        low, high = wilson(right, one.examples) if one.examples else (0.0, 1.0)
        numbers = f"{one.precision:.3f}", f"{one.recall:.3f}", f"{low:.3f} to {high:.3f}", f"{one.f1:.3f}", f"{one.examples:,}"
        body.append((escape(name), *numbers))
    return rows(body, ("class", "precision", "recall", "95 % interval of the recall", "F1", "n"))


def confusion_matrix(classes: ClassPredictions) -> Figure:
    """Which class (rows) was taken for which (columns): how many, shaded by their share of the row."""
    names = [name if len(name) <= 14 else name[:13] + "…" for name in classes.names]
    table = confusion(classes.probabilities.argmax(-1), classes.label, len(names)).tolist()
    cell = max(5, min(44, 400 // len(names)))
    room = 44 + (7 * max(map(len, names)) if cell >= 12 else 0)
    turned = cell < 7 * max(map(len, names))
    side = cell * len(names)
    drawing = Drawing(max(room + side + 16, 300), TOP + side + (room if turned and cell >= 12 else 52))
    drawing.words((12, 22), f"Confusion matrix, n = {sum(map(sum, table)):,}", colour="ink", size=14, bold=True)
    for y, (name, row) in enumerate(zip(names, table, strict=True)):
        for x, found in enumerate(row):
            share = found / max(1, sum(row))
            drawing.box((room + x * cell, TOP + y * cell), cell - 1, cell - 1, "c0", 0.05 + 0.95 * share)
            if cell >= 20 and found:
                at = (room + (x + 0.5) * cell, TOP + (y + 0.5) * cell + 4)
                drawing.words(at, f"{found}", "middle", colour="paper" if share > 0.5 else "ink", size=12 if cell >= 30 else 9)
        if cell >= 12:
            drawing.words((room - 6, TOP + (y + 0.5) * cell + 4), name, "end")
            at = (room + (y + 0.5) * cell + (4 if turned else 0), TOP + side + (6 if turned else 16))
            drawing.words(at, name, "end" if turned else "middle", turned=turned)
    drawing.words((room + side / 2, drawing.height - 10), "predicted class", "middle", colour="ink", size=13)
    drawing.words((20, TOP + side / 2), "true class", "middle", colour="ink", size=13, turned=True)
    return Figure("confusion-matrix", drawing, table_csv(("true class", *classes.names), ([n, *r] for n, r in zip(classes.names, table))))


def reliability_diagram(classes: ClassPredictions) -> Figure:
    """Accuracy by confidence: on the diagonal a model is as often right as it is sure."""
    bins = bins_of_confidence(classes.probabilities, classes.label)
    drawing = Drawing(SIDE + ROOM + 20, SIDE + TOP + 56)

    def place(x: float, y: float) -> tuple[float, float]:
        return ROOM + x * SIDE, TOP + (1 - y) * SIDE

    said = f"Calibration: ECE {expected_calibration_error(bins):.3f}, Brier {brier(classes.probabilities, classes.label):.3f}"
    drawing.words((12, 22), said, colour="ink", size=14, bold=True)
    for tenth in range(0, 11, 2):
        at = tenth / 10
        drawing.line(place(0, at), place(1, at), colour="grid")
        drawing.line(place(at, 0), place(at, 1), colour="grid")
        drawing.words((place(0, at)[0] - 8, place(0, at)[1] + 4), f"{at:g}", "end")
        drawing.words((place(at, 0)[0], place(at, 0)[1] + 18), f"{at:g}", "middle")
    drawing.line(place(0, 0), place(1, 1), colour="soft", dashed=True)
    draw_bins(drawing, bins, place)
    drawing.words((ROOM + SIDE / 2, drawing.height - 12), f"confidence (likeliest class), n = {len(classes.label):,}", "middle", size=13)
    drawing.words((20, TOP + SIDE / 2), "accuracy (share right, 95 % interval)", "middle", size=13, turned=True)
    head = ("from", "to", "n", "mean confidence", "accuracy", "low", "high")
    body = [
        (i / BINS, (i + 1) / BINS, one.examples, one.confidence, one.accuracy, *interval(one)) for i, one in enumerate(bins) if one.examples
    ]
    return Figure("reliability-diagram", drawing, table_csv(head, body))


def draw_bins(drawing: Drawing, bins: Sequence[Bin], place: Place) -> None:
    """Each bin as a dot at its mean confidence with its interval, and at the bottom how many examples it holds."""
    most = max(one.examples for one in bins)
    full = [one for one in bins if one.examples]
    for number_, one in enumerate(bins):
        x, y = place(number_ / BINS, 0)
        tall = 0.15 * SIDE * one.examples / most
        drawing.box((x + 1, y - tall), SIDE / BINS - 2, tall, "soft", 0.3)
    for first, second in pairwise(full):
        drawing.line(place(first.confidence, first.accuracy), place(second.confidence, second.accuracy), colour="c0", width=1.5)
    for one in full:
        low, high = interval(one)
        drawing.line(place(one.confidence, low), place(one.confidence, high), colour="c0", width=1.5)
        drawing.line(place(one.confidence, one.accuracy), colour="c0", width=7)


def interval(one: Bin) -> tuple[float, float]:
    return wilson(one.accuracy * one.examples, one.examples)


def predicted_by_true(numbers: NumberPredictions) -> Figure:
    """A dot for each example of a regression, on the diagonal where it is right."""
    pairs = [(x, y) for x, y in zip(numbers.label.tolist(), numbers.predicted.tolist(), strict=True) if math.isfinite(y)]
    low, high = limits([value for pair in pairs for value in pair] or [0.0], "linear")
    drawing = Drawing(SIDE + ROOM + 20, SIDE + TOP + 56)

    def place(x: float, y: float) -> tuple[float, float]:
        return ROOM + (x - low) / (high - low) * SIDE, TOP + (high - y) / (high - low) * SIDE

    drawing.words((12, 22), f"Predicted by true {numbers.name}, n = {len(numbers.label):,}", colour="ink", size=14, bold=True)
    for tick in ticks(low, high, 5):
        drawing.line(place(low, tick), place(high, tick), colour="grid")
        drawing.line(place(tick, low), place(tick, high), colour="grid")
        drawing.words((place(low, tick)[0] - 8, place(low, tick)[1] + 4), short(tick), "end")
        drawing.words((place(tick, low)[0], place(tick, low)[1] + 18), short(tick), "middle")
    drawing.line(place(low, low), place(high, high), colour="soft", dashed=True)
    for x, y in pairs[:: math.ceil(len(pairs) / MOST_DOTS) or 1]:
        drawing.line(place(x, y), colour="c0", width=5, opacity=0.6)
    drawing.words((ROOM + SIDE / 2, drawing.height - 12), f"true {numbers.name}", "middle", size=13)
    drawing.words((20, TOP + SIDE / 2), f"predicted {numbers.name}", "middle", size=13, turned=True)
    return Figure("predicted-by-true", drawing, table_csv((f"true {numbers.name}", f"predicted {numbers.name}"), pairs))
