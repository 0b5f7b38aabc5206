"""Numbers told of examples against the true ones, by their ranks (Spearman, 1904): sums over batches do not tell them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from weft.data.base import Batch, Dataset
from weft.evaluation.evaluate import TaskMetrics
from weft.objectives.classification import chosen
from weft.objectives.regression import Regression, pearson
from weft.runs.load import Loaded


def ranks(x: Tensor) -> Tensor:
    """The place of each number of x (N,) in order, from 1; equal ones share the mean of their places."""
    _, group, size = torch.unique(x, return_inverse=True, return_counts=True)
    last = size.cumsum(0).double()
    places: Tensor = (last - (size - 1) / 2)[group]
    return places


def spearman(x: Tensor, y: Tensor) -> float:
    """The correlation of the ranks of x and y, each (N,); 0 where one of them does not vary."""
    a, b = ranks(x) / max(1, len(x)), ranks(y) / max(1, len(y))
    return pearson(torch.stack([a.mean(), b.mean(), (a * a).mean(), (b * b).mean(), (a * b).mean()]))


def measure(loaded: Loaded, objective: Regression, data: Dataset, batches: Iterable[Batch]) -> TaskMetrics:
    """Spearman's correlation, and each number told beside the true one, in their own units."""
    model, tokenizer = loaded.model, loaded.tokenizer
    pairs = [(model.classify(*chosen(batch, objective.config.inputs)).squeeze(-1).cpu(), batch["label"].cpu()) for batch in batches]  # type: ignore[operator]
    predicted, true = (torch.cat(side).double() for side in zip(*pairs, strict=True))
    rows = (torch.stack((true, predicted), dim=1) * tokenizer.deviation + tokenizer.mean).tolist()
    return TaskMetrics({"spearman": spearman(predicted, true)}, "".join(f"{a:.6g}\t{b:.6g}\n" for a, b in rows), ".tsv")
