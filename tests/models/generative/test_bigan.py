"""Shapes, and the theorem: where no discriminator can tell the pairs apart, the encoder inverts the generator."""

from __future__ import annotations

import dataclasses

import torch

from weft.models.base import HasLatents, Inverts, Samples, offers
from weft.models.generative.bigan import TINY
from weft.objectives.language.bidirectional import BidirectionalConfig

CONFIG = dataclasses.replace(TINY, features=12, image=(1, 3, 4))


def test_shapes_and_capabilities() -> None:
    model = CONFIG.build().eval()
    assert offers(model, Samples)
    assert offers(model, HasLatents)
    assert offers(model, Inverts)
    x = torch.rand(5, 12)
    assert model(x).shape == (5, 12)
    assert model.to_latent(x).shape == (5, 4)
    assert model.sample(torch.arange(5)).shape == (5, 1, 3, 4)
    assert float(model.latents(torch.arange(200)).abs().max()) <= 1
    assert model.discriminate_pair(x, model.to_latent(x)).shape == (5,)


class Permutation(torch.nn.Module):
    """Codes and examples are one of K; generator and encoder are tables, the discriminator is free on every pair."""

    def __init__(self, generator: list[int], encoder: list[int]):
        super().__init__()
        self.made, self.code = torch.eye(3)[generator], torch.eye(3)[encoder]
        self.odds = torch.nn.Parameter(torch.zeros(3, 3))

    def latents(self, key: torch.Tensor) -> torch.Tensor:
        return torch.eye(3)[key % 3]

    def to_data(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.made

    def to_latent(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.code

    def discriminate_pair(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bi,ij,bj->b", x, self.odds, z)


def worth(model: Permutation) -> float:
    """The discriminator's loss at its best, log 4 where it can tell nothing."""
    objective = BidirectionalConfig().build()
    batch = {"image": torch.eye(3).repeat(4, 1), "key": torch.arange(12)}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    for _ in range(100):
        optimizer.zero_grad()
        loss = objective(model, batch, "discriminator").sums["loss"] / 12
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def test_only_the_inverse_encoder_cannot_be_told() -> None:
    assert abs(worth(Permutation([1, 2, 0], [2, 0, 1])) - 1.3863) < 1e-3
    assert worth(Permutation([1, 2, 0], [1, 2, 0])) < 0.2
    assert worth(Permutation([0, 1, 2], [0, 2, 1])) < 1.0
