"""The studies of adversarial networks, shortened, tell what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.contracts.tiny import tiny
from weft.evaluation.image_measures import Extractor
from weft.studies.generative import clipping_histogram, critic_distance, gan_panels, mode_collapse, vanishing_generator, wgan_robustness


def test_panels_follow_the_generator_to_the_data() -> None:
    """Mean and deviation become the data's, and D one half, on what is generated and wherever there are data."""
    panels = gan_panels.follow(gan_panels.Settings(steps=500))
    first, last = panels[0], panels[-1]
    assert len(panels) == 11
    assert abs(last.mean - 1) < 0.2 < abs(first.mean - 1)
    assert last.deviation == pytest.approx(1.0, abs=0.2)
    assert last.fooled == pytest.approx(0.5, abs=0.03)
    inside = (gan_panels.GRID - 1).abs() < 1.5
    assert float((last.odds[inside] - 0.5).abs().max()) < 0.1 < float((first.odds[inside] - 0.5).abs().max())


def test_the_four_panels_are_drawn() -> None:
    found = gan_panels.study(gan_panels.Settings(steps=10, compare=()))
    assert all(f"({letter}) step" in found.figure for letter in "abcd")


def test_numbers_of_turns_are_compared() -> None:
    figure = gan_panels.comparison(gan_panels.Settings(steps=10, compare=(1, 3)))
    assert "k = 1" in figure
    assert "k = 3" in figure
    assert gan_panels.comparison(gan_panels.Settings(steps=10, compare=())) == ""


def test_each_variant_of_the_ring_is_counted_and_drawn() -> None:
    names = ("vanilla", "minibatch discrimination", "historical averaging")
    found = mode_collapse.study(mode_collapse.Settings(steps=4, variants=names))
    assert tuple(row[0] for row in found.rows) == names
    assert "of 8" in found.rows[0][1]
    assert found.figure.count("<small>") == 4
    assert found.figure.count('figure class="chart') == found.figure.count("application/json"), "what the page's script reads"


def test_a_critic_is_believed_from_its_peak_on() -> None:
    """As it learns itself, what it says rises from nothing; then it falls as the modes are found."""
    learning = [(0, 0.0, 0.0, 0.9, 0.0), (1, 0.0, 0.0, 0.9, -1.0)]
    falling = [(step, 8.0, 0.5, 1 / step, 2 / step) for step in range(2, 8)]
    assert mode_collapse.together(learning + falling) == "1.00"
    assert mode_collapse.together(learning + falling[:3]) == "–"


def test_a_sure_discriminator_teaches_by_one_loss_only() -> None:
    pytest.importorskip("sklearn")
    dying, living = (vanishing_generator.follow(vanishing_generator.Settings(steps=60), loss) for loss in ("saturating", "non_saturating"))
    assert dying[-1][1] > 0.95
    assert dying[-1][2] < 0.1 * dying[0][2]
    assert living[-1][2] > 10 * dying[-1][2]


def test_clipping_drives_weights_to_the_bound() -> None:
    found = clipping_histogram.study(clipping_histogram.Settings(steps=10, bounds=(0.01,)))
    clipped, penalised = (float(row[1].rstrip("%")) for row in found.rows)
    assert clipped > 20 > 5 > penalised


def test_distances_of_what_is_moved_apart() -> None:
    found = critic_distance.study(critic_distance.Settings())
    assert found.rows[-1] == ("4.00", "0.6931", "4.0000", "4.0000")


def test_every_generator_meets_both_games() -> None:
    pytest.importorskip("sklearn")
    found = wgan_robustness.study(wgan_robustness.Settings(steps=1, width=2))
    assert len(found.rows) == 3
    assert len(found.rows[0]) == 3


def test_generators_may_be_compared_by_features(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    weft.train(tiny("classifier/digits_extractor", tmp_path, {"train.steps": 2, "train.device": "cpu"}), out=tmp_path / "extractor")
    settings = wgan_robustness.Settings(steps=1, width=2, extractor=str(tmp_path / "extractor"))
    extractor = Extractor.of(settings.extractor)
    found = wgan_robustness.course(settings, {}, extractor)
    assert found.features is not None
    assert found.features > 0
    assert found.summary().endswith(f" ({found.features:.1f})")
