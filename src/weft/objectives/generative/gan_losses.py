"""The losses of discriminator and generator, and what may be added to them.

Scores are numbers per example, (B,) or (B, ...) for several patches of one: log-odds that it is real, or a critic's value.
Every loss here is minimised, so the gradient penalty is added to the critic's loss (and would be subtracted where a text
maximises over the critic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random

Loss = Literal["non_saturating", "saturating", "wasserstein", "hinge", "least_squares"]
Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class GANLoss:
    """The loss of each side by a score."""

    real: Part
    """The discriminator, by the score of a real example."""
    fake: Part
    """The discriminator, by the score of a generated one."""
    generator: Part
    """The generator, by the score of what it generated."""


def label_smoothed(loss: Part, other: Part, smoothing: float) -> Part:
    """A loss whose target is 1 - smoothing instead of 1."""
    return lambda score: (1 - smoothing) * loss(score) + smoothing * other(score)


def bce_real(score: Tensor) -> Tensor:
    """-log D, from log-odds, which no score makes infinite."""
    return F.softplus(-score)


def bce_fake(score: Tensor) -> Tensor:
    """-log(1 - D), from log-odds."""
    return F.softplus(score)


GAN_LOSSES = {
    # Goodfellow et al. (2014, arXiv:1406.2661): -log D(generated), or the minimax game's log(1 - D(generated))
    "non_saturating": GANLoss(bce_real, bce_fake, bce_real),
    "saturating": GANLoss(bce_real, bce_fake, lambda score: -F.softplus(score)),
    # Arjovsky et al. (2017, arXiv:1701.07875)
    "wasserstein": GANLoss(torch.neg, lambda score: score, torch.neg),
    # Lim & Ye (2017, arXiv:1705.02894)
    "hinge": GANLoss(lambda score: F.relu(1 - score), lambda score: F.relu(1 + score), torch.neg),
    # Mao et al. (2016, arXiv:1611.04076)
    "least_squares": GANLoss(lambda score: (score - 1).square(), torch.square, lambda score: (score - 1).square()),
}


def gan_loss(loss: Loss, smoothing: tuple[float, float] = (0.0, 0.0)) -> GANLoss:
    """The losses of that name. smoothing: smoothing in the targets of real and of generated examples, for the two losses by odds.

    With doubts a and b the best D is ((1 - a) p + b q) / (p + q). A smoothing b leaves D = b where there is no data at all, so the
    generator is not driven away from there: one-sided smoothing has b = 0 (Salimans et al., 2016).
    """
    plain = GAN_LOSSES[loss]
    if not any(smoothing):
        return plain
    return GANLoss(label_smoothed(bce_real, bce_fake, smoothing[0]), label_smoothed(bce_fake, bce_real, smoothing[1]), plain.generator)


def per_example(loss: Tensor) -> Tensor:
    """(B, ...) -> the mean over the patches of each example (B,)."""
    return loss.flatten(1).mean(1) if loss.ndim > 1 else loss


def gradient_penalty(critic: Part, real: Tensor, fake: Tensor, key: Tensor) -> Tensor:
    """(|gradient of the critic| - 1)² of each example, at a point drawn between its real and its generated (Gulrajani et al., 2017).

    The norm is over everything but the batch. real and fake (B, ...), key (B,) -> (B,).
    """
    training = torch.is_grad_enabled()
    share = random.uniform(random.fold(key, "between")).to(real.dtype).view(-1, *[1] * (real.ndim - 1))
    between = torch.lerp(fake.detach(), real, share)
    with torch.enable_grad():  # validation has gradients off
        between = between.requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=training)
    length: Tensor = slope.flatten(1).norm(dim=1)
    return (length - 1).square()


def feature_matching_loss(real: Tensor, fake: Tensor) -> Tensor:
    """|mean of features of real examples - mean of those of generated ones|², each (B, F) (Salimans et al., 2016)."""
    return (real.mean(0) - fake.mean(0)).square().sum()
