"""Norms of many numbers keep their digits."""

from __future__ import annotations

import pytest
import torch

from weft.training.parallel.team import ROW, SINGLE_PROCESS, norms_of


@pytest.mark.parametrize("sizes", [(), (3,), (0,), (ROW,), (2 * ROW - 1,), (2 * ROW,), (5_000_001,), (1, 3 * ROW + 7), (300, 1700)])
def test_a_norm_in_fp32_is_that_of_fp64(sizes: tuple[int, ...]) -> None:
    tensor = torch.randn(sizes, generator=torch.Generator().manual_seed(0))
    exact = tensor.double().norm()
    torch.testing.assert_close(norms_of([tensor])[0].double(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        SINGLE_PROCESS.norm([tensor, tensor.mT if tensor.ndim == 2 else tensor], [1, 1]).double(), 2**0.5 * exact, rtol=1e-6, atol=0
    )
