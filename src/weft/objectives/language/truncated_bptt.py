"""Next-token cross-entropy by truncated back-propagation through time: a recurrent state goes from batch to batch, its gradient does not.

The data come in lanes (`--data.lanes`): a window begins with the state in which the model left the window before it in its lane, and with
zeros at the beginning of a lane (Mikolov et al., 2010; Zaremba et al., 2014, arXiv:1409.2329). The states are buffers, so a continued run
goes on with them. Validation begins every window with zeros.

Activation regularisation (AR) and its temporal form (TAR) keep the last layer's states small and slow (Merity et al., 2017,
arXiv:1708.01009).

Batch: ids (B, T), targets (B, T), lane (B,), begins (B,) True where a window is the first of its lane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import Batch
from weft.kernels.chunked_cross_entropy import chunked_cross_entropy
from weft.models.base import Decodes, TellsActivations, need
from weft.nn.state import RecurrentState
from weft.objectives.base import Terms, count
from weft.objectives.language.next_token import NextToken, NextTokenConfig


@dataclass(frozen=True, kw_only=True)
class TruncatedBPTTConfig(NextTokenConfig):
    lanes: int = 0
    """Lanes of the text, each with a state of its own; 0 takes it from the data."""
    activation: float = 0.0
    """Weight of activation regularisation (AR): the mean square of the last layer's states after dropout."""
    temporal_activation: float = 0.0
    """Weight of temporal activation regularisation (TAR): the mean square of these states' change from step to step, before dropout."""

    def build(self) -> TruncatedBPTT:
        return TruncatedBPTT(self)


class TruncatedBPTT(NextToken):
    needs = Decodes
    carries = True

    def __init__(self, config: TruncatedBPTTConfig):
        super().__init__(config)
        if config.lanes < 1:
            raise ConfigError("a state can be carried only where batches are contiguous; give --data.lanes as many as --train.batch")
        self.lanes = config.lanes
        given = {"activation": config.activation, "temporal_activation": config.temporal_activation}
        for name, weight in given.items():
            if not 0.0 <= weight < math.inf:
                raise ConfigError(f"--objective.{name} must be at least 0 and finite, not {weight}")
        self.weights = {name: weight for name, weight in given.items() if weight}
        self.names: list[str] = []

    def bind(self, model: Any) -> None:
        """Make the buffers: for each tensor of the state that of all lanes, and the one that takes its place after the update."""
        if self.weights:
            need(model, TellsActivations)
        state = model.new_state()
        if not isinstance(state, RecurrentState):
            raise CapabilityError(
                f"{type(model).__name__} has no recurrent state to carry from batch to batch; take the objective next_token"
            )
        state.add_rows(self.lanes)
        self.names = list(state.tensors)
        for name, tensor in state.tensors.items():
            self.register_buffer(f"carried_{name}", tensor)
            self.register_buffer(f"next_{name}", tensor.clone())

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        b, t = batch["ids"].shape
        steps = {"activation": b * t, "temporal_activation": b * (t - 1)}
        return super().counts(batch) | {name: count(max(1, steps[name]), like=batch["ids"]) for name in self.weights}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        if not (model.training and self.names and "lane" in batch):
            return super().forward(model, batch, turn)
        state = RecurrentState.of({name: self._begin(name, batch) for name in self.names})
        if self.weights:
            raw, hidden = model.outputs(batch["ids"], state=state)
        else:
            raw = hidden = model.hidden(batch["ids"], state=state)
        for name in self.names:
            self._keep(name, batch["lane"], state.tensors[name].detach())
        sums = {"loss": chunked_cross_entropy(model.head, hidden, batch["targets"], self.logits_backend)}
        if "activation" in self.weights:
            sums["activation"] = hidden.float().square().mean(-1).sum()
        if "temporal_activation" in self.weights:
            sums["temporal_activation"] = raw.float().diff(dim=1).square().mean(-1).sum()
        return Terms(sums)

    def _begin(self, name: str, batch: Batch) -> Tensor:
        """The state (B, …) with which the windows of a batch begin."""
        carried: Tensor = getattr(self, f"carried_{name}")
        own = carried.index_select(0, batch["lane"])
        return own.masked_fill(batch["begins"].view(-1, *[1] * (own.ndim - 1)), 0.0)

    @torch.no_grad()
    def _keep(self, name: str, lane: Tensor, new: Tensor) -> None:
        """Note where the windows of a batch end (B, …); a lane whose state is not finite begins anew."""
        finite = new.flatten(1).isfinite().all(1).view(-1, *[1] * (new.ndim - 1))
        following: Tensor = getattr(self, f"next_{name}")
        following.index_copy_(0, lane, torch.where(finite, new, 0.0).to(following.dtype))

    def after_update(self, model: nn.Module, turn: str) -> None:
        for name in self.names:
            getattr(self, f"carried_{name}").copy_(getattr(self, f"next_{name}"))
