"""Curves: round ticks, exact thinning, the area of the gap, both scales, and HTML that holds whatever a label says."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import hypothesis
import pytest
from hypothesis import strategies as st

from weft.report.curves import MOST, Curve, at, between, smooth, thin
from weft.report.scales import log_ticks, short, ticks
from weft.report.svg import chart

LINE = [(float(x), 2.0 * x + 1) for x in range(2400)]


@hypothesis.given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_round_and_inside(low: float, width: float) -> None:
    high = low + width
    hypothesis.assume(high - low > 1e-9 * max(abs(low), abs(high)))
    found = ticks(low, high, 5)
    assert len(found) <= 7
    slack = 1e-6 * max(abs(low), abs(high), 1.0)
    assert all(low - slack <= tick <= high + slack for tick in found)


def test_ticks_are_the_numbers_one_expects() -> None:
    assert ticks(0, 60, 5) == [0, 20, 40, 60]
    assert ticks(0, 1000, 5) == [0, 200, 400, 600, 800, 1000]
    assert log_ticks(0.5, 300) == [0.5, 1, 2, 5, 10, 20, 50, 100, 200][::2]
    assert log_ticks(1e-6, 1e3) == [1e-6, 1e-4, 1e-2, 1, 1e2]
    assert [short(x) for x in (0, 2500, 15_000, 2e6, 2e-4, 1.234567)] == ["0", "2500", "15k", "2M", "2e-4", "1.235"]


def test_thinning_keeps_the_mean_and_smoothing_keeps_a_straight_line() -> None:
    fewer = thin(LINE)
    assert len(fewer) <= MOST
    assert all(y == pytest.approx(2 * x + 1) for x, y in fewer)
    assert all(y == pytest.approx(2 * x + 1) for x, y in smooth(fewer))
    assert thin(LINE[:50]) == LINE[:50]


def test_the_gap_lies_between_both_curves() -> None:
    first, second = [(0.0, 1.0), (10.0, 1.0)], [(2.0, 3.0), (8.0, 3.0)]
    outline = between(first, second)
    assert {x for x, _ in outline} == {2.0, 8.0}
    area = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(outline, outline[1:] + outline[:1], strict=True)) / 2
    assert abs(area) == pytest.approx(12.0)
    assert at(first, 5.0) == 1.0
    assert between(first, second[:1]) == []


def test_a_chart_has_both_scales_a_legend_and_every_value() -> None:
    curves = [Curve("training", [(1, 4.0), (2, 2.0), (3, 1.0)], "c0"), Curve("validation", [(1, 4.5), (3, 1.5)], "c1")]
    figure = chart("loss <i>", curves, shade=True, tall=True)
    assert "loss &lt;i&gt;" in figure
    assert figure.count("<svg") == 2
    assert "generalisation gap" in figure
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', figure).group(1))  # type: ignore[union-attr]
    assert data["curves"][1]["points"] == [[1, 4.5], [3, 1.5]]
    ElementTree.fromstring(re.sub(r"<script.*</script>", "", figure))


@pytest.mark.parametrize(
    ("points", "drawings"),
    [([(5, 0.0)], 1), ([(5, 2.0)], 1), ([(1, -1.0), (2, 3.0)], 1), ([(1, 1e-9), (2, 1e9)], 2), ([(1, 2.0), (2, 2.0)], 1)],
)
def test_odd_values_are_drawn(points: list[tuple[float, float]], drawings: int) -> None:
    figure = chart("x", [Curve("a", points, "c0")])
    assert figure.count("<svg") == drawings
    numbers = [float(n) for d in re.findall(r' d="([^"]*)"', figure) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", d)]
    assert all(math.isfinite(n) and -1 <= n <= 1001 for n in numbers)


def test_labels_cannot_leave_their_script() -> None:
    figure = chart("x", [Curve("</script><b>", [(1, 1.0), (2, 2.0)], "c0")])
    assert figure.count("</script>") == 1


def test_nothing_to_draw_is_nothing() -> None:
    assert chart("x", []) == chart("x", [Curve("a", [], "c0")]) == ""


def test_an_axis_may_begin_below_zero_and_the_logarithm_come_first() -> None:
    figure = chart("share", [Curve("weights", [(-1.0, 2.0), (0.0, 1.0), (1.0, 2.0)], "c0")], tall=True, log=True)
    assert '<figure class="chart tall log">' in figure
    assert "linear scale" in figure
    assert '<span style="left:0.00%">-1</span>' in figure
    assert '<span style="left:50.00%">0</span>' in figure
    assert "log" not in chart("share", [Curve("flat", [(0.0, -1.0)], "c0")], log=True), "nothing negative has one"
