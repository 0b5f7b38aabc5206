"""Images filled in: which part is missing, and that what is drawn depends on nothing else."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import CapabilityError, ConfigError
from weft.models.energy.rbm import RBMConfig
from weft.models.generative.gan import GANConfig
from weft.models.generative.gated_pixelcnn import GatedPixelCNNConfig
from weft.models.generative.pixelcnn import PixelCNNConfig
from weft.models.generative.vae import VAEConfig
from weft.visual.inpainting import MASKS, inpaint, known_part

MODELS = {
    "rbm": RBMConfig(features=36, image=(1, 6, 6), hidden=8),
    "vae": VAEConfig(features=36, image=(1, 6, 6), latent=4, hidden=(16,)),
    "pixelcnn": PixelCNNConfig(image=(1, 6, 6), layers=1, width=8),
    "gated": GatedPixelCNNConfig(image=(1, 6, 6), layers=1, width=8),
}


def test_masks() -> None:
    for mask in MASKS:
        share = float((~known_part(mask, 8, 8)).float().mean())
        assert share == (0.25 if mask == "middle" else 0.5)
    assert known_part("lower", 5, 3).tolist() == [[True] * 3] * 2 + [[False] * 3] * 3
    with pytest.raises(ConfigError, match="expected one of lower"):
        known_part("all", 4, 4)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_known_stays_and_images_do_not_depend_on_each_other(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name].build().eval()  # type: ignore[attr-defined]
    x, known = torch.rand(3, 1, 6, 6), known_part("lower", 6, 6)
    whole = inpaint(model, x, known, n=2, seed=5)
    assert whole.shape == (3, 3, 1, 6, 6)
    shown = x if name == "vae" else x.round()
    for place in range(3):
        assert torch.equal(whole[:, place, 0, :3], shown[:, 0, :3])
    assert torch.equal(whole, inpaint(model, x, known, n=2, seed=5))
    assert torch.allclose(whole[:2], inpaint(model, x[:2], known, n=2, seed=5), atol=1e-6)
    assert name == "vae" or not torch.equal(whole[:, 1], whole[:, 2])
    changed = torch.where(known, x, 1 - x)
    assert torch.allclose(whole, inpaint(model, changed, known, n=2, seed=5), atol=1e-6)  # what is missing is not looked at


def test_a_pixelcnn_draws_the_rest_as_if_it_had_drawn_the_beginning() -> None:
    """Given the beginning of a sample, and the same chances, it ends as the sample did."""
    torch.manual_seed(0)
    model = PixelCNNConfig(image=(3, 5, 5), levels=4, layers=1, width=9).build().eval()
    key = torch.arange(4)
    drawn = model.sample(key)  # type: ignore[operator]
    known = torch.zeros(5, 5, dtype=torch.bool)
    known[:2], known[2, :3] = True, True
    assert torch.equal(model.inpaint(drawn, known.expand_as(drawn), key), drawn)  # type: ignore[operator]
    with pytest.raises(CapabilityError, match="only the end of an image"):
        model.inpaint(drawn, ~known.expand_as(drawn), key)  # type: ignore[operator]


def test_what_cannot_be_filled_in() -> None:
    with pytest.raises(CapabilityError, match="does not offer Inpaints"):
        inpaint(GANConfig(features=36, image=(1, 6, 6)).build(), torch.rand(1, 1, 6, 6), known_part("lower", 6, 6))
    with pytest.raises(ConfigError, match="n must be at least 1"):
        inpaint(MODELS["rbm"].build(), torch.rand(1, 1, 6, 6), known_part("lower", 6, 6), n=0)  # type: ignore[attr-defined]
