"""Small models and objectives whose training can be computed by hand, and a trainer over plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.data.base import UNLABELLED, Batch, DataLoader, TensorDataset
from weft.objectives.base import Objective, Terms, Turn, count
from weft.training import execution
from weft.training.hooks import Hook
from weft.training.optimizer.settings import SGD, OptimConfig
from weft.training.settings import Train
from weft.training.trainer import Trainer


class Point(nn.Module):
    """A single vector of parameters."""

    def __init__(self, start: Tensor):
        super().__init__()
        self.x = nn.Parameter(start.clone())


class Quadratic(Objective):
    """Half the squared product of each row with the point: the mean over all rows is x'Ax / 2 with A = rows' rows / B."""

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["row"]), like=batch["row"])}

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        return Terms({"loss": 0.5 * (batch["row"] @ model.x).square().sum()})


class Linear(nn.Module):
    """y = W x, with a dropout that may be off."""

    def __init__(self, features: int = 4, outputs: int = 3, dropout: float = 0.0):
        super().__init__()
        self.layer = nn.Linear(features, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.dropout(x))


class Regression(Objective):
    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(batch["y"].numel(), like=batch["y"])}

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        return Terms({"loss": (model(batch["x"]) - batch["y"]).square().sum()})


class HalfLabelled(Objective):
    """Reconstruct every example, and classify those that have a label: two terms with counts of their own."""

    weights = {"label": 0.5}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {
            "reconstruction": count(len(batch["x"]), like=batch["x"]),
            "label": count((batch["label"] != UNLABELLED).sum(), like=batch["x"]),
        }

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        logits = model(batch["x"])
        known = F.cross_entropy(logits, batch["label"], ignore_index=UNLABELLED, reduction="sum")
        rebuilt = (logits @ model.layer.weight - batch["x"]).square().sum()
        return Terms({"reconstruction": rebuilt, "label": known})


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Linear(), Linear()


class Rivals(Objective):
    """Two turns, each moving its own half; remembers which draws each turn saw and how often `after_update` was called."""

    turns = (Turn("first", ("first",)), Turn("second", ("second",)))

    def __init__(self, fresh: bool = True) -> None:
        super().__init__()
        self.turns = (Turn("first", ("first",)), Turn("second", ("second",), fresh=fresh))
        self.register_buffer("updates", torch.zeros(2))
        self.seen: list[tuple[str, list[int]]] = []

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["x"]), like=batch["x"])}

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        self.seen.append((turn, batch["number"].tolist()))
        sign = 1 if turn == "first" else -1
        gap = (model.first(batch["x"]) - model.second(batch["x"])).square().mean(-1)
        return Terms({"loss": sign * gap.sum()})

    def after_update(self, model: nn.Module, turn: str) -> None:
        self.updates[0 if turn == "first" else 1] += 1


def trainer(
    model: nn.Module,
    objective: Objective,
    tensors: dict[str, Tensor],
    optim: OptimConfig | dict[str, OptimConfig] | None = None,
    hooks: Sequence[Hook] = (),
    tokens: int = 1,
    device: torch.device | None = None,
    shuffle: bool = True,
    **settings: Any,
) -> Trainer:
    """A trainer in full precision over examples held as tensors."""
    device = device or torch.device("cpu")
    train = Train(**{"precision": "fp32", "compile": "off", "cuda_graphs": "off", "device": str(device), **settings})
    plan = execution.choose(train, model, objective)
    source = DataLoader(TensorDataset(tensors), train.seed, plan.device, shuffle)
    return Trainer(model, objective, source, train, optim or SGD(lr=0.1), plan, hooks, tokens)


def regression(examples: int = 64) -> dict[str, Tensor]:
    """Inputs, noisy linear targets, labels of which every third is unknown, and the number of each example."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples, 4, generator=generator)
    y = x @ torch.randn(4, 3, generator=generator) + 0.1 * torch.randn(examples, 3, generator=generator)
    label = torch.arange(examples) % 3
    label[::3] = UNLABELLED
    return {"x": x, "y": y, "label": label, "number": torch.arange(examples)}


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
