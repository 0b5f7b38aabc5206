"""Historical averaging (Salimans et al., 2016, arXiv:1606.03498): a pull of each parameter towards its mean over all updates so far.

The running mean is exact: mean <- mean + (parameter - mean) / updates. It is state of an objective that is built before there is
a model, so it takes the shape of the parameters it is first shown, or of a checkpoint it is loaded from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

Named = Iterable[tuple[str, nn.Parameter]]


class HistoricalAverage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.updates: Tensor
        self.register_buffer("updates", torch.zeros(()))

    def update(self, named: Named) -> None:
        """Take the parameters as they are now into the mean."""
        self.updates += 1
        for name, parameter in named:
            if self.mean(name) is None:
                self.register_buffer(_path(name), torch.zeros_like(parameter))
            mean = self.get_buffer(_path(name))
            mean += (parameter - mean) / self.updates

    def mean(self, name: str) -> Tensor | None:
        """The mean of a parameter, where there has been an update."""
        return self._buffers.get(_path(name))

    def distance(self, named: Named) -> Tensor:
        """Sum over parameters of |parameter - mean|²; 0 before the first update."""
        parts = [(p - mean).square().sum() for name, p in named if (mean := self.mean(name)) is not None]
        return torch.stack(parts).sum() if parts else torch.zeros_like(self.updates)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for path, value in state_dict.items():
            if path.startswith(prefix) and path.removeprefix(prefix) not in self._buffers:
                self.register_buffer(path.removeprefix(prefix), torch.zeros_like(value, device=self.updates.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _path(name: str) -> str:
    return name.replace(".", "/")  # a buffer's name has no dots
