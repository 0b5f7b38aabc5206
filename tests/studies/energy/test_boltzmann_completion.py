"""What is filled in is better than the mean image, and the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.studies.energy.boltzmann_completion import Settings, study


def test_filling_in_and_cleaning_beat_the_mean_image(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    finding = study(Settings(hidden=8, steps=150, examples=60))
    wrong = {name: float(value.split()[0]) for name, value in finding.rows}
    assert wrong["lower half, filled in"] < wrong["lower half, mean image"] - 1
    assert wrong["all, cleaned"] < wrong["all, as damaged"] - 1
    assert wrong["all, as damaged"] == pytest.approx(10, abs=1.5)
    finding.write(tmp_path / "page.html")
    assert "data:image/png;base64," in (tmp_path / "page.html").read_text()
