"""Both PixelCNNs: nothing comes from later pixels, the whole is a distribution, and only one of them has a blind spot."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.models.base import Densities, Inverts, Samples, need, offers
from weft.models.generative.gated_pixelcnn import GatedPixelCNNConfig
from weft.models.generative.pixelcnn import PixelCNNConfig, PixelModel
from weft.nn.convolution.masked_convolution import MaskedConv2d

KINDS = {"plain": PixelCNNConfig, "gated": GatedPixelCNNConfig}
both = pytest.mark.parametrize("kind", list(KINDS))


def model(kind: str, image: tuple[int, ...] = (1, 7, 7), **settings: int) -> PixelModel:
    torch.manual_seed(0)
    settings = {"layers": 6, "width": 12, "first_kernel": 5, **settings}
    made = KINDS[kind](image=image, **settings).build().eval()
    assert isinstance(made, PixelModel)
    return made


def seen(made: PixelModel, place: tuple[int, int, int]) -> Tensor:
    """Which numbers of an image (C, H, W) the logits at (colour, row, column) depend on."""
    x = torch.rand(32, *made.image, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (gradient,) = torch.autograd.grad(made(x)[(slice(None), slice(None), *place)].square().sum(), x)
    return (gradient != 0).any(0)


def order(image: tuple[int, ...]) -> Tensor:
    """The number of each pixel and colour in the order in which they are drawn."""
    colours, height, width = image
    return torch.arange(colours * height * width).view(height, width, colours).permute(2, 0, 1)


@both
@pytest.mark.parametrize("image", [(1, 7, 7), (3, 5, 6)])
def test_nothing_comes_from_the_same_or_a_later_pixel(kind: str, image: tuple[int, ...]) -> None:
    made, number = model(kind, image), order(image)
    for place in itertools.product(range(image[0]), (0, 2, image[1] - 1), (0, 3, image[2] - 1)):
        assert not (seen(made, place) & (number >= number[place])).any(), place


def test_only_the_gated_one_sees_all_that_came_before() -> None:
    number, place = order((1, 7, 7)), (0, 4, 2)
    before = number < number[place]
    plain, gated = (seen(model(kind, first_kernel=3, layers=8), place) for kind in KINDS)
    assert torch.equal(gated, before)
    blind = before & ~plain
    assert blind[0].nonzero().tolist() == [[1, 6], [2, 5], [2, 6], [3, 4], [3, 5], [3, 6]], "a triangle above and to the right"


def test_a_stack_of_masks_a_loses_the_nearest_pixels() -> None:
    """Mask A in every layer hides the place itself each time: after three layers the two pixels to the left are gone."""
    for kinds, nearest in (("AAA", 3), ("ABB", 1)):
        layers = [MaskedConv2d(1, 1, (1, 3), kind) for kind in kinds]  # type: ignore[arg-type]
        x = torch.randn(1, 1, 1, 9, requires_grad=True)
        torch.nn.Sequential(*layers)(x)[0, 0, 0, 6].backward()
        assert x.grad is not None
        assert int(x.grad[0, 0, 0].nonzero().max()) == 6 - nearest


@both
@torch.no_grad()
def test_probabilities_of_all_images_add_up_to_one(kind: str) -> None:
    made = model(kind, (1, 3, 3), layers=1)
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=9))).view(-1, 1, 3, 3)
    assert abs(float(made.log_prob(every).exp().sum()) - 1) < 1e-5


@torch.no_grad()
def test_colours_and_levels_too() -> None:
    made = model("plain", (2, 1, 2), layers=1, levels=3)
    every = torch.tensor(list(itertools.product([0.0, 0.5, 1.0], repeat=4))).view(-1, 2, 1, 2)
    assert abs(float(made.log_prob(every).exp().sum()) - 1) < 1e-5


@both
@torch.no_grad()
def test_samples_have_the_model_distribution(kind: str) -> None:
    made = model(kind, (1, 2, 2), layers=1)
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4))).view(-1, 1, 2, 2)
    drawn = made.sample(random.keys(0, torch.arange(20_000)))
    code = (drawn.flatten(1) * 2.0 ** torch.arange(3, -1, -1)).sum(1).long()
    expected = made.log_prob(every).exp()
    found = torch.bincount(code, minlength=16) / len(drawn)
    assert (found - expected).abs().max() < 5 * (expected * (1 - expected) / len(drawn)).sqrt().max()


@both
def test_samples_are_of_the_levels_and_do_not_depend_on_their_neighbours(kind: str) -> None:
    made, key = model(kind, (3, 3, 4), levels=4, layers=1), random.keys(0, torch.arange(6))
    drawn = made.sample(key)
    assert drawn.shape == (6, 3, 3, 4)
    assert set((3 * drawn).unique().tolist()) <= {0.0, 1.0, 2.0, 3.0}
    assert torch.equal(drawn[2:4], made.sample(key[2:4]))


@both
@torch.no_grad()
def test_in_double_precision_and_in_any_order_in_memory(kind: str) -> None:
    made = model(kind, (1, 2, 3), layers=1).double()
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)), dtype=torch.float64).view(-1, 1, 2, 3)
    found = made.log_prob(every)
    assert abs(float(found.exp().sum()) - 1) < 1e-12
    assert torch.equal(made.log_prob(every.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)), found)
    assert made.sample(random.keys(0, torch.arange(2))).dtype == torch.float64
    assert made.sample(random.keys(0, torch.arange(0))).shape == (0, 1, 2, 3)
    with pytest.raises(DataError, match=r"takes examples of shape \(B, 1, 2, 3\), not \(2, 1, 3, 4\)"):
        made.log_prob(torch.zeros(2, 1, 3, 4, dtype=torch.float64))


@both
def test_it_is_a_density_and_no_flow(kind: str) -> None:
    need(model(kind), Densities)
    need(model(kind), Samples)
    assert not offers(model(kind), Inverts)


@both
def test_wrong_settings_are_refused(kind: str) -> None:
    for message, settings in {
        "--model.first_kernel must be odd": {"first_kernel": 4},
        "multiple of the 3 colours": {"image": (3, 4, 4), "width": 8},
        "--model.levels": {"levels": 1},
        "colours, height and width": {"image": ()},
    }.items():
        with pytest.raises(ConfigError, match=message):
            KINDS[kind](**{"image": (1, 4, 4), **settings}).build()  # type: ignore[arg-type]
