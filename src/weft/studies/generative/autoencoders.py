"""What the studies of autoencoders share: a short run that leaves nothing behind, and what each dimension of a code holds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.recipes.base import recipe
from weft.runs.assemble import assemble
from weft.runs.run import Run


def trained(name: str, changes: dict[str, Any]) -> Run:
    """A finished run of a recipe; its folder is gone."""
    quiet = {"train.save_every": 0, "train.log_every": 1000}
    with tempfile.TemporaryDirectory() as folder:
        made = assemble(recipe(name, quiet | changes), Path(folder))
        made.trainer.fit()
    made.trainer.model.eval()
    return made


@torch.no_grad()
def nats_of_dimensions(made: Run) -> Tensor:
    """What each dimension of the code tells of an example, the mean KL from the prior over the validation data: (Z,)."""
    held = made.validation
    assert held is not None
    model: Any = made.trainer.model
    mean, log_variance = model.encode(held.source.batch(0, held.examples)["image"])
    nats: Tensor = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean(0)
    return nats
