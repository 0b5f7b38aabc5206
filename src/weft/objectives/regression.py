"""Squared error of a number told of an example, and how well the numbers told go with the true ones (Pearson's correlation).

Batch: the inputs of the model, by default those of texts, and label (B,) float32, counted in deviations. Spearman's
correlation needs the ranks of all examples at once, which no sum over batches gives: evaluation/ranks.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Classifies
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import chosen


@dataclass(frozen=True, kw_only=True)
class RegressionConfig(ObjectiveConfig):
    unit = "squared deviations"

    inputs: tuple[str, ...] = ("ids", "segments", "lengths")
    """What of a batch the model is given."""
    scale: float = 0.0
    """The deviation that labels are counted in, for errors in their own units; 0 takes it from the data."""
    median: float = 0.0
    """The median of the training labels, counted in deviations from their mean, as a trivial answer to compare with; 0 takes it from the
    data."""

    def build(self) -> Regression:
        return Regression(self)


class Regression(Objective):
    def __init__(self, config: RegressionConfig):
        super().__init__()
        self.config = config
        if not config.scale >= 0.0:
            raise ConfigError(f"--objective.scale must be at least 0, not {config.scale}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        if not batch["label"].is_floating_point():
            raise ConfigError("the labels are classes, and this recipe tells numbers; say --data.number, or take bert/classify")
        return {"loss": count(len(batch["label"]), like=batch["label"])}

    def forward(self, model: Classifies, batch: Batch, turn: str) -> Terms:
        predicted, label = self.predict(model, batch), batch["label"]  # (B,)
        x, y = predicted.detach().double(), label.double()
        moments = torch.stack([x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()])
        distances = torch.stack([(x - y).abs().sum(), (y - self.config.median).abs().sum()])
        return Terms({"loss": (predicted - label).square().sum()}, {"moments": moments, "distances": distances})

    def predict(self, model: Classifies, batch: Batch) -> Tensor:
        """The numbers (B,), counted as the labels are."""
        numbers: Tensor = model.classify(*chosen(batch, self.config.inputs)).squeeze(-1).float()
        return numbers

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        """The errors in the labels' own units; beside them those of always telling the mean, or the median, of the training labels."""
        scale = self.config.scale
        (_, y, _, yy, _), (mae, trivial) = (means[name].double().tolist() for name in ("moments", "distances"))
        found = {**super().summary(means), "pearson": pearson(means["moments"])}
        spread = yy - y * y
        found |= {"rmse": math.sqrt(found["loss"]) * scale, "rmse_of_mean": math.sqrt(yy) * scale}
        found |= {"mae": mae * scale, "mae_of_median": trivial * scale}
        return {**found, "r2": 1.0 - found["loss"] / spread if spread > 1e-12 * max(1.0, yy) else 0.0}


def pearson(moments: Tensor) -> float:
    """The correlation from the means of x, y, x², y² and xy; 0 where one of them does not vary."""
    x, y, xx, yy, xy = moments.double().tolist()
    spread = max(xx - x * x, 0.0) * max(yy - y * y, 0.0)
    return (xy - x * y) / math.sqrt(spread) if spread > 1e-24 * max(1.0, xx * yy) else 0.0
