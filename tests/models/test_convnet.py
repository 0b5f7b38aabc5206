"""The small residual network: features, classes, and settings that cannot be."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from weft.errors import ConfigError
from weft.models.base import Classifies, Extracts, offers
from weft.models.convnet import TINY

CONFIG = dataclasses.replace(TINY, image=(1, 8, 8), classes=3)


def test_features_and_classes() -> None:
    model = CONFIG.build().eval()
    assert offers(model, Extracts)
    assert offers(model, Classifies)
    x = torch.rand(5, 1, 8, 8)
    assert model.features(x).shape == (5, 8)
    torch.testing.assert_close(model(x), model.classify_features(model.features(x)))
    torch.testing.assert_close(model(x.flatten(1)), model(x))


@pytest.mark.parametrize("wrong", [{"channels": ()}, {"classes": 0}, {"dropout": 1.0}, {"blocks": -1}, {"image": (1, 7, 8)}])
def test_wrong_settings_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="--model"):
        dataclasses.replace(CONFIG, **wrong).build()  # type: ignore[arg-type]
