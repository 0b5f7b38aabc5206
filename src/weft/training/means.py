"""Exact averages over any number of batches: sums and counts, kept on the device until somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from weft.objectives.base import Objective, Terms

Sums = dict[str, Tensor]


class Means:
    """Streaming means of an objective's terms and metrics, in float64."""

    def __init__(self, objective: Objective):
        self.objective = objective
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, Tensor] = {}
        self.terms: dict[str, tuple[str, ...]] = {}

    @torch.no_grad()
    def add(self, turn: str, terms: Terms, counts: dict[str, Tensor]) -> None:
        """Terms of one micro-batch and its own counts."""
        prefix = f"{turn}_" if turn else ""
        self.terms[prefix] = tuple(terms.sums)
        default = next(iter(counts.values()))
        for name, value in {**terms.sums, **terms.metrics}.items():
            self._accumulate(self.sums, prefix + name, value)
            self._accumulate(self.counts, prefix + name, counts.get(name, default))

    @staticmethod
    def _accumulate(table: dict[str, Tensor], name: str, value: Tensor) -> None:
        # a kept tensor is changed in place, so that a captured graph keeps adding to it
        if name in table:
            table[name] += value.detach()
        else:
            table[name] = value.detach().double().clone()

    def means(self, add: Callable[[Sums], Sums] | None = None) -> Sums:
        """Mean of every name, and the weighted total of each turn's terms as its "loss"; `add` sums over processes."""
        sums, counts = (add(self.sums), add(self.counts)) if add else (self.sums, self.counts)
        means = {name: total / counts[name].clamp(min=1e-12) for name, total in sums.items()}
        for prefix, names in self.terms.items():
            if prefix + "loss" not in means:
                weight = self.objective.weights
                means[prefix + "loss"] = torch.stack([means[prefix + n] * weight.get(n, 1.0) for n in names]).sum()
        return means

    def read(self, add: Callable[[Sums], Sums] | None = None) -> dict[str, float]:
        """The reported numbers; this waits for the device and, where `add` sums over processes, for them."""
        if not self.sums:
            return {}
        return self.objective.summary({name: value.cpu() for name, value in self.means(add).items()})

    def clear(self) -> None:
        for table in (self.sums, self.counts):
            for value in table.values():
                value.zero_()

    def state_tensors(self) -> dict[str, Tensor]:
        return {**{f"sum/{n}": v for n, v in self.sums.items()}, **{f"count/{n}": v for n, v in self.counts.items()}}

    def load_state_tensors(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        for path, value in tensors.items():
            kind, _, name = path.partition("/")
            table = self.sums if kind == "sum" else self.counts
            if name in table:  # in place, for the sake of a captured graph
                table[name].copy_(value)
            else:
                table[name] = value.to(device).clone()
