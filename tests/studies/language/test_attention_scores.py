"""Scores of attention by width: an unscaled dot loses entropy and gradient, a scaled one and an additive one keep theirs."""

from __future__ import annotations

import math

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.attention_scores import Settings, measured, study


def test_the_unscaled_dot_collapses_and_the_others_stay() -> None:
    settings = Settings()
    deviation, entropy, jacobian = measured(settings, "dot", 1024, 1)
    assert deviation == pytest.approx(32, rel=0.1), "the root of the width"
    assert entropy < 0.3 and jacobian < 0.1
    for kind in ("scaled_dot", "additive"):
        narrow, wide = (measured(settings, kind, width, 1) for width in (64, 1024))  # type: ignore[arg-type]
        assert wide[1] == pytest.approx(narrow[1], rel=0.05) and wide[2] == pytest.approx(narrow[2], rel=0.2)
        assert 0.7 * math.log(settings.keys) < wide[1] < math.log(settings.keys)
    assert measured(settings, "scaled_dot", 1024, 1)[0] == pytest.approx(1, rel=0.1)


def test_the_jacobian_is_that_of_the_softmax() -> None:
    """With one query, its norm is sqrt(Σ p² - 2 Σ p³ + (Σ p²)²)."""
    import torch

    settings = Settings(queries=1, keys=5)
    torch.manual_seed(7)
    query, keys = torch.randn(1, 1, 3), torch.randn(1, 5, 3)
    p = (query @ keys.mT)[0, 0].double().softmax(-1)
    by_hand = (p.square().sum() - 2 * p.pow(3).sum() + p.square().sum() ** 2).sqrt()
    assert measured(settings, "dot", 3, 7)[2] == pytest.approx(float(by_hand), rel=1e-5)


def test_the_study() -> None:
    found = study(Settings(widths=(4, 64), seeds=(1, 2)))
    assert len(found.rows) == 6 and "entropy, nats" in found.figure and "text/csv" in found.figure
    assert all("±" in row[2] for row in found.rows)
    with pytest.raises(ConfigError, match="at least 2 keys"):
        study(Settings(keys=1))
