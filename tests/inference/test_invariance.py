"""Where batch invariance is the default, and what is said where it is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.inference.test_engine import Letters
from tests.inference.test_runner import model
from weft.benchmarks.inference import divergence, generation
from weft.inference.engine import Engine, generate_all
from weft.inference.invariance import choose
from weft.inference.quantize import quantize_model
from weft.inference.request import Request, Sampling


def test_the_default_and_its_line() -> None:
    made = model("llama")
    assert not choose(made, 1).on and choose(made, 1).line == ""
    assert not choose(made, 8).on
    assert choose(made, 8).line.endswith(
        "--batch-invariant on makes it the same and cost 64 % of the speed (without it no greedy answer differed) where measured"
    )
    assert "19 % of the speed" in choose(made.to(torch.bfloat16), 8).line
    rounded = model("llama")
    quantize_model(rounded, "int8")
    assert (
        choose(rounded, 8).on
        and Engine(rounded, Letters()).batch_invariant
        and not Engine(rounded, Letters(), batch_invariant=False).batch_invariant
    )


@pytest.mark.parametrize("prefill_chunk", [16, 512])
def test_invariant_prompts_share_whole_chunks_to_the_last_bit(prefill_chunk: int) -> None:
    made: Any = model("rotary").to(torch.bfloat16)
    shared = tuple((5 * i) % 29 for i in range(60))
    sampling = Sampling(temperature=0.0, max_new_tokens=8, logprobs=2, ignore_end=True)
    requests = [Request((*shared, *rest), sampling) for rest in ((1, 2), (3,), (1, 2, 3))]
    own: Any = {"prefill_chunk": prefill_chunk, "prefixes": 0, "slots": 1, "batch_invariant": True}
    expected = [generate_all(Engine(made, Letters(), **own), [one])[0] for one in requests]
    engine = Engine(made, Letters(), prefill_chunk=prefill_chunk, slots=2, batch_invariant=True)
    assert generate_all(engine, requests) + generate_all(engine, requests) == expected * 2
    assert (engine.prefix_cache.hit_tokens > 0) == (prefill_chunk == 16) and not engine.prefix_cache.hit_tokens % prefill_chunk


def test_divergence_is_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = model("groups").to(torch.bfloat16)
    prompts = divergence.random_prompts(29, 6)
    rows = divergence.measure(made, Letters(), prompts, [2, 4], added=6)
    assert [(row["invariant"], row["company"]) for row in rows] == [(on, n) for on in (False, True) for n in (1, 2, 4)]
    assert all(row["diverged"] == 0.0 and "first_divergence_least" not in row for row in rows if row["invariant"] and row["company"] > 1)
    assert all(row["tokens_per_second"] > 0 for row in rows) and all("cost" in row for row in rows[3:])
    assert divergence.first_difference([1, 2, 3], [1, 5, 3]) == 1 and divergence.first_difference([1], [1]) is None
    monkeypatch.setitem(generation.PRESETS, "gpt2", type(generation.PRESETS["gpt2"])(vocabulary=50, context=80, layers=1, heads=1, width=8))
    generation.main(["--divergence", "--device", "cpu", "--precision", "fp32", "--prompts", "3", "--added", "2", "--batches", "2"])
    assert capsys.readouterr().out.count('"invariant"') == 4
