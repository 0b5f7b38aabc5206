"""The game against its closed form on distributions over a few atoms, and the Fréchet distance against known ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft
from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.metrics.divergences import jensen_shannon
from weft.metrics.image_distances import frechet_distance
from weft.models.generative.gan import GANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.objectives.generative.distribution_distance import coverage, near_modes
from weft.objectives.generative.gan_losses import gradient_penalty
from weft.runs.assemble import assemble
from weft.training.hooks import evaluate
from weft.training.trainer import Trainer

SIZE = 1000


class Atoms(nn.Module):
    """Real and generated examples are one of K atoms; the discriminator has a free number for each."""

    def __init__(self, generated: Tensor):
        super().__init__()
        self.generated = generated
        self.odds = nn.Parameter(torch.zeros(generated.size(1)))

    def sample(self, key: Tensor) -> Tensor:
        return self.generated

    def discriminate(self, x: Tensor) -> Tensor:
        return x @ self.odds


def distribution(seed: int, atoms: int = 5) -> Tensor:
    torch.manual_seed(seed)
    p = torch.rand(atoms) + 0.05
    p = (p / p.sum() * SIZE).round() / SIZE
    p[0] += 1 - p.sum()
    return p


def examples(p: Tensor) -> Tensor:
    """SIZE one-hot rows, each atom as often as p says."""
    return torch.eye(len(p)).repeat_interleave((p * SIZE).round().long(), 0)


def discriminator_loss(model: Atoms, real: Tensor, smoothing: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    objective = AdversarialConfig(label_smoothing=smoothing).build()
    batch = {"image": real, "key": torch.arange(len(real))}
    loss: Tensor = objective(model, batch, "discriminator").sums["loss"] / objective.counts(batch)["loss"]
    return loss


def trained_odds(p: Tensor, q: Tensor, smoothing: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """D of each atom after training against a fixed generator."""
    model, real = Atoms(examples(q)), examples(p)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        discriminator_loss(model, real, smoothing).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.odds.detach().sigmoid()


def test_a_trained_discriminator_becomes_p_over_p_plus_q() -> None:
    p, q = distribution(0), distribution(1)
    assert float((trained_odds(p, q) - p / (p + q)).abs().max()) <= 0.02


def test_with_one_sided_smoothing_it_becomes_nine_tenths_of_that() -> None:
    p, q = distribution(0), distribution(1)
    assert float((trained_odds(p, q, (0.1, 0.0)) - 0.9 * p / (p + q)).abs().max()) <= 0.02


def test_two_sided_smoothing_calls_real_what_is_never_seen() -> None:
    """Where there are no data, D must be 0 to drive the generator away; a smoothing in what is generated leaves it at the smoothing."""
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.2, 0.2, 0.6])
    one, two = trained_odds(p, q, (0.1, 0.0)), trained_odds(p, q, (0.1, 0.1))
    assert float(one[2]) < 0.02
    assert float(two[2]) == pytest.approx(0.1, abs=0.02)
    assert float((two - (0.9 * p + 0.1 * q) / (p + q)).abs().max()) <= 0.02


@pytest.mark.parametrize("seed", range(5))
def test_at_the_best_discriminator_the_game_is_worth_twice_the_divergence_less_log_4(seed: int) -> None:
    p, q = distribution(seed), distribution(seed + 100)
    model = Atoms(examples(q))
    model.odds.data = (p / q).log()
    value = -float(discriminator_loss(model, examples(p)).detach())
    assert value == pytest.approx(2 * float(jensen_shannon(p, q)) - math.log(4), abs=1e-5)
    assert value > -math.log(4)


def test_equal_distributions_cannot_be_told_apart() -> None:
    p = distribution(3)
    assert float(discriminator_loss(Atoms(examples(p)), examples(p)).detach()) == pytest.approx(math.log(4), abs=1e-5)


@pytest.mark.parametrize(("loss", "pull"), [("non_saturating", -1.0), ("saturating", 0.0)])
def test_where_the_discriminator_is_sure_only_one_loss_still_teaches(loss: str, pull: float) -> None:
    model = Atoms(torch.ones(1, 1))
    model.odds.data.fill_(-20.0)
    objective = AdversarialConfig(loss=loss).build()  # type: ignore[arg-type]
    objective(model, {"key": torch.zeros(1).long()}, "generator").sums["loss"].backward()
    assert float(model.odds.grad) == pytest.approx(pull, abs=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("odds", [-300.0, 300.0])
@pytest.mark.parametrize("turn", ["discriminator", "generator"])
@pytest.mark.parametrize("loss", ["non_saturating", "saturating", "hinge", "wasserstein", "least_squares"])
def test_no_loss_is_infinite(odds: float, turn: str, loss: str) -> None:
    model = Atoms(torch.ones(1, 1))
    model.odds.data.fill_(odds)
    objective = AdversarialConfig(loss=loss).build()  # type: ignore[arg-type]
    value = objective(model, {"image": torch.ones(1, 1), "key": torch.zeros(1).long()}, turn).sums["loss"]
    value.backward()
    assert math.isfinite(float(value.detach()))
    assert torch.isfinite(model.odds.grad).all()  # type: ignore[arg-type]


def test_each_turn_changes_its_own_network_only(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    small = {"model.generator": (8,), "model.discriminator": (8,), "train.batch": 8, "objective.discriminator_steps": 2}
    made = assemble(weft.recipe("gan/digits", {**small, "train.device": "cpu"}), tmp_path / "run")
    trainer, seen = made.trainer, []

    def weights() -> dict[str, Tensor]:
        return {name: value.clone() for name, value in trainer.model.state_dict().items()}

    def watch(model: nn.Module, turn: str) -> None:
        seen.append((turn, weights()))

    trainer.objective.after_update = watch  # type: ignore[method-assign, assignment]
    before = weights()
    trainer.run_step()
    assert [turn for turn, _ in seen] == ["discriminator", "discriminator", "generator"]
    assert trainer.cursor == 16
    for turn, after in seen:
        changed = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
        assert changed == {turn}
        before = after


def moments(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    return mean, covariance + mean.outer(mean)


def test_the_frechet_distance_has_its_known_values() -> None:
    torch.manual_seed(0)
    mean1, mean2 = torch.randn(2, 6, dtype=torch.float64)
    root1, root2 = torch.randn(2, 6, 6, dtype=torch.float64)
    covariance1, covariance2 = root1 @ root1.T, root2 @ root2.T
    first, second = moments(mean1, covariance1), moments(mean2, covariance2)
    assert frechet_distance(*first, *first) == pytest.approx(0.0, abs=1e-8)
    product = torch.linalg.eigvals(covariance1 @ covariance2).real.sqrt().sum()
    expected = (mean1 - mean2).square().sum() + covariance1.trace() + covariance2.trace() - 2 * product
    assert frechet_distance(*first, *second) == pytest.approx(float(expected), rel=1e-9)
    assert frechet_distance(*first, *second) == pytest.approx(frechet_distance(*second, *first), rel=1e-9)
    std1, std2 = torch.rand(2, 6, dtype=torch.float64)
    diagonal = frechet_distance(*moments(mean1, std1.square().diag()), *moments(mean2, std2.square().diag()))
    assert diagonal == pytest.approx(float((mean1 - mean2).square().sum() + (std1 - std2).square().sum()), rel=1e-9)


class Copies(nn.Module):
    """A generator that draws from a fixed table by key."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = table

    def sample(self, key: Tensor) -> Tensor:
        return self.table[random.integers(key, len(self.table))]

    def discriminate(self, x: Tensor) -> Tensor:
        return x.flatten(1).sum(1)


def test_validation_reports_the_distance_of_pixels() -> None:
    """However the data are cut into batches, the number is the distance of the two sets' exact moments."""
    torch.manual_seed(0)
    real, table = torch.rand(50, 1, 2, 2), torch.rand(8, 1, 2, 2) * 0.5
    source = DataLoader(TensorDataset({"image": real}), 1, torch.device("cpu"), shuffle=False)
    model, objective = Copies(table), AdversarialConfig().build()
    found = [evaluate(model, objective, source, 50, batch)["frechet_pixels"] for batch in (50, 16)]
    fake = model.sample(source.batch(0, 50)["key"])
    sets = [x.flatten(1).double() for x in (real, fake)]
    flat = [part for x in sets for part in (x.mean(0), x.T @ x / len(x))]
    assert found[0] == pytest.approx(frechet_distance(*flat), rel=1e-9)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_at_least_one_turn_of_the_discriminator() -> None:
    with pytest.raises(ConfigError, match="discriminator_steps"):
        AdversarialConfig(discriminator_steps=0).build()


@pytest.mark.parametrize(
    "setting",
    [
        {"weight_clip": -1.0},
        {"gradient_penalty": float("nan")},
        {"adversarial_weight": 0.0},
        {"label_smoothing": (1.0, 0.0)},
        {"loss": "hinge", "label_smoothing": (0.1, 0.0)},
    ],
)
def test_settings_that_cannot_work_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AdversarialConfig(**setting).build()


def assembled(folder: Path, changes: dict[str, Any]) -> Trainer:
    small = {"model.generator": (8,), "model.discriminator": (8,), "model.latent": 2, "train.batch": 8, "train.device": "cpu"}
    return assemble(weft.recipe("gan/digits", {**small, "model.dropout": 0.0, **changes}), folder).trainer


def test_clipping_holds_after_every_update_of_the_critic(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    trainer = assembled(tmp_path, {"objective.loss": "wasserstein", "objective.weight_clip": 0.01, "objective.discriminator_steps": 2})
    for _ in range(3):
        trainer.run_step()
        assert max(float(p.detach().abs().max()) for p in trainer.model.get_submodule("discriminator").parameters()) <= 0.01
    assert max(float(p.detach().abs().max()) for p in trainer.model.get_submodule("generator").parameters()) > 0.01


def test_the_penalty_is_added_to_what_the_critic_makes_small(tmp_path: Path) -> None:
    """score(generated) - score(real) + 10 (|gradient| - 1)² per example: where a text maximises over the critic, a minus."""
    pytest.importorskip("sklearn")
    trainer = assembled(tmp_path, {"objective.loss": "wasserstein", "objective.gradient_penalty": 10.0})
    batch, model, objective = trainer.source.batch(0, 8), trainer.model, trainer.objective
    terms = objective(model, batch, "discriminator").sums
    real, fake = batch["image"], model.sample(batch["key"]).detach().view_as(batch["image"])  # type: ignore[operator]
    apart = (model.discriminate(fake) - model.discriminate(real)).sum()  # type: ignore[operator]
    assert terms.keys() == {"loss", "penalty"}
    assert float(terms["loss"].detach()) == pytest.approx(float(apart.detach()), rel=1e-4, abs=1e-5)
    torch.testing.assert_close(terms["penalty"], gradient_penalty(model.discriminate, real, fake, batch["key"]).sum())  # type: ignore[arg-type]
    assert objective.weights["penalty"] == 10.0
    assert objective(model, batch, "generator").sums.keys() == {"loss"}


def test_feature_matching_is_the_generators_and_is_the_squared_gap_of_means(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    trainer = assembled(tmp_path, {"objective.adversarial_weight": 0.0, "objective.feature_matching": 1.0})
    assert not trainer.objective.separable
    batch, model = trainer.source.batch(0, 8), trainer.model
    terms = trainer.objective(model, batch, "generator").sums
    assert terms.keys() == {"matching"}
    real, fake = (model.features(x).mean(0) for x in (batch["image"], model.sample(batch["key"])))  # type: ignore[operator]
    assert float(terms["matching"].detach()) == pytest.approx(float((real - fake).square().sum().detach()), rel=1e-5)
    assert "matching" not in trainer.objective(model, batch, "discriminator").sums


def test_the_running_mean_of_history_is_exact_and_continues(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    trainer = assembled(tmp_path, {"objective.historical_averaging": 0.1})
    seen = []
    for _ in range(4):
        trainer.run_step()
        seen.append(trainer.model.get_submodule("generator").state_dict()["0.weight"].clone())
    history: Any = trainer.objective.get_submodule("histories.generator")
    torch.testing.assert_close(history.mean("0.weight"), torch.stack(seen).mean(0))
    again = trainer.objective.config.build()  # type: ignore[union-attr, operator]
    again.load_state_dict(trainer.objective.state_dict())
    assert torch.equal(again.histories["generator"].mean("0.weight"), history.mean("0.weight"))
    distance = history.distance([("0.weight", torch.nn.Parameter(seen[-1]))])
    assert float(distance.detach()) == pytest.approx(float((seen[-1] - torch.stack(seen).mean(0)).square().sum()), rel=1e-4)


def test_a_classifying_discriminator_has_the_fake_class_at_zero() -> None:
    """-log(1 - p_{K+1}) of real and -log p_{K+1} of generated, with p over K + 1 classes of which the last has logit 0."""
    torch.manual_seed(0)
    model = GANConfig(features=6, latent=2, generator=(4,), discriminator=(5,), classifier=True, classes=3).build()
    real, key = torch.rand(7, 6), torch.arange(7)
    objective = AdversarialConfig(classification_weight=1.0).build()
    batch = {"image": real, "label": torch.tensor([0, 1, 2, -1, -1, -1, -1]), "key": key}
    with torch.no_grad():
        terms = objective(model, batch, "discriminator")

    def fake_class(x: Tensor) -> Tensor:
        logits = torch.cat([model.classify(x), torch.zeros(len(x), 1)], dim=1)
        return logits.softmax(1)[:, 3]

    with torch.no_grad():
        expected = -(1 - fake_class(real)).log().sum() - fake_class(model.sample(key)).log().sum()
        known = nn.functional.cross_entropy(model.classify(real[:3]), torch.arange(3), reduction="sum")
    assert float(terms.sums["loss"]) == pytest.approx(float(expected), rel=1e-5)
    assert float(terms.sums["label"]) == pytest.approx(float(known), rel=1e-5)
    assert float(objective.counts(batch)["label"]) == 3


def test_modes_are_counted() -> None:
    centres = (0.0, 0.0, 10.0, 0.0, 0.0, 10.0, 10.0, 10.0)
    points = torch.tensor([[0.0, 0.1], [0.2, 0.0], [10.0, 0.0], [5.0, 5.0]])
    shares = near_modes(points, centres, 0.1) / 4
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.25, 0.0, 0.0, 0.25]))
    assert coverage(shares) == {"modes": 2.0, "good": 0.75, "imbalance": pytest.approx(0.5)}
