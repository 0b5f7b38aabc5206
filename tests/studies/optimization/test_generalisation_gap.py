"""The gap grows while a free model trains, and every regulariser leaves a smaller one."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.studies.optimization.generalisation_gap import VARIANTS, Settings, Variant, describe, train


def test_the_gap_grows_and_each_regulariser_narrows_it(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    settings = Settings(hidden=128, epochs=16)
    variants = {**VARIANTS, "early stopping": Variant(patience=1)}  # this run is too short for more
    found = {name: train(settings, variant) for name, variant in variants.items()}
    gaps = {name: [held - own for _, own, held, _ in points] for name, points in found.items()}
    quarters = [sum(gaps["none"][i : i + 4]) / 4 for i in range(0, 16, 4)]
    assert quarters == sorted(quarters)
    assert all(gaps[name][-1] < gaps["none"][-1] for name in VARIANTS if name != "none")
    finding = describe(settings, found)
    assert "not smaller" not in finding.claim
    finding.write(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count('class="chart tall') == 2
    assert all(name in page for name in VARIANTS)
