"""What `bench one-row` does without a GPU: shares of the weights, sizes, a process that falls silent, the refusal."""

import sys
from itertools import pairwise

import pytest
import torch

from weft.benchmarks.one_row import bench
from weft.benchmarks.one_row.plan import Arguments, Plan, Shape, all_shares
from weft.errors import CapabilityError
from weft.models.gpt import PRESETS

SIZES = [("gpt2-xl", 132), ("gpt2-xl", 114), ("gpt2", 132), ("gpt2-medium", 132)]


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
    of_a_layer = [qkv + (1 + factor) * rows + rise for qkv, rows, rise, _ in zip(*held, strict=True)]
    assert max(of_a_layer) - min(of_a_layer) <= 3
    assert max(held[3]) - min(held[3]) <= 1


@pytest.mark.parametrize(("name", "blocks"), SIZES)
def test_a_batch_of_sums_holds_a_blocks_share_of_any_product(name: str, blocks: int) -> None:
    with torch.device("meta"):
        model = PRESETS[name].build()
    plan = Plan(model, Shape(), blocks, 232_448)
    batch = plan.defines["BATCH"]
    for ends, units in zip(plan.shares[:3], (1, 4, 1), strict=True):
        assert units * max(end - begin for begin, end in pairwise(ends)) <= batch <= plan.threads
    assert batch % plan.shape.units == 0


def test_arguments_are_pointers_and_numbers_of_eight_bytes() -> None:
    names = [name for name, *_ in Arguments._fields_]
    assert [getattr(Arguments, name).offset for name in names] == list(range(0, 8 * len(names), 8))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_hopper_gpu_one_sentence_says_so() -> None:
    with pytest.raises(CapabilityError, match=r"needs a Hopper GPU .* here is no GPU; run it on an H100 or H200"):
        bench.main([])


def test_a_silent_process_is_ended_and_its_rows_kept(capsys: pytest.CaptureFixture[str]) -> None:
    program = """print('{"what": "a step", "ms": 1.5, "result": ""}', flush=True); import time; time.sleep(60)"""
    rows = bench.listen([sys.executable, "-c", program], silence=1.0)
    assert [row["ms"] for row in rows] == [1.5, None]
    assert rows[1]["result"] == "ended after 1 s of silence"
    assert "1.5000 ms" in capsys.readouterr().out
