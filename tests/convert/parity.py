"""A reference model and ours with the same weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft.convert.family import Family
from weft.training.checkpoint import load_weights

TOLERANCE = 1e-4


def shaken(reference: Any) -> Any:
    """Weights far from their first values, so that a forgotten bias or norm shows."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.ndim == 1 else 0.05))
    return reference.eval()


def imported(reference: Any, family: Family) -> nn.Module:
    """Our model with a reference's settings and weights."""
    settings = family.settings(reference.config.to_dict())
    model = settings.build()
    tensors = family.table(settings).to_own(reference.state_dict())
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(family.fresh) and name not in tensors}
    load_weights(model, {**tensors, **fresh}, "reference")
    return model.eval()


def exported(model: Any, family: Family, reference: Any) -> Any:
    """A new reference model with our settings and weights."""
    made = type(reference)(type(reference.config)(**family.describe(model.config)))
    tensors = family.table(model.config).to_foreign(dict(model.named_parameters()))
    missing, unexpected = made.load_state_dict(tensors, strict=False)
    shared = {id(p) for name, p in made.named_parameters() if name in tensors}
    lacking = [name for name in missing if name in dict(made.named_parameters()) and id(dict(made.named_parameters())[name]) not in shared]
    assert not unexpected, unexpected
    assert not lacking, lacking
    return made.eval()


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    difference = float((ours - theirs).abs().max())
    assert difference <= TOLERANCE, f"{difference} apart"
