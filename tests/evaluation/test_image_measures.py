"""Measures on request, through small runs: an extractor, an autoencoder, a conditional one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from weft.core.errors import CapabilityError, ConfigError, DataError
from weft.evaluation import image_measures
from weft.evaluation.evaluate import evaluate
from weft.evaluation.image_measures import Extractor, Seen, classified, fid, iwae, plain

pytest.importorskip("sklearn")


def run(folder: Path, name: str, **changes: object) -> str:
    short = {"train.eval_every": 0, "train.save_every": 0, "train.device": "cpu"}
    weft.train(weft.recipe(name, short | changes), out=folder)
    return str(folder)


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> str:
    quick = {"train.steps": 150, "model.channels": (8, 16, 16), "optim.schedule.warmup": 10, "optim.lr": 5e-3}
    return run(tmp_path_factory.mktemp("extractor"), "classifier/digits_extractor", **quick)


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("vae"), "vae/digits", **{"train.steps": 100, "model.hidden": (64,)})


@pytest.fixture(scope="module")
def conditional(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("conditional"), "vae/conditional_digits", **{"train.steps": 300, "optim.lr": 3e-3})


def test_samples_are_further_from_the_data_than_real_images(vae: str, extractor: str) -> None:
    found = evaluate(vae, f"fid={extractor}").metrics
    names = ("FID", "IS", "precision", "recall")
    assert set(found) == {*(f"{name}-digits_extractor" for name in names), "FID-digits_extractor_real", "IS-digits_extractor_real"}
    assert 0 < found["FID-digits_extractor_real"] < found["FID-digits_extractor"]
    assert 1 <= found["IS-digits_extractor"] <= 10


def test_the_objectives_metrics_may_be_asked_for_besides(vae: str) -> None:
    found = evaluate(vae, "loss", "iwae=1", "iwae=20").metrics
    assert list(found) == ["loss", "iwae_1", "iwae_20"]
    assert found["iwae_20"] < found["iwae_1"]
    assert found["iwae_1"] == pytest.approx(found["loss"], rel=0.05)


def test_samples_of_a_class_look_like_it(conditional: str, extractor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_measures, "PER_CLASS", 40)
    share = classified(weft.load(conditional), argument=extractor)["classified-digits_extractor"]
    assert share > 0.5  # a tenth by chance
    assert iwae(weft.load(conditional), argument="2")["iwae_2"] > 0


def test_what_is_missing_or_wrong_is_said(vae: str, extractor: str) -> None:
    loaded = weft.load(vae)
    with pytest.raises(ConfigError, match="fid=RUN"):
        fid(loaded)
    with pytest.raises(CapabilityError, match="does not offer Extracts"):
        fid(loaded, argument=vae)
    with pytest.raises(CapabilityError, match="does not offer SamplesClass"):
        classified(loaded, argument=extractor)
    with pytest.raises(ConfigError, match="whole number above 0"):
        iwae(loaded, argument="many")
    with pytest.raises(ConfigError, match="is for autoencoders"):
        iwae(weft.load(extractor))
    with pytest.raises(DataError, match="was trained on"):
        Extractor.of(extractor)(torch.zeros(1, 1, 9, 9))


def test_images_are_compared_as_they_are(vae: str, extractor: str) -> None:
    data = plain(weft.load(vae).recipe.data)
    assert data.binarise == "none"  # type: ignore[attr-defined]
    held = data.build().validation
    assert held is not None
    batches = lambda: image_measures.real(held, torch.device("cpu"))  # noqa: E731
    first, second = (Seen(Extractor.of(extractor, "cpu"), batches()) for _ in range(2))
    assert first.distance(second) == pytest.approx(0.0, abs=1e-6)
    assert len(first.features) == first.moments.number == len(held)
