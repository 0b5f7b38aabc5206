"""How much one set of images is like another, told from the features or class probabilities that a network gives them.

The Fréchet distance (Heusel et al., 2017, arXiv:1706.08500) compares Gaussians fitted to the features of both sets. The Inception
score (Salimans et al., 2016, arXiv:1606.03498) asks that each image be surely of one class and all classes occur; it sees one set
only, and a single image of each class reaches the most. Precision and recall (Kynkäänniemi et al., 2019, arXiv:1904.06991) ask
how many of one set lie among the other. Numbers of different networks cannot be compared, so their names say which one it was.
Sums are of float64; sets of any size are added a batch at a time.
Shapes: N images, F features, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.core.errors import DataError


class Moments:
    """Mean and covariance of features that arrive a batch at a time."""

    def __init__(self) -> None:
        self.number = 0
        self.first: Tensor | None = None
        self.second: Tensor | None = None

    def add(self, features: Tensor) -> None:
        """features (B, F)."""
        features = features.double()
        first, second = features.sum(0), features.mT @ features
        self.first = first if self.first is None else self.first + first
        self.second = second if self.second is None else self.second + second
        self.number += len(features)

    def gaussian(self) -> tuple[Tensor, Tensor]:
        """Mean (F,) and covariance (F, F), the unbiased one."""
        if self.first is None or self.second is None or self.number < 2:
            raise DataError(f"a covariance needs at least 2 images, not {self.number}")
        mean = self.first / self.number
        return mean, (self.second - self.number * mean.outer(mean)) / (self.number - 1)


def gaussian_distance(mean1: Tensor, covariance1: Tensor, mean2: Tensor, covariance2: Tensor) -> float:
    """Squared Fréchet distance of two Gaussians with means (F,) and covariances (F, F) (Dowson & Landau, 1982).

    |m1 - m2|² + tr S1 + tr S2 - 2 tr (S1 S2)^½, where the eigenvalues of S1 S2 are those of the symmetric S1^½ S2 S1^½.
    """
    mean1, covariance1, mean2, covariance2 = (part.double() for part in (mean1, covariance1, mean2, covariance2))
    values, vectors = torch.linalg.eigh(covariance1)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.mT
    cross = torch.linalg.eigvalsh(root @ covariance2 @ root).clamp(min=0).sqrt().sum()
    distance = (mean1 - mean2).square().sum() + covariance1.trace() + covariance2.trace() - 2 * cross
    return float(distance.clamp(min=0))


def frechet_distance(first1: Tensor, second1: Tensor, first2: Tensor, second2: Tensor) -> float:
    """The same from the moments E x (F,) and E x xᵀ (F, F) of both."""
    first1, second1, first2, second2 = (moment.double() for moment in (first1, second1, first2, second2))
    return gaussian_distance(first1, second1 - first1.outer(first1), first2, second2 - first2.outer(first2))


class InceptionScore:
    """exp of the mean KL(p(y | x) || p(y)) of class probabilities that arrive a batch at a time: from 1 to C."""

    def __init__(self) -> None:
        self.number = 0
        self.shares: Tensor | None = None
        self.negative_entropy = 0.0

    def add(self, logits: Tensor) -> None:
        """logits (B, C) of the classes."""
        log_share = logits.double().log_softmax(-1)
        share = log_share.exp()
        self.shares = share.sum(0) if self.shares is None else self.shares + share.sum(0)
        self.negative_entropy += float((share * log_share.clamp(min=-1e9)).sum())
        self.number += len(logits)

    def value(self) -> float:
        if self.shares is None:
            raise DataError("an Inception score needs at least 1 image")
        mean = self.shares / self.number
        return float((self.negative_entropy / self.number - torch.xlogy(mean, mean).sum()).exp())


def precision_and_recall(real: Tensor, made: Tensor, neighbours: int = 3) -> tuple[float, float]:
    """Share of made (M, F) that lie among real (N, F), and of real that lie among made.

    An image lies among others if it is nearer to one of them than that one's own neighbour of the given rank.
    """
    for features in (real, made):
        if len(features) <= neighbours:
            raise DataError(f"precision and recall need more than {neighbours} images, not {len(features)}")
    real, made = real.double(), made.double()  # distances come from products, which lose those of features far from 0
    return _among(made, real, neighbours), _among(real, made, neighbours)


def _among(some: Tensor, others: Tensor, neighbours: int, chunk: int = 1024) -> float:
    """Share of `some` that lie among `others`, a chunk of distances at a time."""
    rank = neighbours + 1  # each is its own first neighbour
    reach = torch.cat([torch.cdist(part, others).kthvalue(rank, dim=1).values for part in torch.split(others, chunk)])
    inside = [(torch.cdist(part, others) <= reach).any(1) for part in torch.split(some, chunk)]
    return float(torch.cat(inside).double().mean())
