"""Updates of word vectors by Triton are those of PyTorch, and the same bits each time: on a GPU, or interpreted (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.language.test_word_prediction import C, model, passages
from weft.kernels.c import word_vectors as in_c

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
pytestmark = pytest.mark.skipif(not GPU and not os.environ.get("TRITON_INTERPRET"), reason="needs a GPU, or TRITON_INTERPRET=1")
DEVICE = "cuda" if GPU else "cpu"
Result = tuple[float, float, Tensor, Tensor]


def updated(config: Any, width: int, number: int, length: int, monkeypatch: pytest.MonkeyPatch, triton: bool) -> Result:
    from weft.kernels.triton import word_vectors as on_gpu

    monkeypatch.setattr(in_c, "serves", lambda *tables: False)
    monkeypatch.setattr(on_gpu, "serves", lambda *tables: triton)
    made, objective = model(width, 0.3).to(DEVICE), config.build().to(DEVICE)
    batch = {name: tensor.to(DEVICE) for name, tensor in passages(number, length).items()}
    terms, counts = (objective.in_triton(made, batch, 0.05) if triton else None) or objective.update(made, batch, "", 0.05)
    return terms.sums["loss"].item(), counts["loss"].item(), made.centre.weight.detach(), made.context.weight.detach()


@pytest.mark.parametrize("limit", [0, 3])
@pytest.mark.parametrize("config", C, ids=lambda config: f"{type(config).__name__[:-6]}-{config.architecture}")
@pytest.mark.parametrize(("width", "centres", "length"), [(5, 16, 40), (100, 64, 30)])
def test_updates_are_those_of_pytorch(
    config: Any, width: int, centres: int, length: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = type(config)(**{**vars(config), "centres": centres, "row_limit": limit})
    ours = updated(config, width, 2, length, monkeypatch, True)
    again = updated(config, width, 2, length, monkeypatch, True)
    made = model(width, 0.3).to(DEVICE)
    batch = {name: tensor.to(DEVICE) for name, tensor in passages(2, length).items()}
    assert config.build().to(DEVICE).in_triton(made, batch, 0.0)
    assert torch.equal(made.centre.weight, model(width, 0.3).centre.weight.to(DEVICE)), "a rate of 0 writes nothing"
    plain = updated(config, width, 2, length, monkeypatch, False)
    assert ours[1] == plain[1] > 0
    assert ours[0] == pytest.approx(plain[0], rel=1e-5)
    for mine, other, second in zip(ours[2:], plain[2:], again[2:], strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=2e-5)
        assert torch.equal(mine, second)
    assert (ours[2] - model(width, 0.3).centre.weight.to(DEVICE)).abs().max() > 0.005
