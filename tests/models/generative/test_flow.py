"""What every flow promises: a density that integrates to 1, exact inverses, draws with their density, latents that are normal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.models.base import Densities, HasLatents, Inverts, Samples, SamplesWithLogProb, need, offers
from weft.models.generative.flow import Flow
from weft.models.generative.iaf import IAFConfig
from weft.models.generative.maf import MAF, MAFConfig
from weft.models.generative.planar import PlanarFlowConfig
from weft.models.generative.realnvp import PRESETS as REALNVP_PRESETS
from weft.models.generative.realnvp import RealNVPConfig
from weft.models.generative.realnvp_images import PRESETS, RealNVPImagesConfig
from weft.nn.made import MADE


def shaken(model: torch.nn.Module, size: float = 0.15) -> torch.nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn(parameter.shape))
    return model.eval()


FLOWS = {
    "realnvp": RealNVPConfig(features=2, layers=4, hidden=(16,)),
    "maf": MAFConfig(features=2, layers=3, hidden=(16,)),
    "iaf": IAFConfig(features=2, layers=3, hidden=(16,)),
    "maf behind a logit": MAFConfig(features=2, layers=2, hidden=(16,), margin=0.05),
}
every_flow = pytest.mark.parametrize("name", list(FLOWS))
IMAGES = RealNVPImagesConfig(image=(1, 4, 4), scales=2, blocks=1, width=4)


def flow(name: str) -> Flow:
    model = shaken(FLOWS[name].build())
    assert isinstance(model, Flow)
    return model


@every_flow
def test_capabilities(name: str) -> None:
    for capability in (Densities, Inverts, Samples, SamplesWithLogProb, HasLatents):
        need(flow(name), capability)


@every_flow
def test_examples_are_never_cut_in_other_places(name: str) -> None:
    model = flow(name)
    for shape in ((3, 4), (2,), (2, 2, 3)):
        for asked in (model.log_prob, model.to_latent, model.to_data):
            with pytest.raises(DataError, match=r"takes examples of shape \(B, 2\), not \("):
                asked(torch.rand(shape))
    assert model.log_prob(torch.rand(2, 5).mT).shape == (5,), "in whatever order they lie in memory"


def test_an_empty_batch_gives_an_empty_answer() -> None:
    for config in (*FLOWS.values(), IMAGES):
        model, none = shaken(config.build()), torch.zeros(0, dtype=torch.int64)
        assert isinstance(model, Flow)
        x = model.sample(none)
        assert x.shape == (0, *model.outside)
        assert model.log_prob(x).shape == (0,)
        assert model.to_data(model.to_latent(x)).shape == x.shape


def test_behind_a_logit_nothing_lies_beyond_the_margins() -> None:
    model = flow("maf behind a logit")
    x = torch.tensor([[0.5, 0.5], [1.05, 0.5], [2.0, 0.5], [0.5, -0.1]])
    assert model.log_prob(x).isinf().tolist() == [False, False, True, True]
    assert model.to_latent(x).isfinite().all()
    assert (model.log_prob(x)[2:] < 0).all()


@every_flow
@torch.no_grad()
def test_the_density_integrates_to_one(name: str) -> None:
    model = flow(name).double()
    low, high = (-1 / 18, 19 / 18) if "logit" in name else (-12.0, 12.0)
    axis = low + (high - low) * (torch.arange(800).double() + 0.5) / 800
    x = torch.cartesian_prod(axis, axis)
    mass = torch.cat([model.log_prob(part) for part in x.split(200_000)]).exp().sum() * (axis[1] - axis[0]) ** 2
    assert abs(float(mass) - 1) < 2e-3


@every_flow
def test_the_density_is_the_latents_and_the_jacobian_s(name: str) -> None:
    """log p(x) = log p(z) + log |det dz/dx|, the determinant by autograd, whole flows through."""
    model, x = flow(name).double(), torch.rand(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.log_prob(x), by_autograd(model, x), atol=1e-5, rtol=0)


def by_autograd(model: Flow, x: Tensor) -> Tensor:
    """The log-density of each of x (B, ...), its Jacobian taken number by number."""
    found = []
    for one in x:
        jacobian = torch.autograd.functional.jacobian(lambda x: model.to_latent(x[None])[0], one).view(one.numel(), -1)
        latent = torch.distributions.Normal(0.0, 1.0).log_prob(model.to_latent(one[None])[0]).sum()
        found.append(latent + torch.linalg.slogdet(jacobian).logabsdet)
    return torch.stack(found)


@every_flow
@torch.no_grad()
def test_the_inverse_is_exact(name: str) -> None:
    model = flow(name)
    x = torch.rand(50, 2)
    assert (model.to_data(model.to_latent(x)) - x).abs().max() <= 1e-5


@every_flow
@torch.no_grad()
def test_draws_come_with_their_density(name: str) -> None:
    model, key = flow(name).double(), random.keys(0, torch.arange(50))
    x, log_prob = model.draw(key)
    torch.testing.assert_close(model.log_prob(x), log_prob, atol=1e-6, rtol=1e-6)
    assert torch.equal(model.sample(key), x)
    torch.testing.assert_close(model.to_latent(x), model.latents(key).double(), atol=1e-5, rtol=1e-5)


@every_flow
def test_draws_do_not_depend_on_their_neighbours(name: str) -> None:
    model, key = flow(name), random.keys(0, torch.arange(8))
    torch.testing.assert_close(model.sample(key)[3:5], model.sample(key[3:5]))


def test_images_at_several_scales_keep_their_volume_in_order() -> None:
    model = shaken(IMAGES.build().double(), 0.1)
    assert isinstance(model, Flow)
    x = torch.rand(2, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.log_prob(x), by_autograd(model, x), atol=1e-5, rtol=0)
    assert (model.to_data(model.to_latent(x)) - x).abs().max() <= 1e-5
    assert model.to_latent(x).shape == (2, 16)
    assert model.sample(torch.arange(3)).shape == (3, 1, 4, 4)


def test_every_pixel_of_an_image_is_changed_at_every_scale() -> None:
    model = shaken(RealNVPImagesConfig(image=(3, 8, 8), scales=3, blocks=1, width=4).build(), 0.1)
    x = torch.rand(1, 3, 8, 8, requires_grad=True)
    z = model.to_latent(x)  # type: ignore[operator]
    assert z.shape == (1, 192)
    (seen,) = torch.autograd.grad(z[0, -1], x)
    assert (seen != 0).all(), "the last latent knows the whole image"


def test_images_must_be_divisible() -> None:
    with pytest.raises(ConfigError, match="divisible by 4"):
        RealNVPImagesConfig(image=(1, 6, 6), scales=3).build()
    with pytest.raises(ConfigError, match="channels, height and width"):
        RealNVPImagesConfig().build()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="margin"):
        MAFConfig(features=2, margin=0.5).build()
    with pytest.raises(ConfigError, match="hidden"):
        MAFConfig(features=2, hidden=(0,)).build()
    with pytest.raises(ConfigError, match="layers"):
        IAFConfig(features=2, layers=0).build()


def test_maf_and_iaf_are_one_network_in_two_directions() -> None:
    """With the same weights, IAF's way to the data is MAF's way to the latent, and the changes of volume are opposite."""
    maf, iaf = flow("maf").double(), flow("iaf").double()
    pairs = zip(iaf.parameters(), maf.parameters(), strict=True)
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source)
        z = torch.randn(20, 2, dtype=torch.float64)
        torch.testing.assert_close(iaf.to_data(z), maf.to_latent(z))
        torch.testing.assert_close(iaf.to_latent(z), maf.to_data(z))
        torch.testing.assert_close(iaf.bijection(z)[1], -maf.bijection(iaf.to_latent(z))[1])


@pytest.mark.parametrize(("kind", "latent", "data"), [(MAFConfig, 1, 5), (IAFConfig, 5, 1)])
def test_which_direction_is_one_pass(kind: type[MAFConfig | IAFConfig], latent: int, data: int) -> None:
    """Of five numbers: a density of given points, samples, and samples with their density, which costs no pass more."""
    model, passes = kind(features=5, layers=2, hidden=(16,)).build(), 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    next(module for module in model.modules() if isinstance(module, MADE)).register_forward_hook(count)
    key = torch.arange(4)
    for expected, action in (
        (latent, lambda: model.log_prob(torch.zeros(4, 5))),
        (data, lambda: model.sample(key)),
        (data, lambda: model.draw(key)),
    ):
        passes = 0
        action()
        assert passes == expected


def test_a_deep_flow_is_autoregressive_where_no_order_is_reversed() -> None:
    model = shaken(MAF(MAFConfig(features=4, layers=1, hidden=(16,))).double())
    found = torch.autograd.functional.jacobian(lambda x: model.to_latent(x[None])[0], torch.randn(4).double())  # type: ignore[operator]
    assert torch.equal(found, found.tril())
    assert (found.tril() != 0).sum() == 10


def test_planar_flows_have_a_density_for_their_draws_alone() -> None:
    model = PlanarFlowConfig(features=2, layers=3).build().double()
    need(model, SamplesWithLogProb)
    assert not offers(model, Densities)
    assert not offers(model, Inverts)
    key = torch.arange(5)
    x, log_prob = model.draw(key)
    assert torch.equal(model.sample(key), x)
    z = random.normal(random.fold(key, "latent"), 2).double()
    for number in range(5):
        found = torch.autograd.functional.jacobian(lambda one: model(one[None])[0][0], z[number])
        expected = torch.distributions.Normal(0.0, 1.0).log_prob(z[number]).sum() - torch.linalg.slogdet(found).logabsdet
        assert float((log_prob[number] - expected).detach().abs()) < 1e-5


def test_presets_build() -> None:
    assert sum(p.numel() for p in REALNVP_PRESETS["mnist"].build().parameters()) == 10 * (784 * 1024 + 1024 + 1024 * 1568 + 1568 + 2 * 784)
    assert PRESETS["tiny"].scales == 2
