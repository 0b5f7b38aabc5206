"""Images made of two: the same however a batch is cut, shares that are what one sees, and a loss that counts both classes."""

from __future__ import annotations

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, TensorDataset
from weft.data.images.augment import Augment
from weft.data.images.mixup import MixupDataset, mixing_weights
from weft.data.images.pixels import ImagesConfig, Pixels
from weft.objectives.classification import ClassificationConfig, label_loss, mixed_loss
from weft.recipes.base import check, recipe


def images(number: int = 40, unlabelled: int = 0) -> TensorDataset:
    """Images that are black or white, as their class says."""
    label = torch.arange(number) % 2
    label[:unlabelled] = UNLABELLED
    return TensorDataset({"image": (torch.arange(number) % 2).float().view(-1, 1, 1, 1).expand(-1, 3, 8, 6), "label": label})


def draw(data: MixupDataset, number: int) -> dict[str, torch.Tensor]:
    return data.batch(torch.arange(number) % len(data), random.keys(3, torch.arange(number)))


def test_a_share_is_what_one_sees_of_an_image() -> None:
    batch = draw(MixupDataset(images(), 1.0), 400)
    own, other = batch["label"].float(), batch["other_label"].float()
    seen = batch["share"] * own + (1 - batch["share"]) * other
    torch.testing.assert_close(batch["image"].mean((1, 2, 3)), seen)
    assert 0.4 < float(batch["share"].mean()) < 0.75
    assert 0.4 < float((own != other).float().mean()) < 0.6, "the other image is drawn from all"
    two = batch["image"][own != other]
    pasted = ((two == 0) | (two == 1)).flatten(1).all(1).float()
    assert 0.4 < float(pasted.mean()) < 0.6, "half of them have a rectangle of the other image, half are laid over each other"


def test_the_same_keys_give_the_same_images_however_the_batch_is_cut() -> None:
    data, index, key = MixupDataset(images(), 0.7), torch.arange(30), random.keys(3, torch.arange(30))
    whole = data.batch(index, key)
    parts = [data.batch(index[i:j], key[i:j]) for i, j in ((0, 7), (7, 8), (8, 30))]
    for name, value in whole.items():
        assert torch.equal(value, torch.cat([part[name] for part in parts]))


def test_as_many_are_mixed_as_asked_and_none_without_a_class() -> None:
    shares = draw(MixupDataset(images(), 0.25), 2000)["share"]
    assert abs(float((shares < 1).float().mean()) - 0.25) < 0.04
    batch = draw(MixupDataset(images(unlabelled=20), 1.0), 400)
    unknown = (batch["label"] == UNLABELLED) | (batch["other_label"] == UNLABELLED)
    assert unknown.any()
    assert (batch["share"][unknown] == 1).all()
    assert (batch["share"][~unknown] < 1).float().mean() > 0.9


def test_nothing_is_read_by_the_host() -> None:
    meta = torch.device("meta")
    change = Pixels(
        Augment(flip=0.5, crop=2, rotate=10.0, shear=0.2, color_jitter=0.3, tones=0.5, erase=0.5), 0, False, (0.5,) * 3, (0.2,) * 3
    )
    tensors = {"image": torch.zeros(40, 3, 8, 6, dtype=torch.uint8), "label": torch.zeros(40, dtype=torch.int64)}
    made = MixupDataset(TensorDataset(tensors, change), 0.5).to(meta)
    index = torch.zeros(4, dtype=torch.int64, device=meta)
    assert made.batch(index, index)["image"].shape == (4, 3, 8, 6)


def test_rectangles_have_the_area_that_their_share_leaves() -> None:
    weight = mixing_weights(random.keys(5, torch.arange(4000)), 32, 32)
    cut = weight[(weight == 1).flatten(1).any(1)]
    assert set(cut.unique().tolist()) == {0.0, 1.0}
    assert 0.5 < float(cut.mean()) < 0.75, "half the area on average, less where a rectangle reaches beyond the image"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_counts_both_classes_by_their_shares(smoothing: float) -> None:
    torch.manual_seed(0)
    logits, label, other, share = torch.randn(9, 4), torch.randint(4, (9,)), torch.randint(4, (9,)), torch.rand(9)
    label[0], share[0] = UNLABELLED, 1.0
    mixed = mixed_loss(logits, {"label": label, "other_label": other, "share": share}, smoothing)
    soft = share[:, None] * torch.eye(4)[label] + (1 - share)[:, None] * torch.eye(4)[other]
    by_hand = torch.nn.functional.cross_entropy(logits[1:], soft[1:], reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(mixed, by_hand)
    alone = {"label": label, "other_label": other, "share": torch.ones(9)}
    torch.testing.assert_close(mixed_loss(logits, alone, smoothing), label_loss(logits, label, smoothing))


def test_settings_that_make_no_sense() -> None:
    for settings in (ImagesConfig(path="x", mixup=1.5), ImagesConfig(path="x", mixup=0.5, flat=True)):
        with pytest.raises(ConfigError, match=r"--data\.mixup"):
            settings.build()
    assert ClassificationConfig().build().counts(draw(MixupDataset(images(unlabelled=3), 1.0), 10))["loss"] == 7


@pytest.mark.parametrize("name", ["vae/images", "dcgan/images", "gan/semi_mnist", "vit/images"])
def test_only_what_counts_both_classes_takes_mixed_images(name: str) -> None:
    mixed = recipe(name, {"data.mixup": 0.5})
    if name == "vit/images":
        check(mixed)
    else:
        with pytest.raises(ConfigError, match=r"--data.mixup 0.5: images of two classes are for the objective classification, not for"):
            check(mixed)
