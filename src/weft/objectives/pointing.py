"""Cross-entropy of the positions at which a pointer network is to point, and whether it points right by itself.

Batch: points (B, N, F), lengths (B,), order (B, T): positions from 1 on, 0 for the end, IGNORE behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.data.base import IGNORE, Batch
from weft.metrics.polygons import area, is_simple
from weft.models.base import PointsAtInputs
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class PointingConfig(ObjectiveConfig):
    unit = "nats per step"

    hull_area: bool = False
    """Measure how much of the area inside the right polygon is inside the one that was pointed at; nothing where its sides cross."""

    def build(self) -> Pointing:
        return Pointing(self)


class Pointing(Objective):
    """`exact` is the share of sequences that are right from the first to the end, `position_accuracy` that of single positions."""

    needs = PointsAtInputs

    def __init__(self, config: PointingConfig):
        super().__init__()
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        steps = count((batch["order"] != IGNORE).sum(), like=batch["order"])
        examples = count(len(batch["order"]), like=batch["order"])
        return {"loss": steps, "accuracy": steps, "position_accuracy": steps, "exact": examples, "area": examples, "simple": examples}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        order = batch["order"]
        logits = model.pointer_logits(batch["points"], batch["lengths"], order)
        flat, wanted = logits.flatten(0, 1), order.flatten()
        loss = F.cross_entropy(flat, wanted, ignore_index=IGNORE, reduction="sum")
        return Terms({"loss": loss}, {"accuracy": (flat.detach().argmax(-1) == wanted).sum().float()})

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """What it points at by itself, against what it should."""
        found, order = model.point(batch["points"], batch["lengths"]), batch["order"]
        found = F.pad(found, (0, max(0, order.size(1) - found.size(1))))[:, : order.size(1)]
        right = (found == order) & (order != IGNORE)
        sums = {"position_accuracy": right.sum().float(), "exact": (right | (order == IGNORE)).all(1).sum().float()}
        if self.config.hull_area:
            covered = torch.zeros(2)
            for points, mine, theirs in zip(batch["points"].cpu(), found.cpu(), order.cpu(), strict=True):
                polygon, hull = points[mine[mine > 0] - 1], points[theirs[theirs > 0] - 1]
                simple = len(set(mine[mine > 0].tolist())) == int((mine > 0).sum()) and is_simple(polygon)
                covered += torch.tensor([float(area(polygon) / area(hull)) if simple else 0.0, float(simple)])
            sums |= dict(zip(("area", "simple"), covered.to(order.device), strict=True))
        return sums
