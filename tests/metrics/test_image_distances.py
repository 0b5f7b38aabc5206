"""Distances and scores of image sets: known values, closed forms, streaming, and equality with torchmetrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.core.errors import DataError
from weft.metrics.image_distances import InceptionScore, Moments, frechet_distance, gaussian_distance, precision_and_recall


def drawn(number: int, features: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator, dtype=torch.float64)
    return shift + scale * torch.randn(number, features, generator=generator, dtype=torch.float64) @ mixing


def moments(*batches: Tensor) -> Moments:
    found = Moments()
    for batch in batches:
        found.add(batch)
    return found


def distance(first: Tensor, second: Tensor) -> float:
    return gaussian_distance(*moments(first).gaussian(), *moments(second).gaussian())


def score(logits: Tensor, size: int = 7) -> float:
    found = InceptionScore()
    for batch in logits.split(size):
        found.add(batch)
    return found.value()


def test_moments_do_not_depend_on_the_batches() -> None:
    x = drawn(50, 5, 1)
    mean, covariance = moments(*x.split(7)).gaussian()
    torch.testing.assert_close(mean, x.mean(0))
    torch.testing.assert_close(covariance, x.T.cov())
    with pytest.raises(DataError, match="at least 2 images"):
        moments(x[:1]).gaussian()


def test_the_distance_of_a_set_to_itself_is_0() -> None:
    x = drawn(200, 12, 1)
    assert distance(x, x) == pytest.approx(0.0, abs=1e-6)
    few = drawn(8, 12, 2)  # a covariance of less than full rank
    assert distance(few, few) == pytest.approx(0.0, abs=1e-5)


def test_the_distance_of_gaussians_has_its_closed_form() -> None:
    """Where covariances commute it is |m1 - m2|² + sum of (s1 - s2)²."""
    mean1, mean2 = torch.tensor([1.0, -2.0, 0.5]).double(), torch.tensor([0.0, 1.0, 0.5]).double()
    std1, std2 = torch.tensor([1.0, 2.0, 0.1]).double(), torch.tensor([0.5, 2.5, 3.0]).double()
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    covariances = [turn @ std.square().diag() @ turn.T for std in (std1, std2)]
    expected = float((mean1 - mean2).square().sum() + (std1 - std2).square().sum())
    assert gaussian_distance(mean1, covariances[0], mean2, covariances[1]) == pytest.approx(expected, rel=1e-9)
    parts = [(mean, covariance + mean.outer(mean)) for mean, covariance in zip((mean1, mean2), covariances, strict=True)]
    assert frechet_distance(*parts[0], *parts[1]) == pytest.approx(expected, rel=1e-9)


def test_a_shift_adds_its_square_and_order_does_not_matter() -> None:
    x, y = drawn(300, 6, 1), drawn(200, 6, 2, shift=0.3)
    assert distance(x, x + 0.5) == pytest.approx(6 * 0.25, rel=1e-6)
    assert distance(x, y) == pytest.approx(distance(y, x), rel=1e-9)


def test_the_distance_equals_that_by_the_root_of_a_product() -> None:
    """As TTUR's and pytorch-fid's scripts write it: |m1 - m2|² + trace(C1 + C2 - 2 sqrtm(C1 C2)), with numpy's covariances."""
    sqrtm = pytest.importorskip("scipy.linalg").sqrtm
    x, y = drawn(400, 64, 1), drawn(300, 64, 2, shift=0.4, scale=1.3)
    first, second = (np.cov(part.numpy(), rowvar=False) for part in (x, y))
    apart = float((x.mean(0) - y.mean(0)).square().sum())
    expected = apart + float(np.trace(first) + np.trace(second) - 2 * np.trace(sqrtm(first @ second).real))
    assert distance(x, y) == pytest.approx(expected, abs=1e-3)


def test_the_distance_equals_that_of_torchmetrics() -> None:
    pytest.importorskip("torchmetrics")
    from torchmetrics.image.fid import FrechetInceptionDistance

    class Same(torch.nn.Module):
        """The features are the images themselves."""

        num_features = 10

        def forward(self, x: Tensor) -> Tensor:
            return x

    peer = FrechetInceptionDistance(feature=Same(), input_img_size=(10,), normalize=True).set_dtype(torch.float64)
    x, y = drawn(400, 10, 1), drawn(300, 10, 2, shift=0.4, scale=1.3)
    peer.update(x, real=True)
    peer.update(y, real=False)
    assert distance(x, y) == pytest.approx(float(peer.compute()), abs=1e-3)


def test_the_score_is_1_where_all_images_look_alike_to_the_network() -> None:
    assert score(torch.randn(1, 10).expand(50, -1)) == pytest.approx(1.0, abs=1e-9)


def test_the_score_is_the_number_of_classes_at_most() -> None:
    sure = 1000.0 * torch.eye(10).repeat(20, 1)
    assert score(sure) == pytest.approx(10.0, rel=1e-9)
    assert score(1000.0 * torch.eye(10)[:4].repeat(20, 1)) == pytest.approx(4.0, rel=1e-9)


def test_one_image_of_each_class_cheats_the_score() -> None:
    """Ten images shown again and again score as much as a perfect generator; precision and recall notice."""
    assert score(1000.0 * torch.eye(10)) == pytest.approx(10.0, rel=1e-9)
    centres = 10 * torch.eye(10).repeat_interleave(30, 0)
    real = centres + torch.randn(300, 10, generator=torch.Generator().manual_seed(0))
    cheating = real[::30].repeat(30, 1)
    precision, recall = precision_and_recall(real, cheating)
    assert precision == 1.0
    assert recall < 0.1


def test_the_score_of_given_probabilities() -> None:
    shares = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]).double()
    mean = shares.mean(0)
    expected = math.exp(float((shares * (shares.log() - mean.log())).sum(1).mean()))
    assert score(shares.log(), size=1) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(DataError, match="at least 1"):
        InceptionScore().value()


def test_precision_falls_for_strangers_and_recall_for_what_is_missing() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.cat((torch.randn(200, 2, generator=generator), 50 + torch.randn(200, 2, generator=generator)))
    alike = torch.cat((torch.randn(200, 2, generator=generator), 50 + torch.randn(200, 2, generator=generator)))
    precision, recall = precision_and_recall(real, alike)
    assert min(precision, recall) > 0.9
    one_mode = torch.randn(400, 2, generator=generator)
    precision, recall = precision_and_recall(real, one_mode)
    assert precision > 0.9
    assert 0.4 < recall < 0.55
    precision, recall = precision_and_recall(real, torch.cat((alike[:200], 500 + alike[:200])))
    assert 0.4 < precision < 0.55
    assert precision_and_recall(real, real) == (1.0, 1.0)
    with pytest.raises(DataError, match="more than 3 images"):
        precision_and_recall(real, real[:3])


def test_features_far_from_zero_are_as_far_apart() -> None:
    torch.manual_seed(0)
    real, made = 0.1 * torch.randn(100, 32), 0.15 * torch.randn(100, 32)
    far = precision_and_recall(real + 1000, made + 1000)
    assert far == precision_and_recall((real + 1000) - 1000, (made + 1000) - 1000)
    assert far[0] < 0.5 < far[1]
