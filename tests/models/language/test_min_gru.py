"""Minimal recurrent units: the scan over all steps equals the steps one by one, and the equations of the paper."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.models.language.min_gru import LEAST, MinGRUConfig, MinGRULM, MinRNN, scan, step

CELLS = ("min_gru", "min_lstm")


def built(**settings: Any) -> MinGRULM:
    torch.manual_seed(0)
    model = MinGRUConfig(**{"vocabulary": 11, "width": 16, "layers": 2} | settings).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def ids(b: int = 3, t: int = 50) -> torch.Tensor:
    return torch.randint(11, (b, t), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("cell", CELLS)
def test_the_scan_equals_one_step_after_the_other_and_so_do_its_gradients(cell: str) -> None:
    torch.manual_seed(0)
    unit, x, grads = MinRNN(cell, 8, 12), torch.randn(2, 200, 8), []
    for h in (torch.zeros(2, 12), torch.rand(2, 12)):
        results = [function(*given(unit, x), h) for function in (scan, step)]
        torch.testing.assert_close(*results, rtol=2e-4, atol=1e-6)
        grads = [torch.autograd.grad(result.square().mean(), unit.gates.weight) for result in results]
        torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-6)
        assert torch.cat([gradient for (gradient,) in grads]).isfinite().all()


def given(unit: MinRNN, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    log_f, log_i, log_g = unit.log_gates(x)
    return log_f, log_i + log_g


def test_the_equations_by_hand() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 1, 8)
    for cell in CELLS:
        unit, h = MinRNN(cell, 8, 12), torch.rand(2, 12)
        parts = unit.gates(x[:, 0]).chunk(2 if cell == "min_gru" else 3, -1)
        candidate = torch.where(parts[-1] >= 0, parts[-1] + 0.5, parts[-1].sigmoid())
        if cell == "min_gru":
            expected = (1 - parts[0].sigmoid()) * h + parts[0].sigmoid() * candidate
        else:
            f, i = parts[0].sigmoid(), parts[1].sigmoid()
            expected = f / (f + i) * h + i / (f + i) * candidate
        torch.testing.assert_close(unit(x, h)[1], expected)


@pytest.mark.parametrize("cell", CELLS)
def test_decoding_step_by_step_gives_the_states_of_the_whole(cell: str) -> None:
    model, text = built(cell=cell), ids()
    with torch.no_grad():
        whole = model.hidden(text)
        state = model.new_state()
        state.add_rows(3)
        parts = [model.hidden(text[:, :20], state), *(model.hidden(text[:, t : t + 1], state) for t in range(20, 50))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-3, atol=2e-4)


def test_padding_is_not_read() -> None:
    model, text, lengths = built(), ids(), torch.tensor([50, 7, 1])
    state = model.new_state()
    state.add_rows(3)
    with torch.no_grad():
        padded = model.hidden(text, state, lengths)
        for row, length in enumerate(lengths.tolist()):
            alone = model.new_state()
            alone.add_rows(1)
            torch.testing.assert_close(padded[row, :length], model.hidden(text[row : row + 1, :length], alone)[0], rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(state.tensors["h1"][row], alone.tensors["h1"][0], rtol=1e-3, atol=1e-4)
    assert LEAST > 0
