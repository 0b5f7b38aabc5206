"""The kernels for several rows, as far as no GPU is needed: how products are divided. `generation/test_steps.py` runs them."""

from __future__ import annotations

import pytest
import torch

from weft.layers.rows_cuda import CLUSTER, INPUTS, MOST_OWN, UNIT, Cut, Look, Product, cut, cut_of, grid_of, looks

BLOCKS, SHARED = 132, 232_448
SHAPES = [(3 * width, width, True) for width in (256, 768, 1024, 1280, 1600)] + [
    (outputs, inputs, False) for width in (256, 768, 1280, 1600) for outputs, inputs in ((width, width), (width, 4 * width))
]


@pytest.mark.parametrize(("outputs", "inputs", "whole"), SHAPES)
def test_a_products_parts_cover_it_and_fit(outputs: int, inputs: int, whole: bool) -> None:
    found = cut(outputs, inputs, whole, BLOCKS, SHARED)
    assert found
    assert found.share * found.parts == inputs
    assert not whole or found.parts == 1
    assert found.share % INPUTS == 0
    assert found.warps <= found.share // INPUTS <= found.warps * MOST_OWN
    blocks = grid_of(outputs, found.outputs)
    assert blocks * found.outputs >= outputs
    assert blocks % CLUSTER == 0
    assert blocks * found.parts <= BLOCKS
    assert found.shared <= SHARED
    assert found.slots == found.outputs // UNIT or found.slots % 2 == 0
    assert found.line % 128 == 64  # so that two rows lie in different banks


def test_of_two_cuts_the_one_that_reads_less_is_taken() -> None:
    assert cut(1600, 6400, False, BLOCKS, SHARED) == Cut(outputs=64, parts=4, share=1600, warps=10, slots=4)


@pytest.mark.parametrize(("outputs", "inputs"), [(50257, 1600), (4800, 1601), (8192, 4096)])
def test_what_does_not_fit_is_left_to_others(outputs: int, inputs: int) -> None:
    assert cut(outputs, inputs, True, BLOCKS, SHARED) is None


def test_arguments_lie_as_the_kernels_have_them() -> None:
    assert [getattr(Product, name).offset for name, _ in Product._fields_] == list(range(0, 48, 8))
    assert [getattr(Look, name).offset for name, *_ in Look._fields_] == list(range(0, 112, 8))


def test_other_devices_are_not_served() -> None:
    for device in ("cpu", "meta"):
        assert cut_of(torch.empty(64, 64, dtype=torch.bfloat16, device=device), whole=True) is None
        assert not looks(torch.empty(2, 2, 8, 64, dtype=torch.bfloat16, device=device), 2)
