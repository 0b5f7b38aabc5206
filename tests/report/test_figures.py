"""Figures as files: the table holds what is drawn, and each of the three files is what it says."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import torch

from weft.metrics.scores import ClassPredictions, Score, Scores
from weft.report import figures, reliability
from weft.report.curves import Curve, Panel, mean_of
from weft.report.drawing import Drawing
from weft.report.svg import panel

CURVES = (Curve("training", [(1, 4.0), (2, 2.0), (3, 1.0)], "c0"), Curve("a, <b>", [(1, 4.5), (3, 1.5)], "c1"))
LOSS = Panel("loss", CURVES, "loss (nats per token)", shade=True)


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def drawn_points(svg: str, colour: str) -> list[tuple[float, float]]:
    """The points of the strong line of a colour."""
    [path] = re.findall(rf'd="M([^"]*L[^"]*)" style="fill:none;stroke:{colour};stroke-width:2;', svg)
    return [(float(x), float(y)) for x, y in (point.split() for point in path.split("L"))]


def test_the_csv_holds_what_is_drawn() -> None:
    figure = figures.of_panel(Panel("loss", CURVES[:1], "loss (nats per token)", log=False))
    head, *body = table(figure.csv)
    assert head == ["curve", "step", "loss (nats per token)"]
    values = [(float(x), float(y)) for _, x, y in body]
    assert values == CURVES[0].points
    places = drawn_points(figure.drawing.svg(), "#2f6fde")
    for (x0, y0), (x1, y1), (px0, py0), (px1, py1) in zip(values, values[1:], places, places[1:], strict=False):
        scale = (places[-1][0] - places[0][0]) / 2, (places[-1][1] - places[0][1]) / (values[-1][1] - values[0][1])
        assert px1 - px0 == pytest.approx((x1 - x0) * scale[0], abs=0.2)
        assert py1 - py0 == pytest.approx((y1 - y0) * scale[1], abs=0.2)


def test_a_file_says_what_its_axes_count_and_is_whole() -> None:
    svg = figures.of_panel(LOSS).drawing.svg()
    words = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    for word in ("loss", "loss (nats per token)", "step", "training", "a, <b>", "generalisation gap"):
        assert word in words


def test_links_of_a_page_are_the_files() -> None:
    page = panel(LOSS)
    figure = figures.of_panel(LOSS)
    svg, text = re.findall(r'<a download="loss\.(?:svg|csv)" href="data:[^,"]*,([^"]*)"', page)
    assert unquote(svg) == figure.drawing.svg()
    assert unquote(text) == figure.csv
    assert '<div class="unit">loss (nats per token)</div>' in page
    assert '<span class="unit">step</span>' in page


def test_folders_hold_three_files_of_every_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one = figures.of_panel(LOSS)
    figures.write([one, one], tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == [f"loss-{i}.{suffix}" for i in (1, 2) for suffix in ("csv", "png", "svg")]
    assert (tmp_path / "new" / "loss-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_matplotlib_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from weft.core.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="matplotlib is not installed; install it with"):
        Drawing(10, 10).png()


def test_the_mean_of_seeds_and_its_band() -> None:
    points, band = mean_of([[(1, 1.0), (2, 2.0), (3, 9.0)], [(1, 3.0), (2, 2.0)]])
    assert points == [(1, 2.0), (2, 2.0)]
    assert band == [(1, pytest.approx(2 - 2**0.5), pytest.approx(2 + 2**0.5)), (2, 2.0, 2.0)]
    figure = figures.of_panel(Panel("x", [Curve("n = 2", points, "c0", band=band)]))
    assert table(figure.csv)[0] == ["curve", "step", "x", "low", "high"]
    assert [float(cell) for cell in table(figure.csv)[1][1:]] == pytest.approx([1, 2.0, 2 - 2**0.5, 2 + 2**0.5])
    assert "opacity:0.2" in figure.drawing.svg()
    assert ">n = 2</text>" in figure.drawing.svg(), "a band says what it is"


def test_a_scale_is_logarithmic_where_values_lie_far_apart() -> None:
    assert Panel("x", [Curve("a", [(1, 1.0), (2, 100.0)], "c0")]).scales() == ["log", "linear"]
    assert Panel("x", [Curve("a", [(1, 1.0), (2, 10.0)], "c0")]).scales() == ["linear", "log"]
    assert Panel("x", [Curve("a", [(1, 0.0), (2, 100.0)], "c0")]).scales() == ["linear"]


def test_the_classes_part_counts_and_names() -> None:
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.4, 0.6]])
    classes = ClassPredictions(("cat", "<dog>"), probabilities, torch.tensor([0, 1, 1, 1]))
    scores = Scores(4, (Score("accuracy", 0.75, (0.3, 0.95), ("commonest class", 0.75)),), "How.", classes)
    matrix, diagram = reliability.figures(scores)
    assert table(matrix.csv) == [["true class", "cat", "<dog>"], ["cat", "1", "0"], ["<dog>", "1", "2"]]
    assert [row[2] for row in table(diagram.csv)[1:]] == ["2", "1", "1"]  # 0.6 twice, 0.8 and 0.9
    page = reliability.part(scores)
    for piece in ("n = 4 validation examples", "0.3000 to 0.9500", "commonest class: 0.7500", "&lt;dog&gt;", "expected calibration error"):
        assert piece in page
    for figure in (matrix, diagram):
        ElementTree.fromstring(figure.drawing.svg())
        ElementTree.fromstring(figure.drawing.svg(inside=True))
    assert reliability.part(None) == ""
    assert reliability.figures(None) == []
