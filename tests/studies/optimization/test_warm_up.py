"""Norms that stand first learn at once at a rate that throws norms that stand last out of the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.data.text.number_words import NumberWordsConfig
from weft.studies.optimization.warm_up import Row, Settings, describe, gradients, of_letters, study, train


def test_only_norms_that_stand_first_learn_without_a_warm_up(tmp_path: Path) -> None:
    settings, data = Settings(lr=6e-3, steps=30, width=32), NumberWordsConfig(limit=1000, pairs=1000).build()
    letters = of_letters(data)
    first, last = train(settings, data, "pre", 0), train(settings, data, "post", 0)
    assert first[-1][1] < letters / 2
    assert last[-1][1] > 0.9 * letters
    pre, post = gradients(settings, data, "pre"), gradients(settings, data, "post")
    assert max(pre) < 3 * min(pre)
    assert post[-1] > 3 * post[0]
    found: Row = {("pre", 0): first, ("pre", 20): first, ("post", 0): last, ("post", 20): first}
    finding = describe(settings, found, letters, {"pre": pre, "post": post})
    assert "With the norm first it learns without" in finding.claim
    assert "With the norm last it does not learn without" in finding.claim
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2


def test_a_warm_up_has_a_step_at_least() -> None:
    with pytest.raises(ConfigError, match="expected warmup ≥ 1"):
        study(Settings(warmup=0))
