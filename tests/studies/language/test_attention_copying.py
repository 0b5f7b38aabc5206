"""A long query along one key copies its value, as fast as the formula says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.language.attention import attend, normal
from weft.studies.language.attention_copying import Settings, copy, expected, needed, random_weights, study


def test_weights_of_random_queries_are_distributions() -> None:
    weights = random_weights(Settings())
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-14)


@pytest.mark.parametrize("keys", [2, 32, 256])
def test_the_value_is_copied_as_the_formula_says(keys: int) -> None:
    betas = torch.tensor([0.0, 1, 5, 10, 20, 50], dtype=torch.float64)
    weights, errors = copy(Settings(), keys, betas)
    torch.testing.assert_close(errors, expected(keys, betas), rtol=1e-9, atol=1e-14)
    assert (errors[1:] <= errors[:-1]).all()
    assert weights[0] == pytest.approx(1 / keys)
    assert weights[-1] == pytest.approx(1)
    assert errors[-1] < 1e-3


def test_any_values_are_copied_by_any_of_the_keys() -> None:
    keys, _, generator = Settings().bases(32)
    values = 10 * normal(generator, 32, 256)
    assert ((attend(keys, values, 50 * keys)[1] - values).norm(dim=-1) < 1e-3).all()


@pytest.mark.parametrize("keys", [2, 32])
def test_the_length_needed(keys: int) -> None:
    around = needed(keys, 1e-3) + torch.tensor([-0.01, 0.01], dtype=torch.float64)
    before, after = copy(Settings(), keys, around)[1]
    assert after < 1e-3 < before


def test_the_page(tmp_path: Path) -> None:
    finding = study(Settings(keys=(3, 8), width=8))
    assert "0 weights are negative" in finding.claim
    assert "β > 7.8 with 3 keys and β > 8.9 with 8 keys" in finding.claim
    assert [row[:2] for row in finding.rows[:4]] == [("3", "5"), ("3", "10"), ("3", "20"), ("3", "50")]
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2


def test_no_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one number"):
        study(Settings(keys=()))
