"""Boxes as centre x, centre y, width and height: how much they overlap, and average precision of those that were found.

Shapes: N boxes, M others, K classes, R ranks of confidence.
"""

from __future__ import annotations

import torch
from torch import Tensor

RANKS = 1000
"""Steps of confidence in which detections are counted, so that average precision is made of sums."""

TINY = 1e-12
"""Stands for no count."""


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """boxes (..., 4) -> the lower and the upper corner (..., 2) each."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return centre - half, centre + half


def overlaps(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes (..., 4) of two tensors that broadcast -> intersection over union, and in its generalised form (Rezatofighi et al., 2019),
    which is below 0 where boxes lie apart (...)."""
    (low, high), (other_low, other_high) = corners(one), corners(other)
    shared = (torch.minimum(high, other_high) - torch.maximum(low, other_low)).clamp(min=0).prod(-1)
    union = one[..., 2:].prod(-1) + other[..., 2:].prod(-1) - shared
    around = (torch.maximum(high, other_high) - torch.minimum(low, other_low)).prod(-1)
    iou = shared / union.clamp(min=1e-9)
    return iou, iou - (around - union) / around.clamp(min=1e-9)


def found_at(confidence: Tensor, kind: Tensor, boxes: Tensor, wanted: Tensor, label: Tensor, classes: int, least: float = 0.5) -> Tensor:
    """Detections of one image (N,), (N,), (N, 4) and its objects (M, 4), (M,) -> how many are right and wrong by class and rank of
    confidence (2, K, R). The most confident detection that overlaps an object of its class enough has found it, any other is wrong."""
    counts = torch.zeros(2, classes, RANKS)
    table, taken = overlaps(boxes[:, None], wanted[None])[0], torch.zeros(len(wanted), dtype=torch.bool)
    for i in confidence.argsort(descending=True, stable=True).tolist():
        match = torch.where((label == kind[i]) & ~taken, table[i], -1.0)
        best = int(match.argmax()) if len(match) else -1
        right = best >= 0 and float(match[best]) >= least
        if right:
            taken[best] = True
        counts[0 if right else 1, int(kind[i]), min(int(confidence[i] * RANKS), RANKS - 1)] += 1
    return counts


def average_precision(counts: Tensor, objects: Tensor) -> Tensor:
    """Right and wrong detections (2, K, R) and objects of each class (K,) -> the area under precision over recall (K,), where precision is
    the best at any higher recall; 0 for a class without objects."""
    right, wrong = counts.flip(-1).cumsum(-1)  # the most confident first
    precision = right / (right + wrong).clamp(min=TINY)
    precision = precision.flip(-1).cummax(-1).values.flip(-1)
    recall = right / objects[:, None].clamp(min=TINY)
    area: Tensor = (torch.diff(recall, dim=-1, prepend=torch.zeros_like(recall[:, :1])) * precision).sum(-1)
    return area
