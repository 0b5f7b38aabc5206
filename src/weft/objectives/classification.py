"""Cross-entropy of the class: -sum over labelled examples of log p(y | x), and how often the likeliest class is the right one.

Of two classes also the F1 of the second and Matthews' correlation, which do not praise a model for the larger class alone.

Batch: the inputs of the model, by default image (B, ...), and label (B,) int64; an UNLABELLED example counts for nothing. Of examples
made of two (data/images/mixup.py) the loss counts both classes by their shares, and the accuracy the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.models.base import Classifies
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(ObjectiveConfig):
    unit = "nats per example"

    mixes = True

    inputs: tuple[str, ...] = ("image",)
    """What of a batch the model is given: image, x for the rows of a table, ids segments lengths for texts."""
    label_smoothing: float = 0.0
    """Label smoothing: share of each label spread evenly over all classes (Szegedy et al., 2015, arXiv:1512.00567)."""

    def build(self) -> Classification:
        return Classification(self)


class Classification(Objective):
    classes = "label"

    def __init__(self, config: ClassificationConfig):
        super().__init__()
        self.config = config
        if not 0.0 <= config.label_smoothing < 1.0:
            raise ConfigError(f"--objective.label_smoothing must be at least 0 and below 1, not {config.label_smoothing}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        number = labelled(batch["label"])
        return {"loss": number, "accuracy": number}

    def forward(self, model: Classifies, batch: Batch, turn: str) -> Terms:
        logits, label = self.class_logits(model, batch), batch["label"]  # (B, C), (B,)
        loss = (
            mixed_loss(logits, batch, self.config.label_smoothing)
            if "share" in batch
            else label_loss(logits, label, self.config.label_smoothing)
        )
        return Terms({"loss": loss}, rightness(logits, label))

    def class_logits(self, model: Classifies, batch: Batch) -> Tensor:
        logits: Tensor = model.classify(*chosen(batch, self.config.inputs))
        return logits

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        return super().summary(means) | of_two(means.get("outcomes"))


def chosen(batch: Batch, names: Iterable[str]) -> list[Tensor]:
    """The parts of a batch that have these names."""
    for name in names:
        if name not in batch:
            raise ConfigError(f"--objective.inputs: a batch has no {name!r}{registry.nearest(name, list(batch))}")
    return [batch[name] for name in names]


def labelled(label: Tensor) -> Tensor:
    """How many of label (B,) are known."""
    if label.is_floating_point():
        raise ConfigError("the labels are numbers, and this recipe tells classes; leave out --data.number, or take bert/score")
    return count((label != UNLABELLED).sum(), like=label)


def label_loss(logits: Tensor, label: Tensor, smoothing: float = 0.0) -> Tensor:
    """Summed -log p(label) of the labelled among logits (B, C), label (B,)."""
    return F.cross_entropy(logits.float(), label, ignore_index=UNLABELLED, reduction="sum", label_smoothing=smoothing)


def mixed_loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Summed -log p of both classes of each example, by its share of them: logits (B, C)."""
    predicted = [
        F.cross_entropy(logits.float(), batch[name], ignore_index=UNLABELLED, reduction="none", label_smoothing=smoothing)
        for name in ("label", "other_label")
    ]
    return torch.lerp(predicted[1], predicted[0], batch["share"]).sum()


def correct(logits: Tensor, label: Tensor) -> Tensor:
    """How many labelled examples have their class on top; UNLABELLED is no class, so it never is."""
    return (logits.detach().argmax(-1) == label).sum().float()


def rightness(logits: Tensor, label: Tensor) -> dict[str, Tensor]:
    """logits (B, C), label (B,) -> how many are right and, of two classes, which was taken for which."""
    found = {"accuracy": correct(logits, label)}
    return {**found, "outcomes": outcomes(logits, label)} if logits.size(-1) == 2 else found


def outcomes(logits: Tensor, label: Tensor) -> Tensor:
    """logits (B, 2), label (B,) -> how many of each class (rows) were taken for each (columns), (2, 2)."""
    classes = torch.arange(2, device=label.device)
    true, predicted = label[:, None] == classes, logits.detach().argmax(-1)[:, None] == classes  # (B, 2)
    return (true[:, :, None] & predicted[:, None]).sum(0).float()  # a product of matrices would be rounded to bf16


def of_two(shares: Tensor | None) -> dict[str, float]:
    """F1 of class 1 and Matthews' correlation from the shares of the outcomes (2, 2); 0 where they have no value."""
    if shares is None:  # of more classes than two
        return {}
    (tn, fp), (fn, tp) = shares.double().tolist()
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return {
        "f1": 2 * tp / (2 * tp + fp + fn) if tp else 0.0,
        "matthews": (tp * tn - fp * fn) / spread if spread else 0.0,
    }
