"""Studies of autoencoders and of the metrics of image sets, shortened."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.generative import beta_sweep, fid_and_noise, latent_traversal
from weft.studies.generative.fid_and_noise import blurred, noisy

pytest.importorskip("sklearn")


def test_a_heavier_kl_leaves_less_in_the_code(tmp_path: Path) -> None:
    finding = beta_sweep.study(beta_sweep.Settings(betas=(0.1, 1.0, 3.0), steps=80))
    kl, reconstruction = ([float(row[column]) for row in finding.rows] for column in (1, 2))
    assert kl == sorted(kl, reverse=True)
    assert reconstruction == sorted(reconstruction)
    assert "at every step" in finding.claim
    assert "not at every step" not in finding.claim
    finding.write(tmp_path / "page.html")
    assert "dimensions used" in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="ascending order"):
        beta_sweep.study(beta_sweep.Settings(betas=(2.0, 1.0)))


def test_dimensions_with_more_nats_change_more(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    finding = latent_traversal.study(latent_traversal.Settings(steps=200, rows=3, beta=0.5))
    nats, change = ([float(row[column]) for row in finding.rows] for column in (1, 2))
    assert nats == sorted(nats, reverse=True)
    assert change[0] > change[-1]
    assert finding.figure.count("data:image/png") == 2


def test_the_distance_notices_what_the_score_does_not(tmp_path: Path) -> None:
    finding = fid_and_noise.study(fid_and_noise.Settings(steps=120, blurs=(0.0, 0.4, 0.5), noises=(0.0, 0.1, 0.2)))
    for kind in ("blur", "noise"):
        distances, scores = ([float(row[column]) for row in finding.rows if row[0] == kind] for column in (2, 3))
        assert distances == sorted(distances)
        assert distances[0] == pytest.approx(0.0, abs=1e-4)
        assert distances[-1] > 1
        assert scores[-1] > 0.75 * scores[0]
    assert finding.figure.count("<figure") == 4


def test_a_blur_keeps_the_mean_and_its_width() -> None:
    point = torch.zeros(1, 2, 15, 15)
    point[..., 7, 7] = 1.0
    soft = blurred(point, 1.0)
    torch.testing.assert_close(soft.sum((2, 3)), torch.ones(1, 2))
    places = (torch.arange(15) - 7.0).square()
    assert float((soft[0, 0].sum(0) * places).sum()) == pytest.approx(1.0, abs=0.05)  # its variance
    assert blurred(point, 0.0) is point
    grey = torch.full((4, 1, 15, 15), 0.5)
    assert float(noisy(grey, 0.1, 0).std()) == pytest.approx(0.1, rel=0.1)
    assert torch.equal(noisy(grey, 0.1, 0)[:2], noisy(grey[:2], 0.1, 0))
