"""Neighbours by code and translated classes, measured through small runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import weft
from tests.contracts.tiny import tiny
from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import UNLABELLED, DataLoader, TensorDataset
from weft.data.images.digits import DigitsConfig
from weft.evaluation.adversarial_measures import described
from weft.evaluation.image_measures import Extractor
from weft.models.generative.bigan import BiGANConfig
from weft.report.samples import translated
from weft.training.execution import select_device


def run(name: str, folder: Path, steps: int) -> Path:
    weft.train(tiny(name, folder, {"train.steps": steps, "train.device": "cpu", "train.eval_every": steps}), out=folder / "run")
    return folder / "run"


def test_neighbours_by_random_codes_are_better_than_chance(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    found = weft.evaluate(run("bigan/digits", tmp_path, 2), "nearest_neighbour")
    assert found["nearest_neighbour"] > 0.5
    assert found["nearest_neighbour_code"] > 0.2
    with pytest.raises(ConfigError, match="did you mean 'nearest_neighbour'"):
        weft.evaluate(tmp_path / "run", "nearest_neighbor")


def test_without_classes_nothing_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    model = BiGANConfig(features=64, image=(1, 8, 8), latent=2).build()
    none = TensorDataset({"image": torch.rand(4, 1, 8, 8), "label": torch.full((4,), UNLABELLED)})
    with pytest.raises(CapabilityError, match="no classes by which a neighbour could be judged"):
        described(model.to_latent, none, torch.device("cpu"))
    half = TensorDataset({"image": torch.rand(4, 1, 8, 8), "label": torch.tensor([UNLABELLED, 1, 0, UNLABELLED])})
    code, label = described(model.to_latent, half, torch.device("cpu"))
    assert len(code) == 2 and label.tolist() == [1, 0]
    with pytest.raises(CapabilityError, match="does not offer TranslatesImages"):
        weft.evaluate(run("gan/digits", tmp_path, 2), "translated=anything")


class NearestMean(nn.Module):
    """Tells a digit by the nearest of the classes' mean images."""

    means: Tensor

    def __init__(self) -> None:
        super().__init__()
        data = DigitsConfig().build()
        batch = DataLoader(data.train, 1, torch.device("cpu")).batch(0, len(data.train))
        self.register_buffer("means", torch.stack([batch["image"][batch["label"] == label].mean(0) for label in range(10)]))
        self.config = SimpleNamespace(image=(1, 8, 8))

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def classify_features(self, features: Tensor) -> Tensor:
        return -torch.cdist(features, self.means)


def test_a_translation_is_asked_of_an_extractor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    extractor = Extractor(NearestMean().to(select_device("auto")), "digits/means")
    monkeypatch.setattr(Extractor, "of", lambda *_: extractor)
    for name in ("cyclegan/digits", "pix2pix/digits"):
        (tmp_path / name).mkdir(parents=True)
        found = weft.evaluate(run(name, tmp_path / name, 2), "translated=means")
        assert found["translated-means"] < 0.5 < 0.8 < found["translated-means_real"]
        assert found["FID-means_translated"] > 0.1
        assert len(translated(weft.load(tmp_path / name / "run", device="cpu"))) == 24, "eight of three"
