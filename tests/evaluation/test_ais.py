"""Annealed importance sampling against normalisers by enumeration."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import weft
from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.evaluation.ais import Path as Way
from weft.evaluation.ais import base_rates, cool, estimate, heat, schedule
from weft.evaluation.evaluate import evaluate
from weft.models.energy.boltzmann import BoltzmannConfig
from weft.models.energy.rbm import RBM, RBMConfig
from weft.objectives.energy.contrastive_divergence import ContrastiveDivergenceConfig
from weft.runs.assemble import assemble


def machine(features: int = 20, hidden: int = 12, scale: float = 1.0) -> RBM:
    torch.manual_seed(0)
    model = RBM(RBMConfig(features=features, hidden=hidden))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def test_log_z_is_within_a_nat_of_the_exact_one_from_both_ends() -> None:
    model = machine()
    exact = float(model.log_partition().detach())
    images = model.sample(random.keys(1, torch.arange(200)), 200)
    found = estimate(model, images, chains=100, temperatures=500)
    metrics = found.metrics()
    assert abs(metrics["log_partition"] - exact) < 0.1
    assert abs(metrics["log_partition_reverse"] - exact) < 0.2
    truth = float((-model.free_energy(images)).mean().detach()) - exact
    assert metrics["log_likelihood"] == pytest.approx(truth, abs=0.1)
    assert metrics["log_likelihood_reverse"] == pytest.approx(truth, abs=0.2)
    assert metrics["ais_chains"] == 100
    assert metrics["ais_temperatures"] == 500
    assert metrics["effective_chains"] > 50


def test_with_few_temperatures_the_two_ends_bracket_the_truth() -> None:
    """Forward chains say too little, backward ones too much, and more temperatures bring them together."""
    model = machine(scale=2.0)
    exact = float(model.log_partition().detach())
    images = model.sample(random.keys(1, torch.arange(200)), 500)
    gaps = []
    for temperatures in (5, 500):
        found = estimate(model, images, chains=200, temperatures=temperatures)
        gaps.append(float(found.backward.mean() - found.forward.mean()))
        assert float(found.forward.mean()) < exact + 0.1
        assert float(found.backward.mean()) > exact - 0.5
    assert gaps[1] < gaps[0] / 5


def test_the_weights_are_unbiased_however_few_the_temperatures() -> None:
    model = machine(6, 4, 0.7)
    way, key = Way(model, torch.zeros(6)), random.keys(2, torch.arange(20_000))
    weights = (way.log_start() + heat(way, key, 3)).exp()
    exact = float(model.log_partition().exp().detach())
    assert abs(float(weights.mean()) - exact) < 4 * float(weights.std()) / len(key) ** 0.5


def test_a_machine_of_independent_pixels_needs_no_annealing() -> None:
    model = RBM(RBMConfig(features=5, hidden=3))
    bias = torch.linspace(-1, 1, 5)
    with torch.no_grad():
        model.weight.zero_()
        model.visible_bias.copy_(bias)
    way, key = Way(model, bias), torch.arange(4)
    expected = float(F.softplus(bias.double()).sum()) + 3 * torch.tensor(2.0, dtype=torch.float64).log().item()
    assert way.log_start() == pytest.approx(expected)
    for found in (heat(way, key, 10), cool(way, torch.ones(4, 5), key, 10)):
        torch.testing.assert_close(found, torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_temperatures_rise_from_zero_to_one_and_are_dense_near_one() -> None:
    steps = schedule(290)
    assert len(steps) == 291
    assert steps[0] == 0
    assert steps[-1] == 1
    assert steps == sorted(set(steps))
    assert [sum(low <= t < high for t in steps) for low, high in ((0, 0.5), (0.5, 0.9), (0.9, 1))] == pytest.approx([10, 80, 200], abs=2)


def test_base_rates_stay_finite_where_a_pixel_never_changes() -> None:
    images = torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
    assert base_rates(images).isfinite().all()
    assert float(base_rates(images)[2]) == pytest.approx(0)


def test_evaluation_reports_it_and_settings_leave_it_out(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    changes = {"train.device": "cpu", "train.steps": 30, "train.eval_every": 0, "model.hidden": 10, "objective.ais_temperatures": 200}
    assemble(weft.recipe("rbm/digits", changes), tmp_path / "run").trainer.fit()
    loaded = weft.load(tmp_path / "run", device="cpu")
    found = evaluate(loaded, examples=100)
    exact = float(loaded.model.log_partition().detach())  # type: ignore[operator]
    assert found["log_partition"] == pytest.approx(exact, abs=0.2)
    assert found["log_likelihood"] < -10
    assert found.findings is not None
    without = weft.recipe("rbm/digits", changes | {"objective.ais_chains": 0})
    assemble(without, tmp_path / "without").trainer.fit()
    assert "log_likelihood" not in evaluate(str(tmp_path / "without"), examples=10).metrics


def test_other_models_and_settings_are_refused() -> None:
    with pytest.raises(CapabilityError, match="BipartiteEnergy"):
        estimate(BoltzmannConfig(features=4, hidden=2).build(), torch.ones(3, 4))
    with pytest.raises(ConfigError, match="ais_chains"):
        ContrastiveDivergenceConfig(ais_chains=-1).build()


def test_a_single_chain_has_no_error_and_no_warning() -> None:
    torch.manual_seed(0)
    found = estimate(machine(6, 3), torch.ones(1, 6), chains=1, temperatures=10).metrics()
    assert found["ais_chains"] == found["effective_chains"] == 1
    assert not {"log_partition_error", "log_partition_reverse_error"} & set(found)


@pytest.mark.parametrize("missing", [{"chains": 0}, {"temperatures": 0}])
def test_nothing_is_estimated_from_nothing(missing: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="AIS needs chains, temperatures and images"):
        estimate(RBMConfig(features=3, hidden=2).build(), torch.zeros(2, 3), **missing)
