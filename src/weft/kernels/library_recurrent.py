"""PyTorch's own RNN, LSTM and GRU, which are cuDNN's on a GPU: all steps of a layer in one call.

Shapes: B batch, T time, D inputs, H width, R outputs.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from weft.kernels.implementation import Implementation, install
from weft.kernels.spec import RecurrentSpec
from weft.kernels.usage import UsageSpec
from weft.nn.recurrent import RecurrentLayer

ROUTINES: dict[str, Any] = {"rnn": torch._VF.rnn_tanh, "lstm": torch._VF.lstm, "gru": torch._VF.gru}  # type: ignore[attr-defined]
SHUT = 1e4
"""Added to the input of a sigmoid, it makes the gate exactly 0 or 1."""


class LibraryRecurrent(Implementation):
    name, file, slot, where = "library recurrence", "kernels/library_recurrent.py", "forward", ""

    def refuses(self, spec: RecurrentSpec, use: UsageSpec) -> str:
        if spec.cell not in ROUTINES:
            return f"PyTorch has no {spec.cell}"
        if spec.clipped:
            return "PyTorch clips neither cells nor projections"
        if spec.dtypes - {"float32", "float64"} and use.machine.device != "cuda":
            return f"it computes in {', '.join(sorted(spec.dtypes))} on a CPU no faster"
        if len(spec.dtypes) > 1:
            return "its weights are of several types"
        return "" if spec.plain_tensors else "processes share out its weights"

    def install(self, module: RecurrentLayer, use: UsageSpec) -> None:
        install(module, self, library_forward)


def library_forward(
    layer: RecurrentLayer,
    x: Tensor,
    lengths: Tensor | None = None,
    state: Mapping[str, Tensor] | None = None,
    *,
    weight_hh: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """As `RecurrentLayer.forward`. Behind a sequence's end an LSTM goes on with shut gates, which keep its cell to the last bit."""
    first = layer.first_state(x, state)
    begin = tuple(tensor[None].contiguous() for tensor in first)
    weight_ih: Tensor = layer.weight_ih
    with_cell = len(first) > 1
    x = x.to(weight_ih.dtype)
    inside = None if lengths is None else torch.arange(x.size(1), device=x.device) < lengths[:, None]
    if inside is not None and with_cell:  # one more input, which is 0 inside, shuts i and opens f behind the end
        x = torch.cat([x, (~inside).to(x.dtype)[..., None]], -1)
        gates = x.new_zeros(len(weight_ih))  # filled on the device: a captured graph takes nothing from the host
        gates[: layer.width].fill_(-SHUT)
        gates[layer.width : 2 * layer.width].fill_(SHUT)
        weight_ih = torch.cat([weight_ih, gates[:, None]], -1)
    weights = [weight_ih, layer.weight_hh if weight_hh is None else weight_hh, layer.bias_ih, layer.bias_hh]
    weights += [layer.weight_hr] if layer.projection else []
    with torch.autocast(x.device.type, enabled=False), without_warnings(layer):
        # dropout is ours; cuDNN keeps what the backward pass needs only where it is told that it trains
        options = (weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        outputs, *last = ROUTINES[layer.cell](x, begin if with_cell else begin[0], *options)
    ends = [tensor[0] for tensor in last]
    if lengths is not None and inside is not None:
        outputs = outputs.masked_fill(~inside[..., None], 0.0)
        at_end = outputs[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
        ends[0] = torch.where((lengths > 0)[:, None], at_end, first[0])
    return outputs, dict(zip(layer.state_shapes, ends, strict=True))


@contextlib.contextmanager
def without_warnings(layer: RecurrentLayer) -> Iterator[None]:
    """cuDNN copies weights that do not lie behind one another, and says so at each call; oneDNN says that it knows no projection."""
    if layer.weight_ih.is_cuda or layer.projection:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk|LSTM with projections")
            yield
    else:
        yield
