"""Learning-rate schedules against their closed forms."""

from __future__ import annotations

import math

import pytest

from weft.core.errors import ConfigError
from weft.training.schedule import Schedule


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 512**-0.5 * 4000**-1.5), (4000, 512**-0.5 * 4000**-0.5), (100_000, 512**-0.5 * 1e5**-0.5)]
)
def test_noam(step: int, expected: float) -> None:
    schedule = Schedule(kind="noam", warmup=4000, width=512)
    assert schedule.factor(step, 0) == pytest.approx(expected, rel=1e-12)


def test_noam_peaks_at_the_end_of_its_warm_up() -> None:
    schedule = Schedule(kind="noam", warmup=4000, width=512)
    rates = {step: schedule.factor(step, 0) for step in range(1, 10_000)}
    assert max(rates, key=rates.__getitem__) == 4000
    assert rates[4000] == pytest.approx(7.0e-4, rel=2e-3)


def test_gpt3_warm_up_and_cosine_by_tokens() -> None:
    """375 million tokens of warm-up, decay to a tenth over 260 billion, constant afterwards."""
    schedule = Schedule(kind="cosine", unit="tokens", warmup=375_000_000, total=260_000_000_000, min_lr_ratio=0.1)
    end = 300e9
    assert schedule.factor(0, end) == 0.0
    assert schedule.factor(375e6 / 2, end) == pytest.approx(0.5)
    assert schedule.factor(375e6, end) == pytest.approx(1.0)
    half = (375e6 + 260e9) / 2
    assert schedule.factor(half, end) == pytest.approx(0.55)
    assert schedule.factor(260e9, end) == pytest.approx(0.1)
    assert schedule.factor(299e9, end) == pytest.approx(0.1)


@pytest.mark.parametrize("position", [20, 37, 99, 100, 150])
def test_cosine_has_the_closed_form(position: int) -> None:
    schedule = Schedule(kind="cosine", warmup=20, min_lr_ratio=0.1)
    share = min(1.0, (position - 20) / 80)
    assert schedule.factor(position, 100) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * share)))


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine", "step"])
def test_warm_up_rises_in_a_straight_line_from_zero(kind: str) -> None:
    schedule = Schedule(kind=kind, warmup=50, every=1000)  # type: ignore[arg-type]
    assert [schedule.factor(p, 1000) for p in (0, 1, 25, 49)] == pytest.approx([0.0, 0.02, 0.5, 0.98])
    assert schedule.factor(50, 1000) == pytest.approx(1.0)


def test_linear_falls_to_its_floor_and_stays() -> None:
    schedule = Schedule(kind="linear", warmup=10, total=110, min_lr_ratio=0.2)
    assert [schedule.factor(p, 500) for p in (10, 60, 110, 400)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_peak_is_held_before_the_fall(kind: str) -> None:
    schedule = Schedule(kind=kind, warmup=20, hold=0.5)  # type: ignore[arg-type]
    assert [schedule.factor(p, 120) for p in (10, 20, 50, 70, 95, 120, 200)] == pytest.approx([0.5, 1, 1, 1, 0.5, 0, 0])


def test_a_hold_beyond_the_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--optim.schedule.hold must be between 0 and 1, not 1.5"):
        Schedule(hold=1.5).check("optim.schedule")


def test_step_drops_every_so_often() -> None:
    schedule = Schedule(kind="step", every=100, drop=0.5)
    assert [schedule.factor(p, 0) for p in (1, 99, 100, 199, 200, 350)] == pytest.approx([1, 1, 0.5, 0.5, 0.25, 0.125])


def test_constant_is_constant() -> None:
    assert {Schedule().factor(p, 100) for p in range(1, 200)} == {1.0}


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_a_warm_up_as_long_as_the_run_has_no_decay_to_divide_by(kind: str) -> None:
    schedule = Schedule(kind=kind, warmup=100, min_lr_ratio=0.1)  # type: ignore[arg-type]
    assert [schedule.factor(p, 100) for p in (50, 100)] == pytest.approx([0.5, 1.0])
