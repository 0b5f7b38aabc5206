"""One-hot vectors are √2 apart, dense ones know which words are alike; a model says how often a context goes on in each way."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.nn.one_hot import one_hot
from weft.studies.language import one_hot as study_of_vectors
from weft.studies.language import toy_corpus


def test_one_hot_vectors_are_all_as_far_and_dense_ones_are_not(tmp_path: Path) -> None:
    settings = study_of_vectors.Settings(groups=5, words=6, sentences=1500, width=5)
    groups = torch.arange(30) // 6
    within, between, right = study_of_vectors.distances(one_hot(torch.arange(30), 30).float(), groups)
    torch.testing.assert_close(torch.cat([within, between]), torch.full((435,), math.sqrt(2)))
    assert right == pytest.approx(5 / 29)
    within, between, right = study_of_vectors.distances(study_of_vectors.dense(study_of_vectors.counts(settings), 5).float(), groups)
    assert right == 1.0
    assert within.mean() < between.mean() / 2
    finding = study_of_vectors.study(settings)
    assert finding.rows[0][1:] == ("30", "1.414 – 1.414", "1.414 – 1.414", "17.2 %")
    assert finding.rows[1][1] == "5"
    finding.write(tmp_path / "page.html")
    assert "√2 = 1.414" in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="expected two groups"):
        study_of_vectors.study(study_of_vectors.Settings(groups=1))


def test_models_reproduce_the_shares_of_a_toy_corpus() -> None:
    assert toy_corpus.counted() == pytest.approx({"是": 2 / 3, "爆": 1 / 3})
    for config in toy_corpus.MODELS.values():
        shares = toy_corpus.train(toy_corpus.Settings(steps=150), config)[-1][1]
        assert shares["是"] == pytest.approx(0.667, abs=0.01)
        assert shares["爆"] == pytest.approx(0.333, abs=0.01)
    finding = toy_corpus.study(toy_corpus.Settings(steps=10))
    assert finding.rows[0] == ("the sentences", "0.667", "0.333", "0.000")
    assert finding.head == ("", "是", "爆", "all others")
    with pytest.raises(ConfigError, match="expected steps"):
        toy_corpus.study(toy_corpus.Settings(steps=1))
