"""Sets of points and the order in which to point at them: numbers to sort, convex hulls, or your own file.

Batch: points (B, N, F), lengths (B,), order (B, N + 1): the positions from 1 on, then 0 for the end, then IGNORE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, Dataset, Problems, TensorDataset
from weft.data.io.records import Header, Records, read_records
from weft.data.split import check_share, hold_out

END = 0


@dataclass(frozen=True, kw_only=True)
class PointingSequencesConfig(DataConfig):
    path: str = ""
    """A TSV, CSV or JSONL file with inputs (numbers with spaces between, or points as 0.1,0.2 0.3,0.4) and their order (positions from
    1)."""
    header: Header = "detect"
    """Whether the first line names the columns; those called inputs and order are taken, else the first two."""
    validation: float = 0.1
    """Share of the rows kept for validation; 0 for no validation."""

    def build(self) -> Data:
        check_share(self.validation)
        problems = Problems()
        rows = self._rows(problems)
        if len(rows.names) < 2:
            raise DataError(f"{rows.path}: has one column only; inputs and their order are needed, with tab between")
        lower = [name.lower() for name in rows.names]
        columns = [lower.index(name) if name in lower else place for place, name in enumerate(("inputs", "order"))]
        read = [row_of(rows, number, *(cells[column] for column in columns)) for number, cells in enumerate(rows.cells)]
        if not read:
            raise DataError(f"{rows.path}: has no row below its header; inputs and their order are needed")
        features = read[0][0].size(1)
        if any(points.size(1) != features for points, _ in read):
            raise DataError(f"{rows.path}: points have different numbers of features, {features} in the first row")
        train, validation = hold_out(np.zeros(len(read), dtype=np.int64), self.validation, problems)
        longest = max(len(points) for points, _ in read)
        first, second = (table([read[i] for i in part], longest, features) for part in (train.tolist(), validation.tolist()))
        return Data(first, second if len(second) else None, facts(features, longest, len(first), len(second)), None, problems)

    def _rows(self, problems: Problems) -> Records:
        """A first line without any digit is a header."""
        if self.header != "detect":
            return read_records(self.path, problems, self.header)
        rows = read_records(self.path, Problems(), "no")
        named = not any(map(str.isdecimal, "".join(rows.cells[0])))
        return read_records(self.path, problems, "yes" if named else "no")


@dataclass(frozen=True, kw_only=True)
class PointingTaskConfig(DataConfig):
    file_source = "pointing_sequences"

    task: Literal["sort", "hull"] = "sort"
    """Numbers from the least to the largest, or the points of the convex hull, counter-clockwise from the leftmost."""
    min_length: int = 5
    """Fewest points."""
    max_length: int = 10
    """Most points; every number between is as likely."""
    examples: int = 1_000_000
    """Training examples, made when they are asked for."""
    validation_examples: int = 1000
    """Validation examples."""
    seed: int = 0
    """Of the points."""

    def build(self) -> Data:
        if not 3 <= self.min_length <= self.max_length <= 1000:
            given = f"{self.min_length} and {self.max_length}"
            raise ConfigError(
                f"--data.min-length and --data.max-length must be from 3 to 1,000, the first not above the second, not {given}"
            )
        if self.examples < 1 or self.validation_examples < 1:
            given = f"{self.examples} and {self.validation_examples}"
            raise ConfigError(f"--data.examples and --data.validation-examples must be at least 1, not {given}")
        first, second = (PointingTask(self, split) for split in ("train", "validation"))
        return Data(first, second, facts(first.features, self.max_length, len(first), len(second)))


class PointingTask(Dataset):
    """Uniform points, each example a function of seed, split and index."""

    def __init__(self, config: PointingTaskConfig, split: Literal["train", "validation"], device: torch.device | None = None):
        self.config, self.split = config, split
        self.size = config.examples if split == "train" else config.validation_examples
        self.features = 1 if config.task == "sort" else 2
        self._device = device or torch.device("cpu")

    def __len__(self) -> int:
        return self.size

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        c = self.config
        own = random.keys(random.seed_of(c.seed, "pointing", self.split), index)
        lengths = c.min_length + random.integers(random.fold(own, "length"), c.max_length - c.min_length + 1)
        points = random.uniform(random.fold(own, "points"), c.max_length, self.features)
        there = torch.arange(c.max_length, device=index.device) < lengths[:, None]
        points = points.masked_fill(~there[..., None], 0.0)
        return {"points": points, "lengths": lengths, "order": (sorted_order if c.task == "sort" else hull_order)(points, there)}

    def to(self, device: torch.device) -> Dataset:
        return PointingTask(self.config, self.split, device)

    @property
    def device(self) -> torch.device:
        return self._device


def sorted_order(points: Tensor, there: Tensor) -> Tensor:
    """points (B, N, 1), there (B, N) -> positions from the least to the largest (B, N + 1)."""
    order = points[..., 0].masked_fill(~there, torch.inf).argsort(dim=1, stable=True) + 1
    return ended(order, there.sum(1))


def hull_order(points: Tensor, there: Tensor) -> Tensor:
    """points (B, N, 2), there (B, N) -> positions on the convex hull (B, N + 1), counter-clockwise, by gift wrapping (Jarvis, 1973)."""
    b, n, _ = points.shape
    row = torch.arange(b, device=points.device)
    current = points[..., 0].masked_fill(~there, torch.inf).argmin(1)
    first, sizes, going = current, torch.zeros_like(current), torch.ones_like(current, dtype=torch.bool)
    order = torch.zeros(b, n, dtype=torch.int64, device=points.device)
    for step in range(n):
        order[:, step] = current + 1
        sizes += going
        along = points - points[row, current][:, None]  # (B, N, 2), from where we are
        turn = along[:, :, None, 0] * along[:, None, :, 1] - along[:, :, None, 1] * along[:, None, :, 0]  # (B, N, N), > 0: left of the way
        off = there & (torch.arange(n, device=points.device) != current[:, None])
        outer = ((turn >= 0) | ~off[:, None, :]).all(-1) & off  # nothing lies to the right of the way there
        current = outer.long().argmax(1)
        going = going & (current != first)
    return ended(order, sizes)


def ended(order: Tensor, sizes: Tensor) -> Tensor:
    """order (B, N), of which sizes (B,) count -> with the end behind them and IGNORE behind that (B, N + 1)."""
    order = torch.cat([order, order[:, :1]], 1)
    place = torch.arange(order.size(1), device=order.device)
    return order.masked_fill(place == sizes[:, None], END).masked_fill(place > sizes[:, None], IGNORE)


def row_of(rows: Records, number: int, inputs: str, order: str) -> tuple[Tensor, list[int]]:
    """The points (N, F) of a row, and the positions at which to point."""
    try:
        values = torch.tensor([[float(cell) for cell in one.split(",")] for one in inputs.split()])
        positions = [int(one) for one in order.split()]
    except (ValueError, TypeError) as error:
        example = "inputs like 3 1 2 or 0.1,0.2 0.3,0.4 and an order like 2 3 1 are expected"
        raise DataError(f"{rows.location(number)}: {str(error)[:80]}; {example}") from None
    if values.ndim != 2 or not values.numel() or not values.isfinite().all():
        raise DataError(f"{rows.location(number)}: inputs must be finite numbers, as many in every point, not {inputs[:40]!r}")
    if not positions or not all(1 <= one <= len(values) for one in positions):
        raise DataError(f"{rows.location(number)}: the order must hold positions from 1 to {len(values)}, not {order[:40]!r}")
    if len(positions) > len(values):
        raise DataError(f"{rows.location(number)}: the order holds {len(positions)} positions, more than the {len(values)} inputs")
    return values, positions


def table(rows: list[tuple[Tensor, list[int]]], longest: int, features: int) -> TensorDataset:
    """Rows, padded to the longest."""
    points = torch.zeros(len(rows), longest, features)
    order = torch.full((len(rows), longest + 1), IGNORE)
    for number, (values, positions) in enumerate(rows):
        points[number, : len(values)] = values
        order[number, : len(positions) + 1] = torch.tensor([*positions, END])
    return TensorDataset({"points": points, "lengths": torch.tensor([len(values) for values, _ in rows]), "order": order})


def facts(features: int, longest: int, training: int, validation: int) -> dict[str, int]:
    return {"features": features, "tokens": longest + 1, "training_examples": training, "validation_examples": validation}
