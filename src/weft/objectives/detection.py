"""Set prediction of objects (Carion et al., 2020): each object goes to one query, by the cheapest assignment, and is to be told by it.

The cost of an assignment, and the loss, is the class, the L1 distance of the boxes, and their generalised overlap; queries without an
object are to say so, which counts less, as most have none. All are means over objects.
Batch: image (B, C, S, S), boxes (B, M, 4), label (B, M), UNLABELLED where there is no object.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.metrics.assignment import assignment
from weft.metrics.boxes import average_precision, found_at, overlaps
from weft.models.base import Detects
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class DetectionConfig(ObjectiveConfig):
    box_weight: float = 5.0
    """Weight of the L1 distance of boxes."""
    giou_weight: float = 2.0
    """Weight of the generalised overlap (GIoU)."""
    no_object: float = 0.2
    """Weight of a query without an object in the class loss."""

    def build(self) -> Detection:
        return Detection(self)


class Detection(Objective):
    compile = False  # type: ignore[assignment]
    capture = False
    needs = Detects

    def __init__(self, config: DetectionConfig):
        super().__init__()
        if min(config.box_weight, config.giou_weight, config.no_object) <= 0:
            raise ConfigError("--objective.box-weight, --objective.giou-weight and --objective.no-object must be above 0")
        self.config = config
        self.weights = {"box": config.box_weight, "giou": config.giou_weight}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        objects = count((batch["label"] != UNLABELLED).sum(), like=batch["label"])
        images = count(len(batch["label"]), like=batch["label"])
        return {"loss": objects, "box": objects, "giou": objects, "accuracy": objects, "found": images, "objects": images}

    def forward(self, model: Detects, batch: Batch, turn: str) -> Terms:
        logits, boxes = (part.float() for part in model.detect(batch["image"]))
        label, right = batch["label"], batch["boxes"]
        real, (_, queries, kinds) = label != UNLABELLED, logits.shape
        query = self.match(logits.detach(), boxes.detach(), batch)  # (B, M)
        wanted = torch.full((len(label), queries + 1), kinds - 1, device=label.device)  # one more, for what is no object
        wanted = wanted.scatter(1, torch.where(real, query, queries), label.clamp(min=0))[:, :queries]
        weight = torch.ones(kinds, device=logits.device)
        weight[-1] = self.config.no_object
        predicted = boxes.gather(1, query[..., None].expand(-1, -1, 4))
        sums = {
            "loss": F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), weight=weight, reduction="sum"),
            "box": (predicted - right).abs().sum(-1).masked_fill(~real, 0.0).sum(),
            "giou": (1 - overlaps(predicted, right)[1]).masked_fill(~real, 0.0).sum(),
        }
        said = logits.detach().argmax(-1).gather(1, query)
        return Terms(sums, {"accuracy": ((said == label) & real).sum().float()})

    def match(self, logits: Tensor, boxes: Tensor, batch: Batch) -> Tensor:
        """The query of every object (B, M), 0 where there is none."""
        label, right = batch["label"], batch["boxes"]
        if label.size(1) > logits.size(1):
            raise ConfigError(f"an image may have {label.size(1)} objects, more than --model.queries {logits.size(1)}")
        kinds = label.clamp(min=0)[:, None].expand(-1, logits.size(1), -1)  # (B, Q, M)
        cost = -logits.softmax(-1).gather(-1, kinds)
        cost = cost + self.config.box_weight * (boxes[:, :, None] - right[:, None]).abs().sum(-1)
        cost = cost - self.config.giou_weight * overlaps(boxes[:, :, None], right[:, None])[1]
        found: Tensor = assigned(cost, label != UNLABELLED)
        return found

    def measure(self, model: Detects, batch: Batch) -> dict[str, Tensor]:
        """What average precision is made of."""
        logits, boxes = (part.float().cpu() for part in model.detect(batch["image"]))
        confidence, kind = logits.softmax(-1)[..., :-1].max(-1)
        classes, label = logits.size(-1) - 1, batch["label"].cpu()
        total, objects = torch.zeros(()), torch.zeros(classes)
        for i in range(len(logits)):
            real = label[i] != UNLABELLED
            objects += torch.bincount(label[i][real], minlength=classes)
            total = total + found_at(confidence[i], kind[i], boxes[i], batch["boxes"][i].cpu()[real], label[i][real], classes)
        device = batch["label"].device
        return {"found": total.to(device), "objects": objects.to(device)}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        found = super().summary(means)
        if "found" in means:
            objects = means["objects"].double().cpu()  # means over images, as those found are: only their ratios count
            each = average_precision(means["found"].double().cpu(), objects)
            found["ap50"] = float(each[objects > 0].mean()) if (objects > 0).any() else 0.0
        return found


@torch.library.custom_op("weft::assigned", mutates_args=())
def assigned(cost: Tensor, real: Tensor) -> Tensor:
    """cost (B, Q, M) of each query and object, real (B, M) -> the query of each object (B, M), 0 where there is none."""
    found = torch.zeros(real.shape, dtype=torch.int64)
    for number, (table, there) in enumerate(zip(cost.cpu().numpy(), real.cpu().numpy(), strict=True)):
        found[number, torch.from_numpy(there)] = torch.from_numpy(assignment(table[:, there].T))
    return found.to(cost.device)


@assigned.register_fake
def _(cost: Tensor, real: Tensor) -> Tensor:
    return cost.new_empty(real.shape, dtype=torch.int64)
