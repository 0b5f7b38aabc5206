"""One step of gradient descent on the energy is Hebb's rule; recall is measured from damaged patterns."""

from __future__ import annotations

import pytest
import torch

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import DataLoader
from weft.data.images.associative_memory import PatternsConfig
from weft.models.base import need
from weft.models.energy.hopfield import Hopfield, HopfieldConfig
from weft.models.mlp import MLPConfig
from weft.objectives.energy.associative_memory import AssociativeMemory, AssociativeMemoryConfig
from weft.training.execution import choose
from weft.training.optimizer.settings import SGD
from weft.training.settings import Train
from weft.training.trainer import Trainer

UNITS, PATTERNS = 120, 6


def trained(steps: int = 1, micro: int = 0) -> Hopfield:
    data = PatternsConfig(patterns=PATTERNS, units=UNITS).build()
    model, objective = Hopfield(HopfieldConfig(features=UNITS)), AssociativeMemoryConfig().build()
    settings = Train(steps=steps, batch=PATTERNS, micro_batch=micro, device="cpu")
    source = DataLoader(data.train, 1, torch.device("cpu"))
    Trainer(model, objective, source, settings, SGD(lr=1.0), choose(settings, model, objective)).fit()
    return model


def patterns() -> torch.Tensor:
    data = PatternsConfig(patterns=PATTERNS, units=UNITS).build()
    return data.train.batch(torch.arange(PATTERNS), torch.arange(PATTERNS))["image"]


@pytest.mark.parametrize("micro", [0, 4])
def test_one_step_of_the_trainer_is_hebbs_rule(micro: int) -> None:
    by_hand = Hopfield(HopfieldConfig(features=UNITS))
    by_hand.store(2 * patterns() - 1)
    torch.testing.assert_close(trained(micro=micro).couplings(), by_hand.couplings())


def test_more_steps_only_make_the_couplings_longer() -> None:
    torch.testing.assert_close(trained(3).couplings(), 3 * trained(1).couplings())


def test_recall_is_measured_from_damaged_patterns() -> None:
    image = patterns().repeat(20, 1)
    batch = {"image": image, "key": random.keys(0, torch.arange(len(image)))}
    objective = AssociativeMemoryConfig(flipped=0.2).build()
    found = {name: float(value) / len(image) for name, value in objective.measure(trained(), batch).items()}
    assert found["damaged"] == pytest.approx(0.8, abs=0.02)
    assert found["recalled"] > 0.99
    assert found["recalled_whole"] > 0.9
    nothing = objective.measure(Hopfield(HopfieldConfig(features=UNITS)), batch)
    assert float(nothing["recalled"]) == pytest.approx(float(nothing["damaged"]))


def test_the_pseudo_likelihood_is_the_other_loss() -> None:
    model, image = trained(), patterns()
    batch = {"image": image, "key": torch.arange(PATTERNS)}
    loss = AssociativeMemoryConfig(rule="pseudo_likelihood").build()(model, batch, "").sums["loss"]
    torch.testing.assert_close(loss, -model.pseudo_log_likelihood(2 * image - 1).sum())


def test_settings_and_models_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="flipped"):
        AssociativeMemoryConfig(flipped=1.5).build()
    assert AssociativeMemory.needs is not None
    with pytest.raises(CapabilityError, match="Recalls"):
        need(MLPConfig(features=2, classes=2).build(), AssociativeMemory.needs)
