"""Recurrent layers: a cell over the steps of a sequence, stacked, in one direction or both, as long as each sequence is.

Weights and biases have the names, the shapes and the order of gates of nn.RNN, nn.LSTM and nn.GRU, so that theirs fit as they are.

Shapes: B batch, T time, D inputs, H width, R outputs (the projection, or H), G gates, N layers times directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.nn.dropout import Dropout

GATES = {"rnn": 1, "lstm": 4, "peephole": 4, "coupled": 3, "gru": 3, "cho_gru": 3, "layer_norm": 4, "mogrifier": 4}
CELLS = tuple(GATES)
WITH_CELL = ("lstm", "peephole", "coupled", "layer_norm", "mogrifier")
"""Cells whose state has a memory c beside the output h."""

State = tuple[Tensor, ...]
"""h (B, R), and c (B, H) where the cell has one."""
Step = Callable[["RecurrentLayer", Tensor, State, Tensor], State]
"""The layer, what it made of a step's inputs (B, …), the state, weight_hh -> the next state."""
ROUNDS = 5
"""In which a Mogrifier gates its input and its state by one another."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear in the type that autocast says; all else of a cell is in that of its weights."""
    return F.linear(x.to(weight.dtype), weight, bias).to(weight.dtype)


def rnn_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """h = tanh(W x + U h + b) (Elman, 1990)."""
    return (torch.tanh(x + product(state[0], weight_hh, layer.bias_hh)),)


def lstm_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """c = f c + i g, h = o tanh(c) (Hochreiter & Schmidhuber, 1997; forget gates: Gers et al., 2000)."""
    h, c = state
    return lstm_from(layer, x + product(h, weight_hh, layer.bias_hh), c)


def lstm_from(layer: RecurrentLayer, gates: Tensor, c: Tensor) -> State:
    """gates (B, 4 H) before their sigmoids, in the order i, f, g, o."""
    i, f, g, o = gates.chunk(4, -1)
    c = layer.clipped(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
    return layer.projected(torch.sigmoid(o) * torch.tanh(c)), c


def peephole_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """As `lstm_step`, but i and f also see c before the step and o sees c after it, each its own unit (Gers & Schmidhuber, 2000)."""
    h, c = state
    i, f, g, o = (x + product(h, weight_hh, layer.bias_hh)).chunk(4, -1)
    i, f = torch.sigmoid(i + layer.peephole_i * c), torch.sigmoid(f + layer.peephole_f * c)
    c = layer.clipped(f * c + i * torch.tanh(g))
    return layer.projected(torch.sigmoid(o + layer.peephole_o * c) * torch.tanh(c)), c


def coupled_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """As `lstm_step` with f = 1 - i, a quarter fewer weights (Greff et al., 2015); gates i, g, o."""
    h, c = state
    i, g, o = (x + product(h, weight_hh, layer.bias_hh)).chunk(3, -1)
    c = layer.clipped(c + torch.sigmoid(i) * (torch.tanh(g) - c))
    return layer.projected(torch.sigmoid(o) * torch.tanh(c)), c


def gru_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """h = (1 - z) n + z h, n = tanh(W x + r (U h + b)): the form of cuDNN and nn.GRU, with r behind the product."""
    (h,) = state
    x_r, x_z, x_n = x.chunk(3, -1)
    h_r, h_z, h_n = product(h, weight_hh, layer.bias_hh).chunk(3, -1)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return (n + torch.sigmoid(x_z + h_z) * (h - n),)


def cho_gru_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """h = (1 - z) n + z h, n = tanh(W x + U (r h) + b): r before the product (Cho et al., 2014), and gates in the order r, z, n."""
    (h,) = state
    both = 2 * layer.width
    r, z = torch.sigmoid(x[:, :both] + product(h, weight_hh[:both], layer.bias_hh[:both])).chunk(2, -1)
    n = torch.tanh(x[:, both:] + product(r * h, weight_hh[both:], layer.bias_hh[both:]))
    return (n + z * (h - n),)


def layer_norm_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """As `lstm_step` from LN(W x) + LN(U h), each over all four gates, and with h = o tanh(LN(c)) (Ba et al., 2016)."""
    h, c = state
    i, f, g, o = (x + F.layer_norm(product(h, weight_hh), x.shape[-1:], layer.norm_hh, layer.bias_hh)).chunk(4, -1)
    c = layer.clipped(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
    return layer.projected(torch.sigmoid(o) * torch.tanh(F.layer_norm(c, c.shape[-1:], layer.norm_c, layer.bias_c))), c


def mogrifier_step(layer: RecurrentLayer, x: Tensor, state: State, weight_hh: Tensor) -> State:
    """As `lstm_step`, of an input and a state that gated one another in turns: x by 2 sigmoid(Q h), h by 2 sigmoid(R x), and so on
    (Melis et al., 2020); x is the input itself."""
    h, c = state
    for number in range(ROUNDS):
        if number % 2 == 0:
            x = 2 * torch.sigmoid(product(h, layer.mogrify_x[number // 2])) * x
        else:
            h = 2 * torch.sigmoid(product(x, layer.mogrify_h[number // 2])) * h
    return lstm_from(layer, product(x, layer.weight_ih, layer.bias_ih) + product(h, weight_hh, layer.bias_hh), c)


STEPS: dict[str, Step] = {
    "rnn": rnn_step,
    "lstm": lstm_step,
    "peephole": peephole_step,
    "coupled": coupled_step,
    "gru": gru_step,
    "cho_gru": cho_gru_step,
    "layer_norm": layer_norm_step,
    "mogrifier": mogrifier_step,
}


class RecurrentLayer(nn.Module):
    """One layer, one direction."""

    compile = False  # type: ignore[assignment]  # the loop over steps would be unrolled, which takes minutes

    peephole_i: Tensor
    peephole_f: Tensor
    peephole_o: Tensor
    norm_ih: Tensor
    norm_hh: Tensor
    norm_c: Tensor
    bias_c: Tensor
    mogrify_x: Tensor
    mogrify_h: Tensor

    def __init__(
        self,
        cell: str,
        inputs: int,
        width: int,
        *,
        projection: int = 0,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ):
        """cell_clip, projection_clip: bounds of c, and of h where it is projected, as in ELMo."""
        super().__init__()
        if cell not in CELLS:
            raise ConfigError(f"no recurrent cell is called {cell!r}; choose from: {', '.join(CELLS)}")
        if cell not in WITH_CELL and (projection or cell_clip or projection_clip):
            raise ConfigError(f"only {', '.join(WITH_CELL)} can be projected or clipped, not {cell}")
        self.cell, self.inputs, self.width, self.projection = cell, inputs, width, projection
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        gates, outputs = GATES[cell] * width, projection or width
        self.weight_ih = nn.Parameter(torch.empty(gates, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates, outputs))
        self.bias_ih = nn.Parameter(torch.empty(gates))
        self.bias_hh = nn.Parameter(torch.empty(gates))
        if projection:
            self.weight_hr = nn.Parameter(torch.empty(projection, width))
        if cell == "peephole":
            for gate in "ifo":
                self.register_parameter(f"peephole_{gate}", nn.Parameter(torch.empty(width)))
        if cell == "layer_norm":
            self.norm_ih, self.norm_hh = nn.Parameter(torch.empty(gates)), nn.Parameter(torch.empty(gates))
            self.norm_c, self.bias_c = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        if cell == "mogrifier":
            self.mogrify_x = nn.Parameter(torch.empty((ROUNDS + 1) // 2, inputs, outputs))
            self.mogrify_h = nn.Parameter(torch.empty(ROUNDS // 2, outputs, inputs))
        self.state_shapes: dict[str, tuple[int, ...]] = {"h": (outputs,), **({"c": (width,)} if cell in WITH_CELL else {})}
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Uniform as in nn.LSTM; a forget gate begins open, with a bias of 1 (Jozefowicz et al., 2015)."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.width**-0.5), self.width**-0.5)
        if self.cell in WITH_CELL:
            gate = slice(0, self.width) if self.cell == "coupled" else slice(self.width, 2 * self.width)
            self.bias_ih[gate] = -1.0 if self.cell == "coupled" else 1.0
            self.bias_hh[gate] = 0.0
        if self.cell == "layer_norm":
            for scale in (self.norm_ih, self.norm_hh, self.norm_c):
                nn.init.ones_(scale)
            nn.init.zeros_(self.bias_c)

    def clipped(self, c: Tensor) -> Tensor:
        return c if self.cell_clip is None else c.clamp(-self.cell_clip, self.cell_clip)

    def projected(self, h: Tensor) -> Tensor:
        if not self.projection:
            return h
        h = product(h, self.weight_hr)
        return h if self.projection_clip is None else h.clamp(-self.projection_clip, self.projection_clip)

    def first_state(self, x: Tensor, state: Mapping[str, Tensor] | None) -> State:
        """What was given, or zeros, one tensor for each of `state_shapes`."""
        weight = self.weight_ih
        if state is None:
            return tuple(weight.new_zeros(len(x), *shape) for shape in self.state_shapes.values())
        return tuple(state[name].to(weight.dtype) for name in self.state_shapes)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: Mapping[str, Tensor] | None = None, *, weight_hh: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """x (B, T, D), lengths (B,), state (B, …) -> outputs (B, T, R), 0 behind a sequence's end, and each row's state at its end.

        weight_hh: in the place of its own, as weight drop needs. The precision is that of the weights, whatever autocast says.
        """
        first = self.first_state(x, state)
        inside = None if lengths is None else torch.arange(x.size(1), device=x.device) < lengths[:, None]
        outputs, last = self.recurrence(self.of_inputs(x), first, inside, self.weight_hh if weight_hh is None else weight_hh)
        return outputs, dict(zip(self.state_shapes, last, strict=True))

    def of_inputs(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> what steps read of it (B, T, …): products with their bias, normalised or not, or, of a Mogrifier, x itself."""
        if self.cell == "mogrifier":
            return x.to(self.weight_ih.dtype)
        if self.cell == "layer_norm":
            return F.layer_norm(product(x, self.weight_ih), self.bias_ih.shape, self.norm_ih, self.bias_ih)
        return product(x, self.weight_ih, self.bias_ih)

    def recurrence(self, given: Tensor, state: State, inside: Tensor | None, weight_hh: Tensor) -> tuple[Tensor, State]:
        """what is made of the inputs (B, T, …), state, inside (B, T): whether a step is of the sequence -> outputs (B, T, R), state."""
        step, outputs = STEPS[self.cell], []
        for time, x in enumerate(given.unbind(1)):
            new = step(self, x, state, weight_hh)
            if inside is not None:
                new = tuple(torch.where(inside[:, time, None], after, before) for after, before in zip(new, state, strict=True))
            state = new
            outputs.append(state[0])
        stacked = torch.stack(outputs, 1)
        return stacked if inside is None else stacked.masked_fill(~inside[..., None], 0.0), state


class Recurrent(nn.Module):
    """Stacked layers, in one direction or both (Graves & Schmidhuber, 2005)."""

    def __init__(
        self,
        cell: str,
        inputs: int,
        width: int,
        layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        projection: int = 0,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ):
        """dropout: of the outputs of each layer but the last."""
        super().__init__()
        self.directions = 2 if bidirectional else 1
        outputs = self.directions * (projection or width)
        self.layers = nn.ModuleList(
            RecurrentLayer(
                cell,
                outputs if number else inputs,
                width,
                projection=projection,
                cell_clip=cell_clip,
                projection_clip=projection_clip,
            )
            for number in range(layers)
            for _ in range(self.directions)
        )
        self.dropout = Dropout(dropout)
        one: dict[str, tuple[int, ...]] = self.layers[0].state_shapes  # type: ignore[assignment]
        self.state_shapes = {name: (len(self.layers), *shape) for name, shape in one.items()}

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """x (B, T, D), lengths (B,), state (B, N, …) -> (B, T, directions * R), 0 behind a sequence's end, and the state at each end.

        The backward direction reads each sequence from its own last step.
        """
        ends: list[dict[str, Tensor]] = []
        for number in range(0, len(self.layers), self.directions):
            x = self.dropout(x) if number else x
            both = []
            for direction in range(self.directions):
                before = None if state is None else {name: held[:, number + direction] for name, held in state.items()}
                read = reversed_steps(x, lengths) if direction else x
                outputs, end = self.layers[number + direction](read, lengths, before)
                both.append(reversed_steps(outputs, lengths) if direction else outputs)
                ends.append(end)
            x = both[0] if self.directions == 1 else torch.cat(both, -1)
        return x, {name: torch.stack([end[name] for end in ends], 1) for name in self.state_shapes}


def reversed_steps(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """x (B, T, …), lengths (B,) -> each sequence from its last step to its first; what stands behind its end stays there."""
    if lengths is None:
        return x.flip(1)
    position = torch.arange(x.size(1), device=x.device).expand(x.shape[:2])
    last = lengths[:, None] - 1
    order = torch.where(position <= last, last - position, position)  # (B, T), its own inverse
    return x[torch.arange(len(x), device=x.device)[:, None], order]
