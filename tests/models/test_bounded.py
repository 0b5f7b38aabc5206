"""Settings of a file are measured by its weights before anything is allocated."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from weft.core import registry
from weft.core.errors import CheckpointError
from weft.models import bounded
from weft.models.language.gpt import GPTConfig
from weft.recipes.base import recipe

SMALL = GPTConfig(vocabulary=30, context=16, layers=1, heads=2, width=16)
FACTS: dict[str, Any] = {
    "vocabulary": 30,
    "context": 96,
    "classes": 3,
    "features": 64,
    "words": 30,
    "mels": 8,
    "image": (1, 8, 8),
    "source_image": (1, 8, 8),
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 10_000_000}, "layers cannot be 10000000"),
        ({"width": 1 << 20}, "ask for more than"),
        ({"vocabulary": 1 << 24}, "ask for more than"),
        ({"context": 1 << 24}, "ask for more than"),
        ({"width": 1 << 40}, "width cannot be"),
        ({"width": 32}, r"do not fit the model: .* have the shape \[30, 16\], its settings say \[30, 32\]"),
    ],
)
def test_a_model_that_its_weights_cannot_be_is_never_built(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        bounded.check(dataclasses.replace(SMALL, **changes), SMALL.build().state_dict(), "model")


def test_nothing_is_filled_and_nothing_stays_behind() -> None:
    bounded.check(SMALL, SMALL.build().state_dict(), "model")
    torch.manual_seed(0)
    drawn = nn.Linear(3, 3).weight.detach().clone()
    torch.manual_seed(0)
    bounded.check(SMALL, SMALL.build().state_dict(), "model")
    torch.manual_seed(0)
    assert torch.equal(nn.Linear(3, 3).weight, drawn), "models built afterwards are filled"


@pytest.mark.parametrize("kind", [kind for kind in registry.MODELS if kind != "distilled"])
def test_every_family_fits_its_own_weights(kind: str) -> None:
    name = next(name for name in registry.RECIPES if registry.name_of(type(recipe(name).model)) == kind)
    model: Any = recipe(name).model
    empty = {field: value for field, value in FACTS.items() if getattr(model, field, None) in (0, ())}
    model = dataclasses.replace(model, **empty)
    bounded.check(model, model.build().state_dict(), kind)
