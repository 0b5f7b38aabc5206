"""The small residual network that names the class of an image."""

from __future__ import annotations

import pytest
import torch

from weft.models.vision.convnet import ConvNetConfig


@pytest.mark.parametrize("normed", [False, True])
def test_no_image_knows_of_the_others_in_its_batch(normed: bool) -> None:
    torch.manual_seed(1)
    network = ConvNetConfig(image=(3, 8, 8), classes=4, channels=(6, 8), normed=normed).build()
    images = torch.rand(5, 3, 8, 8)
    torch.testing.assert_close(network(images)[2:3], network(images[2:3]))


def test_images_may_lie_in_memory_as_they_like() -> None:
    network = ConvNetConfig(image=(3, 8, 8), classes=4, channels=(6, 8)).build()
    images = torch.rand(5, 3, 8, 8)
    torch.testing.assert_close(network(images.flatten(1).mT.contiguous().mT), network(images))


def test_norms_keep_the_change_of_a_deep_block_as_large_as_its_input() -> None:
    """Without them every block adds less, and what reaches the head of many blocks hardly depends on the image."""
    spread = {}
    for normed in (False, True):
        torch.manual_seed(1)
        network = ConvNetConfig(image=(3, 16, 16), classes=4, channels=(16, 16, 16, 16), blocks=2, normed=normed).build()
        spread[normed] = network.features(torch.rand(32, 3, 16, 16)).std(0).mean().item()
    assert spread[True] > 2 * spread[False]
