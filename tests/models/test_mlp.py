"""The perceptron's size, shapes and settings; what its layers compute is tested in tests/layers/test_linear.py."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from weft.core.errors import ConfigError
from weft.models.base import Classifies, offers
from weft.models.mlp import PRESETS, TINY, Initial, MLPConfig

CONFIG = dataclasses.replace(TINY, features=12, classes=3)


def test_784_512_10_has_407050_parameters() -> None:
    model = PRESETS["mnist"].build()
    assert sum(p.numel() for p in model.parameters()) == 407_050


def test_logits_of_examples_of_any_shape() -> None:
    model = CONFIG.build()
    assert offers(model, Classifies)
    flat = torch.rand(5, 12)
    assert model(flat).shape == (5, 3)
    torch.testing.assert_close(model.classify(flat.view(5, 3, 2, 2)), model(flat))


def test_without_hidden_layers_it_is_linear() -> None:
    model = MLPConfig(features=4, hidden=(), classes=2).build()
    assert sum(p.numel() for p in model.parameters()) == 4 * 2 + 2


def test_weight_names_do_not_depend_on_dropout_or_activation() -> None:
    plain = CONFIG.build()
    other = dataclasses.replace(CONFIG, dropout=0.5, activation="none").build()
    assert list(plain.state_dict()) == list(other.state_dict())


def test_dropout_acts_in_training_only() -> None:
    model = dataclasses.replace(CONFIG, dropout=0.5).build()
    x = torch.rand(5, 12)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


@pytest.mark.parametrize(("initial", "std"), [("he", (2 / 400) ** 0.5), ("xavier_uniform", (2 / 800) ** 0.5), ("normal", 0.02)])
def test_initial_weights(initial: Initial, std: float) -> None:
    torch.manual_seed(0)
    layer = MLPConfig(features=400, hidden=(400,), classes=2, weight_init=initial).build().body[0]
    assert isinstance(layer, nn.Linear)
    assert float(layer.weight.detach().std()) == pytest.approx(std, rel=0.02)
    assert not layer.bias.any()


@pytest.mark.parametrize("wrong", [{"classes": 0}, {"hidden": (8, 0)}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        dataclasses.replace(CONFIG, **wrong).build()  # type: ignore[arg-type]
