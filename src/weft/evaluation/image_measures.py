"""Measures of generative models of images that are computed when asked for by name: `weft evaluate RUN fid=EXTRACTOR iwae=100`.

Each takes a loaded model, other settings of its data (as `evaluate` does) and what stands behind the "=".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, DataConfig, DataLoader, Dataset
from weft.data.images.augment import Augment
from weft.evaluation.evaluate import change_data
from weft.metrics.image_distances import InceptionScore, Moments, gaussian_distance, precision_and_recall
from weft.models.base import Extracts, Samples, SamplesClass, need
from weft.nn.one_hot import one_hot
from weft.objectives.generative.elbo import importance_bound
from weft.runs.load import Loaded, load
from weft.visual.grids import keys

BATCH = 256
MOST = 10_000
"""Images of each set whose neighbours are looked for."""
PER_CLASS = 1000
PLAIN: dict[str, Any] = {"binarise": "none", "flat": False, "augment": Augment(), "mean": (), "std": (), "repeat_labelled": 1}
"""Settings of data that show images as they are."""
Changes = DataConfig | dict[str, Any] | str | Path | None


class Extractor:
    """A network that gives features and class logits to images, with its name."""

    def __init__(self, model: nn.Module, name: str):
        need(model, Extracts)
        settings: Any = model.config
        self.model: Any = model
        self.image: tuple[int, ...] = settings.image
        self.name = name.rpartition("/")[2] or "unnamed"

    @classmethod
    def of(cls, run: Loaded | str, device: torch.device | str = "auto") -> Extractor:
        """The network of a run."""
        if not run:
            raise ConfigError("name the run of a network that gives features, as fid=RUN; weft train classifier/mnist_extractor makes one")
        loaded = run if isinstance(run, Loaded) else load(run, str(device))
        return cls(loaded.model, loaded.recipe.name)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, ...) in [0, 1] -> features (B, F) and class logits (B, C)."""
        if images[0].numel() != torch.Size(self.image).numel():
            raise DataError(f"the images are {tuple(images.shape[1:])}, but {self.name} was trained on {self.image}")
        features = self.model.features(images.float().clamp(0, 1))
        return features, self.model.classify_features(features)


class Seen:
    """What an extractor finds in a set of images."""

    def __init__(self, extractor: Extractor, images: Iterator[Tensor]):
        self.moments, self.score = Moments(), InceptionScore()
        kept: list[Tensor] = []
        for batch in images:
            features, logits = extractor(batch)
            self.moments.add(features)
            self.score.add(logits)
            kept += [features] if self.moments.number <= MOST else []
        self.features = torch.cat(kept) if kept else torch.empty(0)

    def distance(self, other: Seen) -> float:
        return gaussian_distance(*self.moments.gaussian(), *other.moments.gaussian())


@torch.no_grad()
def fid(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Fréchet distance, Inception score, precision and recall of as many samples as there are validation images.

    Distances are to the training images; that of the validation images says what real ones reach.
    """
    need(loaded.model, Samples)
    device = next(loaded.model.parameters()).device
    extractor = Extractor.of(argument, device)
    built = plain(change_data(loaded.recipe.data, data)).build_with(loaded.tokenizer)
    if built.validation is None:
        raise DataError("there are no validation images to say what real ones reach; keep some with --data.validation")
    train, held = (Seen(extractor, real(part, device)) for part in (built.train, built.validation))
    made = Seen(extractor, drawn(loaded.model, len(built.validation)))
    precision, recall = precision_and_recall(train.features[: len(made.features)], made.features)
    numbers = {"FID": made.distance(train), "IS": made.score.value(), "precision": precision, "recall": recall}
    numbers |= {"FID_real": held.distance(train), "IS_real": held.score.value()}
    return {f"{name.removesuffix('_real')}-{extractor.name}{'_real' * name.endswith('_real')}": value for name, value in numbers.items()}


@torch.no_grad()
def classified(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Share of the samples of each class asked for that the extractor takes for that class."""
    need(loaded.model, SamplesClass)
    model = loaded.model
    extractor = Extractor.of(argument, next(model.parameters()).device)
    classes: int = loaded.recipe.model.classes  # type: ignore[attr-defined]
    right = 0
    for key in torch.split(keys(model, PER_CLASS * classes, 0).view(classes, PER_CLASS).T, BATCH):
        label = torch.arange(classes, device=key.device).expand_as(key).flatten()
        right += int((extractor(model.sample_class(key.flatten(), label))[1].argmax(-1) == label).sum())
    return {f"classified-{extractor.name}": right / (PER_CLASS * classes)}


@torch.no_grad()
def iwae(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Minus the importance-weighted bound on log p(x), in nats, with so many codes for each example (100 where not said)."""
    if not (argument or "100").isdecimal() or (samples := int(argument or 100)) < 1:
        raise ConfigError(f"iwae={argument}: the number of codes must be a whole number above 0")
    model = loaded.model
    if not hasattr(model, "encode") or not hasattr(model, "decode"):
        raise ConfigError(f"iwae is for autoencoders, and {type(model).__name__} has no encoder and decoder")
    built = change_data(loaded.recipe.data, data).build_with(loaded.tokenizer)
    held, name = built.validation or built.train, getattr(loaded.recipe.objective, "input", "image")
    total = 0.0
    for batch in batches(held, next(model.parameters()).device, loaded.recipe.train.seed):
        condition = (one_hot(batch["label"], model.classes),) if getattr(model, "conditional", False) else ()
        total += float(importance_bound(model, batch[name], batch["key"], samples, *condition).sum())
    return {f"iwae_{samples}": -total / len(held)}


def plain(source: DataConfig) -> DataConfig:
    """The same data with images shown as they are, in [0, 1]."""
    names = {field.name for field in fields(source)}
    return replace(source, **{name: value for name, value in PLAIN.items() if name in names})


def batches(data: Dataset, device: torch.device, seed: int = 0) -> Iterator[Batch]:
    """All examples in their order, each once."""
    source = DataLoader(data, seed, device, shuffle=False)
    for first in range(0, len(data), BATCH):
        yield source.batch(first, min(BATCH, len(data) - first))


def real(data: Dataset, device: torch.device) -> Iterator[Tensor]:
    return (batch["image"] for batch in batches(data, device))


def drawn(model: Samples, number: int) -> Iterator[Tensor]:
    """Samples of a model, a batch at a time."""
    return (model.sample(key) for key in torch.split(keys(model, number, 0), BATCH))
