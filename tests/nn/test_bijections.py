"""Every layer against autograd: the change of volume it reports, its inverse, and what the mathematics says of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.nn.bijections import (
    LIMIT,
    AffineCoupling,
    Bijection,
    Chain,
    ElementwiseAffine,
    Inverse,
    Logit,
    Planar,
    ReversePermutation,
    Squeeze,
    bounded,
    checkerboard,
    half_mask,
    normal_log_prob,
)
from weft.nn.made import Autoregressive


def shaken(layer: nn.Module) -> nn.Module:
    """The layer in float64, with weights that hide nothing."""
    generator = torch.Generator().manual_seed(0)
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layer


def vector_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 10))


def image_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.Tanh(), nn.Conv2d(6, 4, 3, padding=1))


LAYERS = {
    "logit": (lambda: Logit(0.05), (5,)),
    "reversed": (ReversePermutation, (5,)),
    "squeeze": (Squeeze, (2, 4, 4)),
    "stretch": (lambda: ElementwiseAffine(5), (5,)),
    "stretch of channels": (lambda: ElementwiseAffine(2), (2, 4, 4)),
    "coupling": (lambda: AffineCoupling(half_mask(5, 1), vector_net()), (5,)),
    "checkerboard": (lambda: AffineCoupling(checkerboard(4, 4, 0), image_net()), (2, 4, 4)),
    "channels": (lambda: AffineCoupling(half_mask(2, 0)[:, None, None], image_net()), (2, 4, 4)),
    "autoregressive": (lambda: Autoregressive(5, (16, 16)), (5,)),
    "inverted": (lambda: Inverse(Autoregressive(5, (16,))), (5,)),
    "chain": (
        lambda: Chain(
            [
                Logit(1e-3),
                ElementwiseAffine(5),
                ReversePermutation(),
                Autoregressive(5, (8,)),
                AffineCoupling(half_mask(5, 0), vector_net()),
            ]
        ),
        (5,),
    ),
}
every_layer = pytest.mark.parametrize("name", list(LAYERS))


def made(name: str) -> tuple[Bijection, Tensor]:
    """A layer and a batch with values in (0, 1)."""
    build, shape = LAYERS[name]
    layer = shaken(build())
    assert isinstance(layer, Bijection)
    return layer, torch.rand(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def jacobian(function: object, x: Tensor) -> Tensor:
    """d f(x)_i / d x_j of one example, flattened."""
    found = torch.autograd.functional.jacobian(lambda one: function(one[None])[0].flatten(), x)  # type: ignore[operator]
    return found.reshape(x.numel(), x.numel())


@every_layer
def test_the_change_of_volume_is_the_determinant_of_the_jacobian(name: str) -> None:
    layer, x = made(name)
    _, change = layer(x)
    true = torch.stack([torch.linalg.slogdet(jacobian(layer, one)).logabsdet for one in x])
    assert (change - true).abs().max() <= 1e-5
    assert change.shape == (3,)


@every_layer
def test_the_inverse_undoes_the_layer_and_its_change_of_volume(name: str) -> None:
    layer, x = made(name)
    z, change = layer(x)
    back, undone = layer.inverse(z)
    assert (back - x).abs().max() <= 1e-5
    assert (change + undone).abs().max() <= 1e-5


@every_layer
def test_single_precision_is_good_enough(name: str) -> None:
    layer, x = made(name)
    z, change = layer(x)
    small = layer.float()
    again, other = small(x.float())
    assert (again - z).abs().max() <= 1e-4
    assert (other - change).abs().max() <= 1e-4
    assert (small.inverse(again)[0] - x).abs().max() <= 1e-5


def test_a_coupling_has_a_triangular_jacobian() -> None:
    layer, x = made("coupling")
    found = jacobian(layer, x[0])
    assert torch.equal(found[:2], torch.eye(5, dtype=torch.float64)[:2])  # the two numbers that are kept
    assert torch.equal(found[2:, 2:], found[2:, 2:].diag().diag())


@pytest.mark.parametrize("features", [1, 2, 7])
def test_planar_layers_obey_the_matrix_determinant_lemma(features: int) -> None:
    layer = shaken(Planar(features))
    assert isinstance(layer, Planar)
    z = torch.randn(4, features, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    change = layer(z)[1].detach()
    w, u = layer.weight.detach(), layer.direction().detach()
    slope = 1 - (z @ w + layer.bias.detach()).tanh().square()
    for one, told, own in zip(z, change, slope, strict=True):
        whole = torch.eye(features, dtype=torch.float64) + own * torch.outer(u, w)
        assert abs(float(torch.linalg.det(whole) - (1 + own * (w @ u)))) <= 1e-12  # the lemma
        assert abs(float(told - torch.linalg.slogdet(jacobian(layer, one)).logabsdet.detach())) <= 1e-5


def test_planar_layers_stay_invertible_whatever_their_parameters() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (0.1, 1.0, 10.0):
        for _ in range(50):
            layer = Planar(3)
            with torch.no_grad():
                layer.weight.copy_(size * torch.randn(3, generator=generator))
                layer.push.copy_(size * torch.randn(3, generator=generator))
                pull = float(layer.double().weight @ layer.direction())
                assert pull >= -1 - 1e-9
                assert layer(torch.randn(20, 3, generator=generator).double())[1].isfinite().all()
            line = torch.linspace(-5, 5, 1001).double()  # along w the map is s -> s + (w û) tanh(s + b), which must rise
            assert ((line + pull * line.tanh()).diff() > -1e-9).all()


def test_nothing_is_stretched_beyond_the_limit() -> None:
    assert bounded(torch.tensor([1e9, -1e9])).tolist() == [LIMIT, -LIMIT]
    torch.testing.assert_close(bounded(torch.tensor([0.01])), torch.tensor([0.01]))


def test_squeeze_moves_squares_into_channels() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    z, change = Squeeze()(x)
    assert z.shape == (1, 4, 2, 2)
    assert sorted(z[0, :, 0, 0].tolist()) == [0, 1, 4, 5]
    assert float(change) == 0


def test_masks() -> None:
    assert torch.equal(checkerboard(2, 3, 0), torch.tensor([[[0, 1, 0], [1, 0, 1]]]))
    assert torch.equal(checkerboard(2, 2, 0) + checkerboard(2, 2, 1), torch.ones(1, 2, 2, dtype=torch.int64))
    assert half_mask(5, 1).tolist() == [True, True, False, False, False]
    assert half_mask(5, 0).tolist() == [False, False, True, True, True]


def test_the_normal_density() -> None:
    z = torch.randn(4, 2, 3)
    expected = torch.distributions.Normal(0.0, 1.0).log_prob(z).flatten(1).sum(1)
    torch.testing.assert_close(normal_log_prob(z), expected)
