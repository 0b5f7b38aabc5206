"""Binary cross-entropy of each label: which of many a text has, each told by itself.

A label is told where its probability reaches a threshold. Micro F1 counts labels of all texts together, macro F1 is the mean over labels,
set F1 the mean over texts of the F1 of what is told. Beside it stands set F1 of always telling the k likeliest labels.
Batch: the inputs of the model, and label (B, C), 1 for each label of an example and else 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Classifies
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import chosen

RANKS = (1, 2, 3)
"""Numbers k of labels that are always told, for comparison."""


@dataclass(frozen=True, kw_only=True)
class MultiLabelConfig(ObjectiveConfig):
    unit = "nats per example"

    inputs: tuple[str, ...] = ("ids", "segments", "lengths")
    """What of a batch the model is given."""
    threshold: float = 0.5
    """Probability from which on a label is told."""

    def build(self) -> MultiLabel:
        return MultiLabel(self)


class MultiLabel(Objective):
    def __init__(self, config: MultiLabelConfig):
        super().__init__()
        if not 0.0 < config.threshold < 1.0:
            raise ConfigError(f"--objective.threshold must be above 0 and below 1, not {config.threshold}")
        self.config = config
        self.logit = math.log(config.threshold / (1 - config.threshold))

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["label"]), like=batch["label"])}

    def forward(self, model: Classifies, batch: Batch, turn: str) -> Terms:
        label = batch["label"].float()
        logits = model.classify(*chosen(batch, self.config.inputs)).float()  # (B, C)
        loss = F.binary_cross_entropy_with_logits(logits, label, reduction="sum")
        predicted, true = (logits.detach() >= self.logit).float(), label
        metrics = {
            "outcomes": torch.stack([(predicted * true).sum(0), predicted.sum(0), true.sum(0)]),  # (3, C)
            "set_f1": set_f1(predicted, true).sum(),
            "exact": (predicted == true).all(1).sum().float(),
        }
        for k in RANKS:
            best = logits.detach().topk(min(k, logits.size(1)), dim=1).indices
            metrics[f"top{k}_set_f1"] = set_f1(torch.zeros_like(label).scatter(1, best, 1.0), true).sum()
        return Terms({"loss": loss}, metrics)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        found = super().summary(means)
        if "outcomes" in means:
            shared, predicted, true = means["outcomes"].double().cpu()
            found["micro_f1"] = float(2 * shared.sum() / (predicted + true).sum().clamp(min=1e-12))
            there = true > 0
            found["macro_f1"] = float((2 * shared / (predicted + true).clamp(min=1e-12))[there].mean()) if there.any() else 0.0
        return found


def set_f1(predicted: Tensor, true: Tensor) -> Tensor:
    """Two sets of labels (B, C), as 0 and 1 -> F1 of each (B,), 1 where both are empty."""
    sizes = predicted.sum(1) + true.sum(1)
    return torch.where(sizes > 0, 2 * (predicted * true).sum(1) / sizes.clamp(min=1), 1.0)
