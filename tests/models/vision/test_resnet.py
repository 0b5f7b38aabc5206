"""Residual, plain, dense and highway networks: published sizes, shortcuts, identities, the maps they give to others."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from weft.core.errors import ConfigError
from weft.models.vision import densenet, resnet
from weft.models.vision.highway import HighwayConfig, HighwayLayer
from weft.models.vision.preact_resnet import PreActResNetConfig
from weft.models.vision.resnet import PRESETS, ResNetConfig
from weft.nn.convolution.residual_blocks import BasicBlock, Bottleneck, PadShortcut, make_shortcut

PARAMETERS = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "resnet101": 44_549_160, "resnet152": 60_192_808}
FLOPS = {"resnet18": 1.8, "resnet34": 3.6, "resnet50": 3.8, "resnet101": 7.6, "resnet152": 11.3}
"""Billions of multiplications with additions, rounded as table 1 of the paper has them."""
CIFAR = {20: 0.27, 32: 0.46, 44: 0.66, 56: 0.85, 110: 1.7, 1202: 19.4}
"""Millions of parameters, as table 6 of the paper has them."""


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def flops(config: Any) -> float:
    with torch.device("meta"):
        model = config.build().eval()
        with FlopCounterMode(display=False) as counter:
            model(torch.empty(1, *config.image))
    return counter.get_total_flops() / 2e9


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_published_sizes(name: str) -> None:
    config = dataclasses.replace(PRESETS[name], stride_first=True)
    with torch.device("meta"):
        model = config.build()
    assert size(model) == PARAMETERS[name]
    assert flops(config) == pytest.approx(FLOPS[name], abs=0.07)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d) and module.kernel_size != (1, 1)]
    layers = len(convolutions) + 1 if config.block == "basic" else 3 * (len(convolutions) - 1) + 2
    assert f"resnet{layers}" == name


def test_152_layers_take_less_than_vgg() -> None:
    vgg19 = 19.6
    assert flops(PRESETS["resnet34"]) / vgg19 == pytest.approx(0.18, abs=0.01)
    assert flops(PRESETS["resnet152"]) < vgg19


@pytest.mark.parametrize("layers", list(CIFAR))
def test_sizes_for_cifar(layers: int) -> None:
    with torch.device("meta"):
        model = dataclasses.replace(resnet.cifar(layers), image=(3, 32, 32), classes=10).build()
    assert size(model) / 1e6 == pytest.approx(CIFAR[layers], abs=0.05 if layers > 100 else 0.005)
    assert sum(isinstance(m, (nn.Conv2d, nn.Linear)) for m in model.modules()) == layers


def test_dense_sizes() -> None:
    with torch.device("meta"):
        assert size(densenet.PRESETS["densenet121"].build()) == 7_978_856
        assert round(size(dataclasses.replace(densenet.cifar(100, 12), image=(3, 32, 32), classes=10).build()) / 1e6, 1) == 0.8
        assert (
            round(size(dataclasses.replace(densenet.cifar(40, 12, bottleneck=False), image=(3, 32, 32), classes=10).build()) / 1e6, 1)
            == 1.0
        )


def test_dense_blocks_grow_and_transitions_halve() -> None:
    model = dataclasses.replace(densenet.TINY, image=(3, 16, 16), classes=2, layers=(3, 2), growth=5, channels=8).build().eval()
    first, second = model.pyramid(torch.rand(2, 3, 16, 16))
    assert first.shape == (2, 8 + 3 * 5, 16, 16)
    assert second.shape == (2, (8 + 3 * 5) // 2 + 2 * 5, 8, 8)


def test_an_identity_shortcut_adds_no_parameters() -> None:
    """A plain network has exactly as many as a residual one with zeros for new channels, fewer than one with projections."""
    with torch.device("meta"):
        sizes = {kind: size(dataclasses.replace(PRESETS["resnet34"], shortcut=kind).build()) for kind in ("none", "pad", "projection")}
        everywhere = size(dataclasses.replace(PRESETS["resnet34"], shortcut="all_projections").build())
    assert sizes["none"] == sizes["pad"] < sizes["projection"] < everywhere


@torch.no_grad()
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
def test_a_branch_of_zeros_is_the_identity(block: str) -> None:
    """F = 0 leaves relu(x), which is x where x is not negative: what `zero_init` begins with."""
    model = ResNetConfig(image=(3, 8, 8), classes=2, blocks=(1, 2), channels=(4, 8), stem="cifar", block=block, zero_init=True).build()  # type: ignore[arg-type]
    last = model.stages[1][1].eval()
    x = torch.rand(2, 8 * model.expansion, 4, 4)
    assert torch.equal(last(x), x)
    assert torch.equal(last.residual(x), torch.zeros_like(x))


def test_shortcuts() -> None:
    assert make_shortcut("none", 4, 4, 1) is None
    assert isinstance(make_shortcut("projection", 4, 4, 1), nn.Identity)
    assert isinstance(make_shortcut("pad", 4, 4, 1), nn.Identity)
    x = torch.arange(2 * 4 * 4.0).view(1, 2, 4, 4)
    behind, around = PadShortcut(2, 4, 2)(x), PadShortcut(2, 4, 2, both_sides=True)(x)
    assert behind.shape == around.shape == (1, 4, 2, 2)
    assert torch.equal(behind[:, :2], x[:, :, ::2, ::2])
    assert not behind[:, 2:].any()
    assert torch.equal(around[:, 1:3], x[:, :, ::2, ::2])
    for kind in ("pad", "projection", "all_projections"):
        config = ResNetConfig(image=(3, 16, 16), classes=3, blocks=(2, 1), channels=(4, 8), stem="cifar", shortcut=kind)  # type: ignore[arg-type]
        assert config.build()(torch.rand(2, 3, 16, 16)).shape == (2, 3)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_block_keeps_or_halves_the_sides(stride: int) -> None:
    for block in (BasicBlock, Bottleneck):
        outputs = 6 * block.expansion
        made = block(4, 6, stride, make_shortcut("projection", 4, outputs, stride))
        assert made(torch.rand(2, 4, 8, 8)).shape == (2, outputs, 8 // stride, 8 // stride)


def test_maps_for_others() -> None:
    """C2 to C5, at strides 4 to 32, of any sides."""
    model = dataclasses.replace(PRESETS["resnet18"], classes=3).build().eval()
    maps = model.pyramid(torch.rand(1, 3, 64, 96))
    assert [tuple(each.shape[1:]) for each in maps] == [(64, 16, 24), (128, 8, 12), (256, 4, 6), (512, 2, 3)]


@torch.no_grad()
def test_the_gradient_has_an_identity_part() -> None:
    """Along pre-activated blocks d loss / d x_l is that of x_L plus what the branches add: with branches of zeros it is the same."""
    model = PreActResNetConfig(image=(3, 8, 8), classes=2, blocks=(4,), channels=(4,)).build().eval()
    for block in model.stages[0]:
        block.conv2.weight.zero_()
    with torch.enable_grad():
        x = torch.rand(2, 4, 8, 8, requires_grad=True)
        model.stages[0](x).square().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * x)


@torch.no_grad()
def test_a_highway_layer_mixes_by_its_gate() -> None:
    torch.manual_seed(0)
    layer, x = HighwayLayer(4, gate_bias=-2.0), torch.randn(2, 4, 6, 6)
    gate, change = torch.sigmoid(layer.gate(x)), torch.relu(layer.transform(x))
    torch.testing.assert_close(layer(x), gate * change + (1 - gate) * x)
    nn.init.constant_(layer.gate.bias, -100.0)  # type: ignore[arg-type]
    torch.testing.assert_close(layer(x), x)
    assert HighwayConfig(image=(1, 8, 8), classes=3, layers=4, channels=4, pool_every=1).build()(torch.rand(2, 64)).shape == (2, 3)


@torch.no_grad()
def test_batch_norm_normalises_in_training_and_keeps_in_evaluation() -> None:
    from weft.nn.convolution.residual_blocks import batch_norm

    torch.manual_seed(0)
    ours, theirs = batch_norm(3), nn.BatchNorm2d(3)
    x = torch.randn(8, 3, 4, 4) * 3 + 1
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x).mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    theirs(x)
    assert size(ours) == 2 * 3
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    torch.testing.assert_close(ours(x), (x - ours.running_mean[:, None, None]) / (ours.running_var[:, None, None] + 1e-5).sqrt())  # type: ignore[index]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (ResNetConfig(image=(3, 8, 8), classes=2, blocks=(1,), channels=(4, 8)), "as many numbers"),
        (ResNetConfig(image=(3, 8, 8), classes=2, blocks=(1, 1), channels=(8, 4), shortcut="pad"), "never fall"),
        (ResNetConfig(image=(8, 8), classes=2), "channels, height and width"),
        (densenet.DenseNetConfig(image=(3, 8, 8), classes=2, compression=0.0), "compression"),
        (densenet.DenseNetConfig(image=(3, 8, 8), classes=2, layers=()), "layers"),
    ],
)
def test_what_cannot_be_is_refused(config: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config.build()
    with pytest.raises(ConfigError, match="6 n"):
        resnet.cifar(21)
