"""Updates as large as what they change: each parameter's is multiplied by the root mean square of its numbers.

Adam moves every number by about the rate, whether numbers are drawn around 1 (an embedding) or 0.01 (a query's matrix without
the scaling of its scores, as in T5). Times the root mean square, all change by one share of themselves, as in Adafactor
(Shazeer & Stern, 2018, section 8). An optimiser need not know: what it did is shortened or lengthened afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.training.parallel.team import Team

LEAST = 1e-3
"""The root mean square that is taken at least, so that a parameter of zeros moves."""


class ScaleParameter:
    """Around an optimiser's step: `before` notes the weights and their sizes, `after` scales what has changed.

    Neither waits for the device, and an update that was refused stays refused.
    """

    def __init__(self, owners: list[tuple[dict[str, Tensor], Tensor]], wholes: Mapping[str, Tensor], team: Team):
        """owners: for every tensor that is updated, the parameters in it by name, and itself; wholes: all parameters, undivided."""
        if team.stages > 1:  # each has parameters of its own, so that the processes could not add up their norms in one order
            raise ConfigError("--optim.scale_parameter true does not know a model cut into stages; leave --parallel.pipeline at 1")
        self.team, self.held = team, [held for _, held in owners]
        self.parts = [part for parts, _ in owners for part in parts.values()]
        self.replicas = [team.replicas(wholes[name]) for parts, _ in owners for name in parts]
        roots = [wholes[name].numel() ** 0.5 for parts, _ in owners for name in parts]
        self.roots = torch.tensor(roots, device=self.parts[0].device, dtype=self.parts[0].dtype)
        self.numbers = [len(parts) for parts, _ in owners]
        self.sizes = [torch.tensor([part.numel() for part in parts.values()], device=held.device) for parts, held in owners]

    def before(self) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors as they are, and by what each of their numbers' update is to be multiplied."""
        scales = torch.split((self.team.norms(self.parts, self.replicas) / self.roots).clamp(min=LEAST), self.numbers)
        factors = [
            scale.repeat_interleave(sizes, output_size=held.numel()) if len(scale) > 1 else scale.squeeze(0)
            for scale, sizes, held in zip(scales, self.sizes, self.held, strict=True)
        ]
        return [held.clone() for held in self.held], factors

    def after(self, weights: list[Tensor], factors: list[Tensor]) -> None:
        for held, weight, factor in zip(self.held, weights, factors, strict=True):
            torch.lerp(weight, held, factor, out=held)
