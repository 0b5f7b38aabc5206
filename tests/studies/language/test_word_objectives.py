"""NCE becomes maximum likelihood, and faster; importance sampling fails where a model is sure; without noise words vectors collapse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.language import importance_sampling, nce_likelihood, nce_speed, no_negatives


def test_the_gradient_of_nce_turns_to_that_of_the_likelihood(tmp_path: Path) -> None:
    settings = nce_likelihood.Settings(words=20, contexts=10, width=8, noise=(1, 30, 1000), trained=(25,), steps=150, seeds=1)
    given, noise = nce_likelihood.language(settings, 1)
    torch.testing.assert_close(given.sum(1), torch.ones(10, dtype=torch.double))
    scores = given.log().requires_grad_()
    [at_the_truth] = torch.autograd.grad(nce_likelihood.nce_loss(scores, given, noise, 5), [scores])
    assert at_the_truth.abs().max() < 1e-12, "the language is where NCE ends"
    finding = nce_likelihood.study(settings)
    cosines = [float(row[1]) for row in finding.rows if row[1]]
    assert cosines == sorted(cosines)
    assert cosines[-1] > 0.999
    learned = {row[0]: row for row in finding.rows if not row[1]}
    mean, spread = map(float, learned["NCE, k = 25"][2].split(" ± "))
    assert abs(mean) < 0.2
    assert spread < 0.3
    assert float(learned["NCE, k = 25"][3]) < 0.5
    finding.write(tmp_path / "page.html")
    with pytest.raises(ConfigError, match="--contexts must not be above --words"):
        nce_likelihood.study(nce_likelihood.Settings(words=5, contexts=6))


def test_importance_weights_have_the_variance_of_the_chi_square_divergence(tmp_path: Path) -> None:
    settings = importance_sampling.Settings(words=200, samples=50, estimates=400, sharpness=(0.0, 2.5), seeds=1)
    q, p, _ = importance_sampling.model_of(settings, 1.0, 1)
    drawn = torch.multinomial(q, 400_000, True, generator=torch.Generator().manual_seed(0))
    assert float((p / q)[drawn].var()) == pytest.approx(importance_sampling.exact(q, p)[1], rel=0.1)
    finding = importance_sampling.study(settings)
    flat, sure = finding.rows
    assert (flat[2], flat[3], flat[6]) == ("0", "50.0", "2 %"), "drawn from the model itself, all weights are alike"
    assert float(sure[2]) > 5
    assert float(sure[3]) < 20
    assert float(sure[4]) > 2 * float(sure[5])
    finding.write(tmp_path / "page.html")


def text(folder: Path) -> str:
    words = ["the", "of", "and", "king", "queen", "river", "sea", "land", "tower", "road"]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(1 / torch.arange(1.0, 11), 6000, True, generator=generator).tolist()
    (folder / "text.txt").write_text(" ".join(words[i] for i in drawn))
    return str(folder / "text.txt")


def test_without_noise_words_vectors_collapse(tmp_path: Path) -> None:
    finding = no_negatives.study(no_negatives.Settings(path=text(tmp_path), negatives=(0, 5), steps=150, width=8, seeds=1))
    none, five = ([float(cell.removesuffix(" %")) for cell in row[1:]] for row in finding.rows)
    assert none[0] > 0.95
    assert none[1] > 95
    assert none[2] > 0.9
    assert five[2] < 0.6
    finding.write(tmp_path / "page.html")


def test_nce_is_compared_with_a_softmax(tmp_path: Path) -> None:
    settings = nce_speed.Settings(
        path=text(tmp_path), vocabularies=(10, 100), vocabulary=50, negatives=20, width=8, batch=32, steps=60, seeds=2
    )
    finding = nce_speed.study(settings)
    assert [row[0] for row in finding.rows[:2]] == ["a step of 10 words, ms", "a step of 100 words, ms"]
    perplexity = finding.rows[2]
    assert float(perplexity[3]) == pytest.approx(1.0, abs=0.1)
    assert 2 < float(perplexity[1].split(" ± ")[0]) < 10, "the ten words have a perplexity of 7.4 by themselves"
    finding.write(tmp_path / "page.html")
    with pytest.raises(ConfigError, match="expected vocabularies"):
        nce_speed.study(nce_speed.Settings(vocabularies=()))
