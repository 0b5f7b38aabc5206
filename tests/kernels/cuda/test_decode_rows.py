"""The kernels for several rows, as far as no GPU is needed: how products are divided. `tests/kernels/test_decode_step.py` runs them."""

from __future__ import annotations

import pytest
import torch

from weft.kernels.cuda.decode_rows import (
    INPUTS,
    MOST_OUTPUTS,
    MOST_OWN,
    MOST_WARPS,
    UNIT,
    AttentionArgs,
    Cut,
    MatmulArgs,
    cut,
    cut_of,
    supports_attention,
    warps_of,
)

BLOCKS, SHARED = 132, 232_448
WIDTHS = (64, 256, 576, 768, 1024, 1280, 1600)
SHAPES = [(3 * width, width, True) for width in WIDTHS] + [
    (outputs, inputs, False) for width in WIDTHS for outputs, inputs in ((width, width), (width, 4 * width))
]


@pytest.mark.parametrize(("outputs", "inputs", "whole"), SHAPES)
def test_a_products_parts_cover_it_and_fit(outputs: int, inputs: int, whole: bool) -> None:
    found = cut(outputs, inputs, whole, BLOCKS, SHARED)
    assert found
    assert found.share * found.parts == inputs
    assert not whole or found.parts == 1
    assert found.share % INPUTS == 0
    assert found.share // INPUTS <= found.warps * MOST_OWN
    assert found.warps <= MOST_WARPS
    assert found.outputs % UNIT == 0
    assert found.outputs <= MOST_OUTPUTS
    assert -(-outputs // found.outputs) * found.parts < BLOCKS
    assert found.shared <= SHARED
    assert found.line % 128 == 64  # so that two rows lie in different banks


def test_the_products_of_gpt2_xl_are_divided_as_was_measured_to_be_fastest() -> None:
    assert cut(4800, 1600, True, BLOCKS, SHARED) == Cut(outputs=48, parts=1, share=1600, warps=10)
    assert cut(1600, 1600, False, BLOCKS, SHARED) == Cut(outputs=32, parts=2, share=800, warps=5)
    assert cut(6400, 1600, True, BLOCKS, SHARED) == Cut(outputs=56, parts=1, share=1600, warps=10)
    assert cut(1600, 6400, False, BLOCKS, SHARED) == Cut(outputs=56, parts=4, share=1600, warps=10)


def test_warps_take_the_same_number_of_inputs_where_they_can() -> None:
    assert [warps_of(times) for times in (1, 2, 18, 24, 25, 48, 50, 51)] == [1, 2, 6, 6, 5, 10, 10, 0]


@pytest.mark.parametrize(("outputs", "inputs"), [(50257, 1600), (4800, 1601), (8192, 4096)])
def test_what_does_not_fit_is_left_to_others(outputs: int, inputs: int) -> None:
    assert cut(outputs, inputs, True, BLOCKS, SHARED) is None


def test_arguments_lie_as_the_kernels_have_them() -> None:
    assert [getattr(MatmulArgs, name).offset for name, _ in MatmulArgs._fields_] == list(range(0, 48, 8))
    assert [getattr(AttentionArgs, name).offset for name, *_ in AttentionArgs._fields_] == list(range(0, 112, 8))


def test_other_devices_are_not_served() -> None:
    for device in ("cpu", "meta"):
        assert cut_of(torch.empty(64, 64, dtype=torch.bfloat16, device=device), whole=True) is None
        assert not supports_attention(torch.empty(2, 2, 8, 64, dtype=torch.bfloat16, device=device), 2)
