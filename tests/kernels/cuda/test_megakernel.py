"""The kernel for one row, as far as no GPU is needed: which models it serves, and how it divides them. `test_steps` runs it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from tests.gpt_configs import gpt_config
from weft.kernels.cuda.megakernel import Arguments, MegakernelDecode, all_shares, sizes_fit, sizes_of, supports
from weft.kernels.describe import describe_stack
from weft.kernels.known import described
from weft.kernels.spec import StackSpec
from weft.kernels.usage import Machine, UsageSpec
from weft.models.language.gpt import PRESETS, GPTConfig
from weft.models.language.llama import LlamaConfig

SIZES = [("gpt2-xl", 132), ("gpt2-xl", 114), ("gpt2", 132), ("gpt2-medium", 132), ("gpt2-large", 78)]
SHARED = 232_448
SMALL: dict[str, Any] = {"vocabulary": 500, "context": 64, "layers": 2, "heads": 4, "width": 256}


def built(name: str) -> Any:
    with torch.device("meta"):
        return PRESETS[name].build().bfloat16()


def small(**settings: Any) -> Any:
    with torch.device("meta"):
        return gpt_config(**SMALL | settings).build().bfloat16()


def use(blocks: int) -> UsageSpec:
    """Of a Hopper GPU that this machine does not have."""
    machine = Machine(device="cuda", capability=(9, 0), triton=True, processors=blocks, shared_memory=SHARED)
    return UsageSpec(machine=machine, mode="decode")


def told(model: Any, blocks: int = 132) -> StackSpec:
    spec: StackSpec = describe_stack(model.eval(), use(blocks))
    return spec


def refused(model: Any, blocks: int = 132) -> str:
    spec = described(describe_stack, model.eval(), use(blocks))
    return spec if isinstance(spec, str) else MegakernelDecode().refuses(spec, use(blocks))


@pytest.mark.parametrize(("name", "blocks"), SIZES)
def test_shares_cover_every_row_once_and_evenly(name: str, blocks: int) -> None:
    config, factor = PRESETS[name], 4
    totals = [3 * config.width, config.width, factor * config.width, config.vocabulary]
    shares = all_shares(config.width, factor, config.vocabulary, blocks)
    for total, ends in zip(totals, shares, strict=True):
        assert len(ends) == blocks + 1
        assert (ends[0], ends[-1]) == (0, total)
        assert all(begin <= end for begin, end in pairwise(ends))
    held = [[end - begin for begin, end in pairwise(ends)] for ends in shares]
    of_a_layer = [qkv + (1 + factor) * rows + up for qkv, rows, up, _ in zip(*held, strict=True)]
    assert max(of_a_layer) - min(of_a_layer) <= 3
    assert max(held[3]) - min(held[3]) <= 1


@pytest.mark.parametrize(("name", "blocks"), SIZES)
def test_a_batch_of_sums_holds_a_blocks_share_of_any_product(name: str, blocks: int) -> None:
    spec = told(built(name), blocks)
    assert not refused(built(name), blocks)
    sizes = sizes_of(spec, blocks, SHARED)
    shares = all_shares(sizes["D"], 4, 50257, blocks)
    for ends, units in zip(shares[:3], (1, 4, 1), strict=True):
        assert units * max(end - begin for begin, end in pairwise(ends)) <= sizes["BATCH"] <= 32 * sizes["WARPS"]
    assert sizes["BATCH"] % sizes["UNITS"] == 0
    assert sizes["HEADS"] * sizes["PARTS"] <= blocks


def test_arguments_are_pointers_and_numbers_of_eight_bytes() -> None:
    assert [getattr(Arguments, name).offset for name in Arguments.NAMES] == list(range(0, 8 * len(Arguments.NAMES), 8))


@pytest.mark.parametrize(
    "settings", [{}, {"tie_embeddings": False}, {"bias": False}, {"activation": "silu"}, {"ffn_width": 512}, {"heads": 32}]
)
def test_variants_of_gpt2_are_served(settings: dict[str, Any]) -> None:
    assert not refused(small(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post"},
        {"position_embedding": "rotary"},
        {"position_embedding": "sinusoidal"},
        {"sliding_window": 16},
        {"embedding_norm": True},
    ],
)
def test_models_of_another_kind_are_not(settings: dict[str, Any]) -> None:
    assert refused(small(**settings))


def test_llama_other_precisions_and_changed_modules_are_not() -> None:
    with torch.device("meta"):
        assert refused(LlamaConfig(**SMALL).build().bfloat16())
    assert refused(small().float())
    changed = [small() for _ in range(6)]
    changed[0].blocks[1].norm2.eps = 1e-3
    changed[1].blocks[1].norm2 = nn.RMSNorm(256, dtype=torch.bfloat16, device="meta")
    changed[2].blocks[0].attention.out = nn.Sequential(changed[2].blocks[0].attention.out)
    changed[3].blocks[0].feedforward.activation = "relu"
    changed[4].head = nn.Linear(256, 500, dtype=torch.bfloat16, device="meta")
    changed[5].blocks[0].feedforward.up.weight = nn.Parameter(changed[5].blocks[0].feedforward.down.weight.T)
    assert all(map(refused, changed))


@pytest.mark.parametrize(
    ("settings", "blocks"),
    [
        ({"width": 4096}, 132),
        ({"width": 240}, 132),
        ({"ffn_width": 768}, 132),
        ({"ffn_width": 300}, 132),
        ({"heads": 32}, 16),
        ({"width": 2048}, 8),
    ],
)
def test_sizes_that_the_kernel_cannot_divide_are_not(settings: dict[str, Any], blocks: int) -> None:
    assert not sizes_fit(told(small(**settings), blocks), blocks, SHARED)


def test_a_model_on_a_cpu_is_not() -> None:
    assert not supports(GPTConfig(**SMALL).build().bfloat16())
