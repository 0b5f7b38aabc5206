"""An example's output does not depend on its batch-mates, and with a reference equal to the batch it is batch normalisation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.nn.virtual_batch_norm import VirtualBatchNorm


@pytest.mark.parametrize("shape", [(6,), (6, 3, 3)])
def test_batch_mates_do_not_matter(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = VirtualBatchNorm(6, reference=8)
    reference, x = torch.randn(8, *shape), torch.randn(5, *shape)
    whole = layer(torch.cat([reference, x]))[8:]
    others = layer(torch.cat([reference, x[2:3], 100 * torch.randn(7, *shape)]))[8:]
    torch.testing.assert_close(whole[2], others[0])
    assert not torch.allclose(
        nn.BatchNorm1d(6)(x.flatten(1)[:, :6])[2], nn.BatchNorm1d(6)(torch.cat([x[2:3], 100 * x]).flatten(1)[:, :6])[0]
    )


def test_the_reference_is_normalised_by_itself() -> None:
    torch.manual_seed(0)
    reference = 3 + 2 * torch.randn(64, 4, 5, 5)
    out = VirtualBatchNorm(4, reference=64)(reference)
    torch.testing.assert_close(out, nn.BatchNorm2d(4)(reference), atol=1e-4, rtol=1e-4)


def test_an_example_counts_as_one_more_row() -> None:
    torch.manual_seed(0)
    reference, x = torch.randn(7, 3), torch.randn(1, 3)
    out = VirtualBatchNorm(3, reference=7)(torch.cat([reference, x]))[7:]
    rows = torch.cat([reference, x])
    torch.testing.assert_close(out, (x - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-5).sqrt())
