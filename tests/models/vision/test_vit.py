"""The vision Transformer: patches are cut and multiplied, its size, and what it refuses; parity is in tests/convert/test_vit.py."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.models.base import Classifies, need
from weft.models.vision.vit import PRESETS, TINY, ViT, ViTConfig
from weft.training.optimizer.updater import parameter_kinds

CONFIG = dataclasses.replace(TINY, image=(3, 8, 6), classes=5, init_std=0.2)


def built(config: ViTConfig) -> ViT:
    torch.manual_seed(0)
    return config.build().eval()


def test_base_16_has_86567656_parameters() -> None:
    with torch.device("meta"):
        model = PRESETS["b16"].build()
    assert sum(p.numel() for p in model.parameters()) == 86_567_656
    assert model.position_embedding.shape == (1, 197, 768)


@pytest.mark.parametrize("image", [(3, 8, 6), (1, 9, 7), (2, 2, 2)])
def test_a_patch_is_cut_out_and_multiplied_by_one_matrix(image: tuple[int, int, int]) -> None:
    """The convolution with the stride of its kernel is unfold and a linear layer; a border narrower than a patch is left out."""
    model = built(dataclasses.replace(CONFIG, image=image))
    x = torch.randn(4, *image)
    pieces = F.unfold(x, kernel_size=2, stride=2).mT  # (B, N, C * 4)
    by_hand = F.linear(pieces, model.patches.weight.flatten(1), model.patches.bias)
    torch.testing.assert_close(model.patches(x).flatten(2).mT, by_hand, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("image", [(3, 8, 6), (2, 21), (1, 4, 6, 4)])
def test_images_waves_and_videos_go_through_the_same_encoder(image: tuple[int, ...]) -> None:
    model = built(dataclasses.replace(CONFIG, image=image))
    need(model, Classifies)
    x = torch.randn(4, *image)
    pieces = x
    for side in range(2, x.ndim):
        pieces = pieces.unfold(side, 2, 2)  # the patches of this side, and at the end the pixels in each
    patches = pieces.flatten(x.ndim).flatten(2, x.ndim - 1).permute(0, 2, 1, 3).flatten(2)  # (B, N, C * 2 ** sides)
    torch.testing.assert_close(
        model.patches(x).flatten(2).mT, F.linear(patches, model.patches.weight.flatten(1), model.patches.bias), atol=1e-5, rtol=1e-5
    )
    assert model.hidden(x).shape == (4, 1 + patches.size(1), 32)
    assert model.classify(x).shape == (4, 5)
    assert torch.equal(model.classify(x), model.head(model.hidden(x)[:, 0]))


def permuted(image: Tensor) -> Tensor:
    """The same patches, 2 by 2 pixels each, in another order: those of the upper and the lower half change places."""
    return image.roll(image.size(2) // 2, dims=2)


def test_order_is_told_by_positions_alone() -> None:
    model, image = built(CONFIG), torch.randn(2, 3, 8, 6)
    assert not torch.allclose(model(image), model(permuted(image)), atol=1e-4)
    with torch.no_grad():
        model.position_embedding.zero_()
    torch.testing.assert_close(model(image), model(permuted(image)), atol=1e-5, rtol=1e-5)


def test_dropout_acts_in_training_only() -> None:
    model, image = built(dataclasses.replace(CONFIG, dropout=0.3, attention_dropout=0.3)), torch.randn(2, 3, 8, 6)
    assert torch.equal(model(image), model(image))
    model.train()
    assert not torch.equal(model(image), model(image))


def test_later_blocks_are_skipped_more_often() -> None:
    model = built(dataclasses.replace(CONFIG, layers=3, drop_path=0.2))
    assert [block.drop_path.share for block in model.blocks] == pytest.approx([0.0, 0.1, 0.2])  # type: ignore[union-attr]
    image = torch.randn(64, 3, 8, 6)
    assert torch.equal(model(image), model(image))
    model.train()
    assert not torch.equal(model(image), model(image))
    assert built(dataclasses.replace(CONFIG, layers=1, drop_path=0.2)).blocks[0].drop_path.share == 0.0  # type: ignore[union-attr]


def test_what_is_decayed() -> None:
    kinds = parameter_kinds([("", built(CONFIG))])
    assert {kinds[name] for name in ("class_embedding", "position_embedding", "norm.weight", "patches.bias")} == {"no_decay"}
    assert {kinds[name] for name in ("patches.weight", "blocks.0.attention.qkv.weight")} == {"matrix"}
    assert kinds["head.weight"] == "head"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": 0}, "classes must be at least 1"),
        ({"image": ()}, r"image must be channels and one to three sides, such as 3 224 224, not \(\)"),
        ({"image": (3,)}, "image must be channels"),
        ({"image": (0, 8, 8)}, "image must be channels"),
        ({"image": (3, 8, -8)}, "patch 2 is larger than the image"),
        ({"patch": 7}, "patch 7 is larger than the image"),
        ({"width": 33}, "width 33 is not a multiple of --model.heads 2"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"drop_path": -0.1}, "drop_path must be"),
        ({"eps": -1.0}, "eps must be at least 0"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **wrong).build()  # type: ignore[arg-type]


def test_an_image_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape \(144,\) does not fit a model made for \(3, 8, 6\)"):
        built(CONFIG).classify(torch.randn(2, 144))
