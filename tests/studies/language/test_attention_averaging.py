"""A query for two keys averages their values, exactly with exact keys; and a projection takes a sum apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.studies.language.attention import RandomKeys
from weft.studies.language.attention_averaging import average, expected, expected_noisy, extract, study


@pytest.mark.parametrize("keys", [2, 3, 8, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_projection_takes_a_sum_apart(keys: int, seed: int) -> None:
    assert extract(RandomKeys(keys=keys, seed=seed)) < 1e-10


@pytest.mark.parametrize("keys", [2, 3, 8])
def test_exact_keys_give_the_average_in_the_limit(keys: int) -> None:
    settings = RandomKeys(keys=keys)
    means, values, _ = settings.bases(keys)
    betas = settings.betas(11)
    weights, errors = average(means, values, betas, means[:2].sum(0))
    torch.testing.assert_close(errors, expected(keys, betas), rtol=1e-9, atol=1e-13)
    assert weights[0] == pytest.approx(1 / keys)
    assert weights[-1] == pytest.approx(0.5)
    assert errors[-1] < 1e-12
    if keys > 2:  # with two there is nothing but their average
        assert (errors[1:5] < errors[:4] / 10).all()


def test_random_keys_still_give_the_average() -> None:
    settings = RandomKeys(draws=4000)
    means, values, generator = settings.bases(8)
    betas = torch.tensor([10.0, 20, 50], dtype=torch.float64)
    errors = average(settings.draw(means, generator), values, betas, means[:2].sum(0))[1]
    assert errors.shape == (4000, 3)
    assert (errors[:, 0] < 0.03).all()
    torch.testing.assert_close(errors.mean(0), expected_noisy(settings.noise, betas), rtol=0.05, atol=0)


def test_the_average_is_as_exact_as_the_keys() -> None:
    found = []
    for noise in (1e-6, 1e-10, 1e-14):
        settings = RandomKeys(noise=noise, draws=500)
        means, values, generator = settings.bases(8)
        keys = settings.draw(means, generator)
        found.append(float(average(keys, values, torch.tensor([50.0], dtype=torch.float64), means[:2].sum(0))[1].max()))
    assert found[0] > 50 * found[1] > 2500 * found[2]
    assert found[2] < 1e-4


def test_the_page(tmp_path: Path) -> None:
    finding = study(RandomKeys(draws=200))
    assert "away at the best β, 7.5," in finding.claim
    assert [row[0] for row in finding.rows] == ["0", "5", "10", "15", "20", "30", "40", "50"]
    assert len({len(row) for row in (finding.head, *finding.rows)}) == 1
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2
