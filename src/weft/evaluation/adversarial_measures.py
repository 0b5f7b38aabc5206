"""Measures of adversarial models that are computed when asked for by name: `weft evaluate RUN nearest_neighbour translated=EXTRACTOR`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import CapabilityError, DataError
from weft.data.base import UNLABELLED, Dataset
from weft.data.images.domains import to_grey
from weft.evaluation.evaluate import change_data
from weft.evaluation.image_measures import Changes, Extractor, Seen, batches, plain
from weft.models.base import Inverts, TranslatesImages, need
from weft.runs.load import Loaded


def nearest_neighbour(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Share of validation images whose nearest training image is of the same class: by their codes, and by the features these are made of.

    Donahue et al. (2016) report the latter, the encoder's last hidden layer; their code finds 97.35 % by it (96.84 before
    training, so it says little) and 92.1 % by codes.
    """
    need(loaded.model, Inverts)
    device = next(loaded.model.parameters()).device
    built = plain(change_data(loaded.recipe.data, data)).build_with(loaded.tokenizer)
    if built.validation is None:
        raise DataError("there are no validation images whose neighbours could be looked for; keep some with --data.validation")
    ways: dict[str, Any] = {"nearest_neighbour": getattr(loaded.model, "features", None), "nearest_neighbour_code": loaded.model.to_latent}
    return {name: alike(way, built.train, built.validation, device) for name, way in ways.items() if way}


def alike(way: Callable[[Tensor], Tensor], known: Dataset, asked: Dataset, device: torch.device) -> float:
    """Share of examples whose nearest known one by this way to see them is of their class."""
    (there, there_label), (here, label) = (described(way, data, device) for data in (known, asked))
    lengths = there.square().sum(1)
    near = torch.cat([(lengths - 2 * part @ there.mT).argmin(1) for part in here.split(1024)])  # type: ignore[no-untyped-call]
    return float((there_label[near] == label).float().mean())


@torch.no_grad()
def described(way: Callable[[Tensor], Tensor], data: Dataset, device: torch.device) -> tuple[Tensor, Tensor]:
    """What an image is seen as (N, F), and labels (N,), of all examples that have a label."""
    some = [batch for batch in batches(data, device) if "label" in batch and bool((batch["label"] != UNLABELLED).any())]
    if not some:
        raise CapabilityError("these images have no classes by which a neighbour could be judged")
    found = [(way(batch["image"]).flatten(1).float(), batch["label"]) for batch in some]
    seen, label = torch.cat([seen for seen, _ in found]), torch.cat([label for _, label in found])
    return seen[label != UNLABELLED], label[label != UNLABELLED]


def translated(loaded: Loaded, data: Changes = None, argument: str = "") -> dict[str, float]:
    """Share of translated validation images that an extractor takes for their class, and how near it finds them to the true ones."""
    need(loaded.model, TranslatesImages)
    model = loaded.model
    device = next(model.parameters()).device
    extractor = Extractor.of(argument, device)
    built = change_data(loaded.recipe.data, data).build_with(loaded.tokenizer)
    if built.validation is None:
        raise DataError("there are no validation images to translate; keep some with --data.validation")
    style: Any = getattr(loaded.recipe.data, "style", "")
    made: list[Tensor] = []
    true: list[Tensor] = []
    labels: list[Tensor] = []
    for batch in batches(built.validation, device):
        if "label" not in batch:
            raise CapabilityError("these images have no classes by which a translation could be judged")
        pair = (model(batch["source"]), batch["image"]) if "source" in batch else (model(batch["image"]), batch["truth"])
        for images, found in zip(pair, (made, true), strict=True):
            found.append(fitted(to_grey(images, style) if style else images, extractor.image))
        labels.append(batch["label"])
    label = torch.cat(labels)
    numbers = {"translated": right(extractor, made, label), "translated_real": right(extractor, true, label)}
    distance = Seen(extractor, iter(made)).distance(Seen(extractor, iter(true)))
    named = {f"translated-{extractor.name}{'_real' if 'real' in name else ''}": value for name, value in numbers.items()}
    return {**named, f"FID-{extractor.name}_translated": distance}


def right(extractor: Extractor, parts: list[Tensor], label: Tensor) -> float:
    predicted = torch.cat([extractor(images)[1].argmax(-1) for images in parts])
    return float((predicted == label).float().mean())


def fitted(images: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """images (B, C, S, S) scaled to the sides that an extractor was trained on."""
    if tuple(images.shape[-2:]) == tuple(wanted[-2:]):
        return images
    return F.interpolate(images.float(), tuple(wanted[-2:]), mode="bilinear", antialias=True)
