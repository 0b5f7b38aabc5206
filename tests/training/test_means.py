"""Streaming means: exact for any cut of the data, with counts per term."""

from __future__ import annotations

import pytest
import torch

from tests.training import toys
from weft.objectives.base import Terms
from weft.training.means import Means


def terms(number: int, label: int, start: float) -> tuple[Terms, dict[str, torch.Tensor]]:
    sums = {"reconstruction": torch.tensor(start * number), "label": torch.tensor(2.0 * start * label)}
    metrics = {"label": torch.tensor(0.0), "wrong": torch.tensor(float(number)), "table": torch.full((3,), float(number))}
    metrics.pop("label")
    return Terms(sums, metrics), {"reconstruction": torch.tensor(float(number)), "label": torch.tensor(float(label))}


def test_each_term_is_averaged_over_its_own_count() -> None:
    means = Means(toys.HalfLabelled())
    means.add("", *terms(4, 1, 1.0))
    means.add("", *terms(12, 3, 3.0))
    numbers = means.read()
    assert numbers["reconstruction"] == pytest.approx((4 * 1 + 12 * 3) / 16)
    assert numbers["label"] == pytest.approx((2 * 1 + 6 * 3) / 4)
    assert numbers["wrong"] == pytest.approx(1.0)
    assert numbers["loss"] == pytest.approx(numbers["reconstruction"] + 0.5 * numbers["label"])
    assert "table" not in numbers
    assert means.means()["table"].tolist() == [1.0, 1.0, 1.0]


def test_turns_are_told_apart() -> None:
    means = Means(toys.Rivals())
    for turn in ("first", "second"):
        means.add(turn, Terms({"loss": torch.tensor(8.0 if turn == "first" else 2.0)}), {"loss": torch.tensor(4.0)})
    assert means.read() == {"first_loss": 2.0, "second_loss": 0.5}


def test_a_long_sum_keeps_its_digits() -> None:
    means = Means(toys.Regression())
    for _ in range(3000):
        means.add("", Terms({"loss": torch.tensor(1e6) + 1}), {"loss": torch.tensor(1.0)})
    assert means.read()["loss"] == 1e6 + 1


def test_clearing_starts_anew_and_keeps_the_tensors() -> None:
    means = Means(toys.Regression())
    assert means.read() == {}
    means.add("", Terms({"loss": torch.tensor(float("nan"))}), {"loss": torch.tensor(1.0)})
    held = means.sums["loss"]
    means.clear()
    means.add("", Terms({"loss": torch.tensor(3.0)}), {"loss": torch.tensor(1.0)})
    assert means.sums["loss"] is held
    assert means.read() == {"loss": 3.0}


def test_state_survives_saving() -> None:
    means, again = Means(toys.HalfLabelled()), Means(toys.HalfLabelled())
    means.add("", *terms(4, 1, 1.0))
    again.load_state_tensors({name: value.clone() for name, value in means.state_tensors().items()}, torch.device("cpu"))
    for each in (means, again):
        each.add("", *terms(12, 3, 3.0))
    assert means.read() == again.read()
