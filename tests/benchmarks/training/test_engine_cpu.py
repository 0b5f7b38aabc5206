from __future__ import annotations

import pytest

from weft.benchmarks.training import engine_cpu


def test_losses_are_compared_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cpu, "loss_after", lambda steps, kind, name, seed: steps / 100 + (seed / 100 if "weft" in kind else 0))
    table: list[dict[str, object]] = [
        {"contender": kind, "loss": 2.0 if kind in engine_cpu.COMPARED else None} for kind in engine_cpu.CONTENDERS
    ]
    rows = engine_cpu.seed_losses("small", table, seeds=3, steps=200)
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert rows[0] == {"model": "small", "seed": 0} | dict.fromkeys((*engine_cpu.COMPARED, engine_cpu.ROUNDED), 2.0)
    assert rows[2]["weft own choice"] == 2.02
    assert engine_cpu.apart(rows, "weft own choice") == "weft own choice +0.00, +0.50, +1.00; mean +0.50 ± 0.29 %"
    assert engine_cpu.apart(rows[1:2], engine_cpu.ROUNDED) == "transformers fp32 from rounded weights +0.00; mean +0.00 %"
    assert engine_cpu.seed_losses("small", table, seeds=0, steps=200) == []


def test_a_slow_while_of_the_machine_changes_no_ratio() -> None:
    assert engine_cpu.times([30.0, 3.0, 30.0], [20.0, 2.0, 20.0, 19.0]) == pytest.approx(1.5)
