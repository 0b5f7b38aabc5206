from __future__ import annotations

import pytest
import torch

from weft.nn.made import MADE, Autoregressive


def shaken(layer: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return layer.double()


@pytest.mark.parametrize("hidden", [(), (12,), (12, 20), (3, 40)])
def test_each_output_depends_on_the_inputs_before_it_alone(hidden: tuple[int, ...]) -> None:
    made = shaken(MADE(6, hidden, outputs=2))
    jacobians = [torch.autograd.functional.jacobian(lambda x: made(x[None])[0], torch.randn(6, dtype=torch.float64)) for _ in range(20)]
    reached = torch.stack([found != 0 for found in jacobians]).any(0).view(2, 6, 6)
    before = torch.ones(6, 6).tril(-1).bool()
    assert not (reached & ~before).any()
    if min(hidden, default=6) >= 6:
        assert torch.equal(reached, before.expand(2, 6, 6)), "it depends on all of them"


def test_one_number_has_nothing_before_it() -> None:
    made = shaken(MADE(1, (4,), outputs=2))
    assert torch.equal(made(torch.zeros(1, 1).double()), made(torch.ones(1, 1).double()))


def test_at_first_it_changes_nothing() -> None:
    x = torch.randn(3, 5)
    z, change = Autoregressive(5, (8,))(x)
    assert torch.equal(z, x)
    assert not change.any()


def test_the_way_back_takes_a_pass_for_each_number() -> None:
    layer = shaken(Autoregressive(5, (8,)))
    assert isinstance(layer, Autoregressive)
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    layer.network.register_forward_hook(count)
    layer(torch.zeros(2, 5).double())
    assert passes == 1
    layer.inverse(torch.zeros(2, 5).double())
    assert passes == 6
