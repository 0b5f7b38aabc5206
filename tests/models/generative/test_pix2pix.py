"""The U-Net's skips, the receptive field of PatchGAN, and shapes."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.models.generative.pix2pix import PatchGAN, Pix2PixConfig, UNet


def test_shapes() -> None:
    model = Pix2PixConfig(source_image=(1, 16, 16), image=(3, 16, 16), width=4, patch_layers=1).build()
    source = torch.rand(2, 1, 16, 16)
    made = model(source).detach()
    assert made.shape == (2, 3, 16, 16)
    assert 0 < float(made.min()) < float(made.max()) < 1
    assert model.discriminate(source, made).shape == (2, 6, 6)


@pytest.mark.parametrize(("layers", "field"), [(0, 1), (1, 16), (2, 34), (3, 70)])
def test_a_score_sees_a_patch_of_the_papers_size(layers: int, field: int) -> None:
    torch.manual_seed(0)
    network = PatchGAN(1, 2, layers, 128).double()
    for module in network.modules():
        if isinstance(module, torch.nn.InstanceNorm2d):
            module.forward = lambda x: x  # type: ignore[method-assign, assignment]  # a norm sees all of the image
    x = torch.rand(1, 1, 128, 128, dtype=torch.float64, requires_grad=True)
    score = network(x)
    score[0, score.size(1) // 2, score.size(2) // 2].backward()
    touched = x.grad[0, 0].abs().sum(0).nonzero()  # type: ignore[index]
    assert int(touched.max() - touched.min()) + 1 == field


def test_what_was_seen_on_the_way_down_is_seen_on_the_way_up() -> None:
    """With the bottleneck silenced, an input still reaches the output."""
    torch.manual_seed(0)
    network = UNet(1, 1, 4, 3, 0.0, 8).eval()
    for parameter in network.down[-1].parameters():
        parameter.data.zero_()
    first, second = torch.rand(2, 1, 1, 8, 8)
    assert not torch.allclose(network(first), network(second), atol=1e-4)


def test_dropout_is_its_noise() -> None:
    model = Pix2PixConfig(source_image=(1, 16, 16), image=(1, 16, 16), width=4, patch_layers=1).build()
    source = torch.rand(1, 1, 16, 16)
    assert not torch.equal(model(source), model(source))
    model.eval()
    assert torch.equal(model(source), model(source))


@pytest.mark.parametrize(
    "changes", [{"downsamplings": 5}, {"patch_layers": 3}, {"image": (1, 8, 8)}, {"source_image": (1, 16, 8)}, {"dropout": 1.0}]
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, object]) -> None:
    sizes: dict[str, object] = {"source_image": (1, 16, 16), "image": (1, 16, 16), "width": 2, "patch_layers": 1}
    with pytest.raises(ConfigError):
        Pix2PixConfig(**(sizes | changes)).build()  # type: ignore[arg-type]
