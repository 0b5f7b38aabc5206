"""The game against its closed form on distributions over a few atoms, and the Fréchet distance against known ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import weft
from weft import random, run
from weft.data.base import Source, TensorDataset
from weft.errors import ConfigError
from weft.objectives.adversarial import AdversarialConfig, frechet_distance
from weft.training.hooks import evaluate

SIZE = 1000


class Atoms(nn.Module):
    """Real and generated examples are one of K atoms; the discriminator has a free number for each."""

    def __init__(self, generated: Tensor):
        super().__init__()
        self.generated = generated
        self.odds = nn.Parameter(torch.zeros(generated.size(1)))

    def sample(self, key: Tensor) -> Tensor:
        return self.generated

    def judge(self, x: Tensor) -> Tensor:
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


def jensen_shannon(p: Tensor, q: Tensor) -> float:
    middle = (p + q) / 2
    return float(((p * (p / middle).log()).sum() + (q * (q / middle).log()).sum()) / 2)


def discriminator_loss(model: Atoms, real: Tensor) -> Tensor:
    objective = AdversarialConfig().build()
    batch = {"image": real, "key": torch.arange(len(real))}
    loss: Tensor = objective(model, batch, "discriminator").sums["loss"] / objective.counts(batch)["loss"]
    return loss


def test_a_trained_discriminator_becomes_p_over_p_plus_q() -> None:
    p, q = distribution(0), distribution(1)
    model, real = Atoms(examples(q)), examples(p)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        discriminator_loss(model, real).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float((model.odds.detach().sigmoid() - p / (p + q)).abs().max()) <= 0.02


@pytest.mark.parametrize("seed", range(5))
def test_at_the_best_discriminator_the_game_is_worth_twice_the_divergence_less_log_4(seed: int) -> None:
    p, q = distribution(seed), distribution(seed + 100)
    model = Atoms(examples(q))
    model.odds.data = (p / q).log()
    value = -float(discriminator_loss(model, examples(p)).detach())
    assert value == pytest.approx(2 * jensen_shannon(p, q) - math.log(4), abs=1e-5)
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
@pytest.mark.parametrize("loss", ["non_saturating", "saturating"])
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
    small = {"model.generator": (8,), "model.discriminator": (8,), "train.batch": 8, "objective.discriminator_turns": 2}
    made = run.assemble(weft.recipe("gan/digits", {**small, "train.device": "cpu"}), tmp_path / "run")
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

    def judge(self, x: Tensor) -> Tensor:
        return x.flatten(1).sum(1)


def test_validation_reports_the_distance_of_pixels() -> None:
    """However the data are cut into batches, the number is the distance of the two sets' exact moments."""
    torch.manual_seed(0)
    real, table = torch.rand(50, 1, 2, 2), torch.rand(8, 1, 2, 2) * 0.5
    source = Source(TensorDataset({"image": real}), 1, torch.device("cpu"), shuffle=False)
    model, objective = Copies(table), AdversarialConfig().build()
    found = [evaluate(model, objective, source, 50, batch)["frechet_pixels"] for batch in (50, 16)]
    fake = model.sample(source.batch(0, 50)["key"])
    sets = [x.flatten(1).double() for x in (real, fake)]
    flat = [part for x in sets for part in (x.mean(0), x.T @ x / len(x))]
    assert found[0] == pytest.approx(frechet_distance(*flat), rel=1e-9)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_at_least_one_turn_of_the_discriminator() -> None:
    with pytest.raises(ConfigError, match="discriminator_turns"):
        AdversarialConfig(discriminator_turns=0).build()
