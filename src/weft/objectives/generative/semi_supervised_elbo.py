"""M2's bound for data of which few examples are labelled (Kingma et al., 2014, arXiv:1406.5298).

With L(x, y) = -log p(x | y, z) - log p(y) + KL(q(z | x, y) || p(z)), the loss of an example is L(x, y) where its class is known and
else the sum over y of q(y | x) L(x, y), less the entropy of q(y | x), which is the bound for p(x). q(y | x) learns from the labels
by a cross-entropy besides. Where classes are too many to go through, one relaxed class is drawn instead (Gumbel-softmax, Jang et
al., 2016, arXiv:1611.01144).
Batch: image (B, ...), or another input; label (B,), UNLABELLED where not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.nn.one_hot import one_hot
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import correct, label_loss, labelled
from weft.objectives.generative.elbo import Autoencoder, negative_bound


class ClassifyingAutoencoder(Autoencoder, Protocol):
    """Also tells the class of an example."""

    def classify(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedELBOConfig(ObjectiveConfig):
    unit = "nats per example"

    input: str = "image"
    """Name of the input in a batch."""
    classification_weight: float = 1.0
    """Weight of the cross-entropy of the labelled examples' classes."""
    classes_by: Literal["sum", "gumbel"] = "sum"
    """For examples without a label: go through every class, exactly, or draw a relaxed one."""
    temperature: float = 0.5
    """Of the relaxed class; the lower, the nearer to a class and the noisier the gradient."""

    def build(self) -> SemiSupervisedELBO:
        return SemiSupervisedELBO(self)


class SemiSupervisedELBO(Objective):
    classes = "label"

    def __init__(self, config: SemiSupervisedELBOConfig):
        super().__init__()
        if not 0 <= config.classification_weight < math.inf:
            raise ConfigError(f"--objective.classification_weight must not be negative, not {config.classification_weight}")
        if not 0 < config.temperature < math.inf:
            raise ConfigError(f"--objective.temperature must be above 0, not {config.temperature}")
        self.config = config
        self.weights = {"label": config.classification_weight}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        number = labelled(batch["label"])
        return {"bound": count(len(batch["key"]), like=batch["key"]), "label": number, "accuracy": number}

    def forward(self, model: ClassifyingAutoencoder, batch: Batch, turn: str) -> Terms:
        x, label, key = batch[self.config.input], batch["label"], batch["key"]
        logits = model.classify(x).float()  # (B, C)
        true = one_hot(label, model.classes)
        bound = self._summed if self.config.classes_by == "sum" else self._relaxed
        sums = {"bound": bound(model, x, logits, true, key).sum(), "label": label_loss(logits, label)}
        return Terms(sums, {"accuracy": correct(logits, label)})

    def _summed(self, model: ClassifyingAutoencoder, x: Tensor, logits: Tensor, true: Tensor, key: Tensor) -> Tensor:
        """The loss (B,) of every example, by all classes: those that are known have one class of share 1."""
        known = true.sum(1, keepdim=True)  # (B, 1), 1 or 0
        share = torch.where(known > 0, true, logits.softmax(-1))  # (B, C)
        each = by_class(model, x, key)  # (B, C)
        return (share * each).sum(1) - (1 - known[:, 0]) * entropy(logits)

    def _relaxed(self, model: ClassifyingAutoencoder, x: Tensor, logits: Tensor, true: Tensor, key: Tensor) -> Tensor:
        """The same with one class of each example, drawn and relaxed where it is not known."""
        known = true.sum(1, keepdim=True)
        noise = -(-(random.uniform(random.fold(key, "class"), model.classes) + 2.0**-25).log()).log()
        drawn = ((logits + noise) / self.config.temperature).softmax(-1)
        loss = negative_bound(model, x, key, torch.where(known > 0, true, drawn)) + math.log(model.classes)
        return loss - (1 - known[:, 0]) * entropy(logits)


def by_class(model: ClassifyingAutoencoder, x: Tensor, key: Tensor) -> Tensor:
    """L(x, y) of every example with every class, p(y) uniform: (B, C). A key's code has the same noise for all classes."""
    classes, batch = model.classes, len(x)
    y = torch.eye(classes, device=x.device).repeat_interleave(batch, dim=0)  # (C * B, C)
    loss = negative_bound(model, x.repeat(classes, *[1] * (x.ndim - 1)), key.repeat(classes), y)
    return loss.view(classes, batch).T + math.log(classes)


def entropy(logits: Tensor) -> Tensor:
    """Of the distribution of logits (B, C), in nats: (B,)."""
    log_share = logits.log_softmax(-1)
    return -(log_share.exp() * log_share).sum(-1)
