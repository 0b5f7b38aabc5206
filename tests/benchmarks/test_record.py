"""What evaluation tells of trivial answers is a baseline in a record, and no result."""

from __future__ import annotations

from weft.benchmarks.record import measurements


def test_the_commonest_class_is_a_baseline_of_the_accuracy() -> None:
    rows = [{"seed": seed, "examples": 40, "accuracy": 0.8 + seed / 100, "majority_class": 0.75, "loss": 1.0} for seed in (1, 2)]
    found = {measured.metric: measured for measured in measurements(rows, split="test").measurements}
    assert set(found) == {"accuracy", "loss"}
    assert [(base.name, base.value, base.computed) for base in found["accuracy"].baselines] == [("commonest class", 0.75, False)]
    assert not found["loss"].baselines
