"""Weights are a distribution, bases are orthonormal, and the settings say what they accept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.base import Finding
from weft.studies.language import attention_averaging, head_variance
from weft.studies.language.attention import Problem, RandomKeys, attend, listed, normal, power


@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e6])
def test_weights_are_a_categorical_distribution(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    keys, values = normal(generator, 100, 9, 5), normal(generator, 9, 5)
    weights, outputs = attend(keys, values, scale * normal(generator, 20, 5))
    assert weights.shape == (100, 20, 9)
    assert outputs.shape == (100, 20, 5)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(100, 20, dtype=torch.float64), rtol=0, atol=1e-14)


def test_attention_is_the_sum_of_values_under_a_softmax_of_unscaled_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    keys, values, query = normal(generator, 4, 3), normal(generator, 4, 3), normal(generator, 3)
    scores = [sum(float(k * q) for k, q in zip(key, query)) for key in keys]
    shares = torch.tensor(scores, dtype=torch.float64).exp()
    expected = sum(share / shares.sum() * value for share, value in zip(shares, values))
    torch.testing.assert_close(attend(keys, values, query[None])[1][0], expected, rtol=0, atol=1e-12)


def test_bases_are_orthonormal_and_follow_the_seed() -> None:
    keys, values, _ = Problem().bases(7)
    for basis in (keys, values):
        torch.testing.assert_close(basis @ basis.mT, torch.eye(7, dtype=torch.float64), rtol=0, atol=1e-14)
    assert torch.equal(keys, Problem().bases(7)[0])
    assert not torch.equal(keys, Problem(seed=2).bases(7)[0])


def test_random_keys_have_the_covariance_asked_for() -> None:
    settings = RandomKeys(noise=0.25, draws=20_000, width=4, keys=2)
    means, _, generator = settings.bases(2)
    keys = settings.draw(means, generator)
    torch.testing.assert_close(keys.mean(0), means, rtol=0, atol=0.02)
    torch.testing.assert_close(keys[:, 1].mT.cov(), 0.25 * torch.eye(4, dtype=torch.float64), rtol=0, atol=0.02)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (RandomKeys(keys=17), "from 2 to 16"),
        (RandomKeys(keys=1), "from 2 to 16"),
        (RandomKeys(beta=0), "beta: expected more than 0"),
        (RandomKeys(noise=-1), "noise ≥ 0"),
        (RandomKeys(draws=1), "draws ≥ 2"),
    ],
)
@pytest.mark.parametrize("study", [attention_averaging.study, head_variance.study])
def test_wrong_settings_are_refused(study: Callable[[RandomKeys], Finding], settings: RandomKeys, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        study(settings)


def test_words_and_powers() -> None:
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
    assert power(torch.tensor([0.0, 1e-3], dtype=torch.float64)).tolist() == pytest.approx([-15.65, -3], abs=0.01)
