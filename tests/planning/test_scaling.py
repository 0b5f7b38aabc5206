"""Compute, growth and compute-optimal sizes against the papers."""

from __future__ import annotations

import pytest

from weft.models.language.gpt import PRESETS
from weft.models.language.perceiver import PerceiverConfig
from weft.planning import scaling


def test_gpt3_takes_3640_petaflop_days() -> None:
    size = scaling.parameters(PRESETS["gpt3-175b"])
    assert size == 174_604_259_328
    flop = scaling.compute(size, 300e9)
    assert flop == pytest.approx(3.14e23, rel=2e-3)
    assert scaling.pf_days(flop) == pytest.approx(3640, rel=2e-3)
    assert scaling.v100_years(3640 * scaling.PF_DAY) == pytest.approx(355.9, abs=0.1)


def test_sizes_are_those_of_whole_models() -> None:
    known = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
    assert {name: scaling.parameters(PRESETS[name]) for name in known} == known


def test_a_model_that_has_a_kind_of_layer_once_is_counted_whole() -> None:
    config = PerceiverConfig(vocabulary=256, context=128, width=32, heads=2)
    assert scaling.parameters(config) == sum(p.numel() for p in config.build().parameters())


def test_growth_is_counted_from_the_configurations() -> None:
    rows = {str(row["model"]): row for row in scaling.growth()}
    assert len(rows) == 10
    last = rows["gpt3-175b"]
    assert float(last["times_printed"]) == pytest.approx(1496, abs=0.5)
    assert float(last["times"]) == pytest.approx(1498, abs=1)
    for row in rows.values():
        assert float(row["parameters"]) == pytest.approx(float(row["printed"]), rel=0.04)


def test_the_compute_optimum_is_twenty_tokens_for_each_parameter() -> None:
    size, tokens = scaling.chinchilla_optimum(5.76e23)  # Gopher's compute, with which Chinchilla was trained
    assert tokens == pytest.approx(20 * size)
    assert size == pytest.approx(70e9, rel=0.02)
    assert scaling.kaplan_optimum(3.14e23)[0] > 5 * scaling.chinchilla_optimum(3.14e23)[0]
    assert scaling.chinchilla_loss(70e9, 1.4e12) < scaling.chinchilla_loss(175e9, 300e9)
    assert scaling.kaplan_loss(3.14e23) == pytest.approx(1.76, abs=0.02)


def test_ten_times_the_compute_lowers_the_loss_by_a_tenth() -> None:
    assert scaling.kaplan_loss(1e22) / scaling.kaplan_loss(1e21) == pytest.approx(10**-0.05)


def test_batches_grow_with_the_model() -> None:
    assert [scaling.batch_tokens(size) for size in (124e6, 1.5e9, 7e9, 200e9)] == [0.5e6, 1e6, 2e6, 3.2e6]
