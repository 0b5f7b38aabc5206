"""What objectives of recognition share: the labels of a batch, and how far answers are from them.

Batch: source (B, S, M), source_length (B,), target (B, T) with START and END, target_length (B,); rows of length 0 count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.data.base import Batch
from weft.metrics.text_errors import edit_distance
from weft.objectives.base import Counts, count


def labels_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Tokens without START and END (B, T - 2), anything behind the last, and how many they are (B,)."""
    return batch["target"][:, 1:-1], (batch["target_length"] - 2).clamp(min=0)


def recognition_counts(batch: Batch) -> Counts:
    """Labels, and sounds: at least one each, as an average is divided by them."""
    labels, sounds = labels_of(batch)[1].sum(), (batch["source_length"] > 0).sum()
    return {
        "loss": count(labels.clamp(min=1), like=labels),
        "errors": count(labels.clamp(min=1), like=labels),
        "exact": count(sounds.clamp(min=1), like=labels),
        "impossible": count(sounds.clamp(min=1), like=labels),
    }


def errors(found: Sequence[Sequence[int]], batch: Batch) -> dict[str, Tensor]:
    """Edits between answers and labels, and how many answers are exact, summed over the batch."""
    edits = exact = 0
    labels, sizes = (each.tolist() for each in labels_of(batch))
    for said, row, size, frames in zip(found, labels, sizes, batch["source_length"].tolist(), strict=True):
        if frames:
            wrong = edit_distance(said, row[:size])
            edits, exact = edits + wrong, exact + (wrong == 0)
    return {name: torch.tensor(float(value), device=batch["target"].device) for name, value in (("errors", edits), ("exact", exact))}


def reported(found: dict[str, float]) -> dict[str, float]:
    """Reported numbers, of which the edits for each label are the token error rate."""
    return {"token_error_rate" if name == "errors" else name: value for name, value in found.items()}


def negative(log_likelihood: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Log-likelihoods (B,) and which rows count (B,) -> minus their sum, without those that no path leads to, and how many these are."""
    impossible = rows & log_likelihood.isinf()
    return -log_likelihood.where(rows & ~impossible, 0.0).sum(), impossible.sum().float()
