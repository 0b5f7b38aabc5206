"""Every cell against its equations, PyTorch's layers and finite differences; packed sequences against one by one; both directions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from weft.core.errors import ConfigError
from weft.kernels import select
from weft.kernels.describe import describe_recurrent
from weft.kernels.implementation import uninstall
from weft.kernels.usage import UsageSpec
from weft.nn.recurrent import CELLS, STEPS, WITH_CELL, Recurrent, RecurrentLayer, reversed_steps

LIBRARY: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
LENGTHS = torch.tensor([7, 3, 1, 5])


def built(cell: str, **more: Any) -> RecurrentLayer:
    torch.manual_seed(0)
    return RecurrentLayer(cell, 6, 5, **more)


def install_one(model: nn.Module, name: str) -> None:
    """Have all layers computed by one implementation, where it claims them."""
    for layer in (module for module in model.modules() if isinstance(module, RecurrentLayer)):
        for one in select.RECURRENT:
            if one.name == name and not one.refuses(describe_recurrent(layer, UsageSpec()), UsageSpec()):
                one.install(layer, UsageSpec())


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("by", ["plain", "library recurrence", "C recurrence"])
@pytest.mark.parametrize(("cell", "layers", "bidirectional", "projection"), [
    ("rnn", 1, False, 0), ("rnn", 2, True, 0), ("lstm", 1, False, 0), ("lstm", 2, True, 0), ("lstm", 2, True, 3),
    ("gru", 1, False, 0), ("gru", 2, True, 0),
])  # fmt: skip
def test_weights_of_the_library_give_its_outputs_states_and_gradients(
    cell: str, layers: int, bidirectional: bool, projection: int, by: str
) -> None:
    torch.manual_seed(0)
    more = {"proj_size": projection} if projection else {}
    theirs = LIBRARY[cell](6, 5, layers, bidirectional=bidirectional, batch_first=True, **more)
    ours = Recurrent(cell, 6, 5, layers, bidirectional=bidirectional, projection=projection)
    with torch.no_grad():
        for number, layer in enumerate(ours.layers):
            end = f"_l{number // ours.directions}" + "_reverse" * (number % ours.directions)
            for name, parameter in layer.named_parameters():
                parameter.copy_(getattr(theirs, name + end))
    install_one(ours, by)
    x = inputs(4, 7, 6)
    packed = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, last = theirs(packed)
    expected = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0]
    outputs, state = ours(x, LENGTHS)
    assert (outputs - expected).abs().max() <= 1e-6
    for tensor, name in zip(last if cell == "lstm" else (last,), state, strict=True):
        assert (state[name] - tensor.transpose(0, 1)).abs().max() <= 1e-6
    target = inputs(*expected.shape)
    (expected * target).sum().backward()
    (outputs * target).sum().backward()
    assert theirs.weight_hh_l0.grad is not None
    torch.testing.assert_close(ours.layers[0].weight_hh.grad, theirs.weight_hh_l0.grad, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_the_equations_by_hand(cell: str) -> None:
    """Three steps of each cell, unit by unit, from weights as they stand in the papers."""
    layer = built(cell).double()
    x = inputs(2, 3, 6).double()
    w = dict(layer.named_parameters())
    width, parts = 5, layer.weight_ih.size(0) // 5
    W, U = w["weight_ih"].view(parts, width, 6), w["weight_hh"].view(parts, width, width)
    b, d = w["bias_ih"].view(parts, width), w["bias_hh"].view(parts, width)

    def gate(number: int, now: Tensor, h: Tensor, more: Tensor | float = 0.0) -> Tensor:
        return now @ W[number].T + h @ U[number].T + b[number] + d[number] + more

    def normal(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / ((x - mean).square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale + shift

    h = c = torch.zeros(2, width, dtype=torch.double)
    for now in x.unbind(1):
        if cell == "layer_norm":
            of_x = normal(now @ w["weight_ih"].T, w["norm_ih"], w["bias_ih"])
            i, f, g, o = (of_x + normal(h @ w["weight_hh"].T, w["norm_hh"], w["bias_hh"])).view(2, 4, width).unbind(1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * normal(c, w["norm_c"], w["bias_c"]).tanh()
        elif cell == "rnn":
            h = gate(0, now, h).tanh()
        elif cell == "coupled":
            i, g, o = gate(0, now, h).sigmoid(), gate(1, now, h).tanh(), gate(2, now, h).sigmoid()
            c = (1 - i) * c + i * g
            h = o * c.tanh()
        elif cell in WITH_CELL:
            if cell == "mogrifier":
                q, r = w["mogrify_x"], w["mogrify_h"]  # of five rounds, the first, third and fifth change x
                now = 2 * (h @ q[0].T).sigmoid() * now
                h = 2 * (now @ r[0].T).sigmoid() * h
                now = 2 * (h @ q[1].T).sigmoid() * now
                h = 2 * (now @ r[1].T).sigmoid() * h
                now = 2 * (h @ q[2].T).sigmoid() * now
            p = [w[f"peephole_{name}"] if cell == "peephole" else 0.0 for name in "ifo"]
            i, f = gate(0, now, h, p[0] * c).sigmoid(), gate(1, now, h, p[1] * c).sigmoid()
            c = f * c + i * gate(2, now, h).tanh()
            h = gate(3, now, h, p[2] * c).sigmoid() * c.tanh()  # sees the new cell (E234)
        else:
            r, z = gate(0, now, h).sigmoid(), gate(1, now, h).sigmoid()
            behind = r * (h @ U[2].T + d[2]) if cell == "gru" else (r * h) @ U[2].T + d[2]
            h = (1 - z) * (now @ W[2].T + b[2] + behind).tanh() + z * h
    outputs, state = layer(x)
    torch.testing.assert_close(outputs[:, -1], h)
    torch.testing.assert_close(state["h"], h)
    if cell in WITH_CELL:
        torch.testing.assert_close(state["c"], c)


def test_a_coupled_lstm_has_a_quarter_fewer_weights_and_peepholes_are_diagonal() -> None:
    size = {cell: sum(p.numel() for p in built(cell).parameters()) for cell in CELLS}
    assert size["coupled"] == 0.75 * size["lstm"]
    assert size["peephole"] == size["lstm"] + 3 * 5
    assert size["layer_norm"] == size["lstm"] + (2 * 4 + 2) * 5
    assert size["mogrifier"] == size["lstm"] + 5 * 6 * 5


def test_a_mogrifier_whose_rounds_change_nothing_is_an_lstm_and_layer_norm_forgets_the_scale_of_its_input() -> None:
    lstm, mogrifier, x = built("lstm"), built("mogrifier"), inputs(2, 4, 6)
    lstm.load_state_dict({name: value for name, value in mogrifier.state_dict().items() if "mogrify" not in name})
    with torch.no_grad():
        mogrifier.mogrify_x.zero_(), mogrifier.mogrify_h.zero_()  # 2 sigmoid(0) = 1
    torch.testing.assert_close(mogrifier(x), lstm(x))
    layer = built("layer_norm")
    torch.testing.assert_close(layer(1e3 * x), layer(2e3 * x))


def test_a_peephole_tells_when_a_time_has_passed_though_the_output_was_shut() -> None:
    """H06: one unit counts silent steps in c, and its output gate sees the tenth; without peepholes it sees none of them."""
    fired = {}
    for cell in ("peephole", "lstm"):
        layer = RecurrentLayer(cell, 1, 1)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.bias_ih[:] = torch.tensor([50.0, 50.0, torch.atanh(torch.tensor(0.1)).item(), -95.0])  # c grows by 0.1 a step
            if cell == "peephole":
                layer.peephole_o.fill_(100.0)
        fired[cell] = layer(torch.zeros(1, 12, 1))[0].flatten() > 0.5
    assert fired["peephole"].tolist() == [False] * 9 + [True] * 3
    assert not fired["lstm"].any()


def test_a_closed_reset_gate_makes_the_candidate_of_chos_gru_forget_the_past() -> None:
    layer = built("cho_gru")
    with torch.no_grad():
        layer.bias_ih[:5], layer.bias_ih[5:10] = -1e4, -1e4  # r = 0, z = 0: the state is the candidate
    x, state = inputs(2, 1, 6), {"h": inputs(2, 5)}
    torch.testing.assert_close(layer(x, state=state)[0], layer(x)[0], rtol=0, atol=0)


@pytest.mark.parametrize("cell", WITH_CELL)
def test_forget_gates_begin_open(cell: str) -> None:
    layer = built(cell)
    both = layer.bias_ih + layer.bias_hh
    assert bool(((-both[:5] if cell == "coupled" else both[5:10]) == 1).all())


@pytest.mark.parametrize("by", ["plain", "library recurrence", "C recurrence"])
@pytest.mark.parametrize("cell", CELLS)
def test_sequences_of_several_lengths_are_read_as_each_alone(cell: str, by: str) -> None:
    torch.manual_seed(0)
    model = Recurrent(cell, 6, 5, 2, bidirectional=True, projection=3 if cell in WITH_CELL else 0)
    install_one(model, by)
    x = inputs(4, 7, 6)
    before = {name: inputs(4, *shape) for name, shape in model.state_shapes.items()}
    outputs, state = model(x, LENGTHS, before)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, own = model(x[row : row + 1, :length], state={name: held[row : row + 1] for name, held in before.items()})
        assert (outputs[row, :length] - alone[0]).abs().max() <= 1e-6
        assert not outputs[row, length:].any()
        for name in state:
            assert (state[name][row] - own[name][0]).abs().max() <= 1e-6


@pytest.mark.parametrize("cell", CELLS)
def test_the_backward_direction_is_the_forward_one_on_reversed_sequences(cell: str) -> None:
    torch.manual_seed(0)
    both, forward = Recurrent(cell, 6, 5, bidirectional=True), Recurrent(cell, 6, 5)
    forward.layers[0].load_state_dict(both.layers[1].state_dict())
    x = inputs(4, 7, 6)
    x_reversed = torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, LENGTHS.tolist(), strict=True)])
    assert torch.equal(reversed_steps(x, LENGTHS), x_reversed)
    expected, end = forward(x_reversed, LENGTHS)
    outputs, state = both(x, LENGTHS)
    for row, n in enumerate(LENGTHS.tolist()):
        assert torch.equal(outputs[row, :n, 5:], expected[row, :n].flip(0))
    assert torch.equal(state["h"][:, 1], end["h"][:, 0])


@pytest.mark.parametrize("cell", CELLS)
def test_back_propagation_through_time_equals_finite_differences(cell: str) -> None:
    layer = built(cell, **({"projection": 3} if cell in WITH_CELL else {})).double()
    x = inputs(2, 4, 6).double().requires_grad_()
    names, weights = zip(*layer.named_parameters(), strict=True)

    def loss(x: Tensor, *given: Tensor) -> Tensor:
        outputs, state = torch.func.functional_call(layer, dict(zip(names, given, strict=True)), (x, torch.tensor([4, 2])))
        return outputs.square().sum() + sum(held.sum() for held in state.values())

    assert torch.autograd.gradcheck(loss, (x, *weights))


def test_the_library_s_gradients_are_those_of_the_unrolled_loop() -> None:
    for cell in LIBRARY:
        layer, x, grads = built(cell).double(), inputs(3, 7, 6).double().requires_grad_(), []
        weight_hh = (layer.weight_hh * 0.5).detach().requires_grad_()  # as weight drop gives it
        for install in (False, True):
            if install:
                select.install_chosen(layer, UsageSpec())
            outputs, state = layer(x, torch.tensor([7, 4, 1]), weight_hh=weight_hh)
            total = outputs.square().sum() + sum(held.sum() for held in state.values())
            grads.append(torch.autograd.grad(total, (x, weight_hh, layer.weight_ih, layer.bias_hh)))
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)


def test_a_text_can_be_read_in_parts() -> None:
    for cell in CELLS:
        layer, x = built(cell), inputs(3, 8, 6)
        whole, end = layer(x)
        first, state = layer(x[:, :3])
        second, state = layer(x[:, 3:], state=state)
        torch.testing.assert_close(torch.cat([first, second], 1), whole)
        torch.testing.assert_close(state, end)


def test_cells_and_projections_are_clipped() -> None:
    layer = built("lstm", projection=3, cell_clip=0.05, projection_clip=0.02)
    outputs, state = layer(inputs(2, 9, 6) * 5)
    assert state["c"].abs().max().item() == pytest.approx(0.05)
    assert outputs.abs().max() <= 0.02
    assert "clips neither" in dict(select.choose(layer, UsageSpec())[0].reasons)["library recurrence"]


def test_changed_layers_are_computed_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    class Louder(RecurrentLayer):
        def recurrence(self, *given: Any) -> Any:
            outputs, state = super().recurrence(*given)
            return 2 * outputs, state

    changed: list[RecurrentLayer] = [Louder("lstm", 6, 5), built("lstm"), built("gru"), built("lstm"), built("peephole"), built("rnn")]
    changed[1].register_forward_hook(lambda *_: None)
    changed[2].scale = 2.0  # type: ignore[assignment]
    changed[3].clipped = lambda c: c / 2  # type: ignore[method-assign]
    parametrizations.weight_norm(changed[4], "weight_hh")
    changed[5].register_parameter("scale", nn.Parameter(torch.ones(5)))
    for layer in changed:
        (choice,) = select.install_chosen(layer, UsageSpec())
        assert not choice.chosen and "forward" not in vars(layer)
        assert choice.line().partition(": ")[2].startswith("plain, as ")
    monkeypatch.setitem(STEPS, "lstm", STEPS["peephole"])
    assert not select.choose(built("lstm"), UsageSpec())[0].chosen and select.choose(built("gru"), UsageSpec())[0].chosen
    (plain,) = select.install_chosen(built("gru"), UsageSpec(plain_recurrence="plain was asked for"))
    assert "plain was asked for" in plain.line()
    served = built("gru")
    select.install_chosen(served, UsageSpec())
    uninstall(served)
    assert "forward" not in vars(served)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose from: rnn, lstm"):
        RecurrentLayer("ltsm", 2, 2)
    with pytest.raises(ConfigError, match="projected"):
        RecurrentLayer("gru", 2, 2, projection=1)
