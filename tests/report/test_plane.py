"""Points as SVG: every one inside is drawn, strays are counted, and broken ones do no harm."""

from __future__ import annotations

import math
import random
import re
import xml.etree.ElementTree as xml

import torch

from weft.models.generative.gan import GANConfig
from weft.models.generative.vae import VAEConfig
from weft.report import plane


def dots(svg: str) -> list[tuple[float, float]]:
    xml.fromstring(svg)
    [path] = re.findall(r'class="dots" d="([^"]*)"', svg)
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)h0", path)]


def test_every_point_is_a_dot_on_one_scale() -> None:
    found = dots(plane.scatter([(0.0, 0.0), (4.0, 0.0), (0.0, 1.0), (4.0, 1.0)]))
    assert len(found) == 4
    (x0, y0), (x1, _), (_, y2), _ = found
    assert math.isclose(x1 - x0, 4 * (y0 - y2), abs_tol=0.5)  # four times as far, and up is up
    assert all(0 <= value <= plane.SIDE for point in found for value in point)


def test_strays_and_broken_points_do_no_harm() -> None:
    points = [(math.cos(i), math.sin(i)) for i in range(1000)]
    svg = plane.scatter([*points, (1e6, 0.0), (math.nan, 0.0), (0.0, math.inf)])
    assert "1,003 points" in svg
    assert 980 <= len(dots(svg)) <= 1000
    assert len(dots(plane.scatter([(2.0, 3.0)] * 5))) == 5
    assert dots(plane.scatter([])) == dots(plane.scatter([(math.nan, 1.0)])) == []


def test_values_on_a_line_are_counted() -> None:
    draw = random.Random(0)
    svg = plane.drawn(torch.tensor([[draw.gauss(0, 1)] for _ in range(500)]))
    xml.fromstring(svg)
    assert "500 values" in svg
    assert svg.count("Z") == plane.BARS


def test_which_models_are_of_points() -> None:
    assert plane.dimensions(GANConfig(features=2)) == 2
    assert plane.dimensions(GANConfig(features=1)) == 1
    assert plane.dimensions(GANConfig(features=3)) == plane.dimensions(VAEConfig(features=4, image=(1, 2, 2))) == 0
