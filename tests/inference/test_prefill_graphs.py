"""Prompts read through shapes that are kept, captured on a GPU, give what the model gives; on a CPU nothing is captured."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from weft.inference.prefill_graphs import KEPT, MOST, PrefillGraphs
from weft.models.language.gpt import GPTConfig
from weft.models.language.llama import LlamaConfig

SIZES: dict[str, Any] = {"vocabulary": 50, "context": 300, "layers": 2, "heads": 4, "width": 32}
CONFIGS: dict[str, Any] = {
    "gpt": GPTConfig(**SIZES),
    "rotary, banded": GPTConfig(**SIZES, position_embedding="rotary", sliding_window=8, bias=False, tie_embeddings=False),
    "post-norm": GPTConfig(**SIZES, norm="post"),
    "llama": LlamaConfig(**SIZES, kv_heads=2),
}


def built(name: str, device: torch.device) -> Any:
    torch.manual_seed(0)
    return CONFIGS[name].build().to(device).eval().requires_grad_(False)


def read(way: Any, model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States (B, T, D), and keys and values of these tokens."""
    cache = model.new_state()
    cache.add_rows(len(ids))
    states = way.hidden(ids, cache)
    return states, cache.kv[:, :, : len(ids), :, : ids.size(1)].clone()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_prompt_is_read_as_the_model_reads_it_each_time_the_same(name: str, device: torch.device) -> None:
    model = built(name, device)
    graphs = PrefillGraphs(model)
    for rows, t in ((1, 5), (1, 16), (3, 17), (2, 280), (MOST // 8, 9)):
        for seed in (1, 2):
            ids = torch.randint(50, (rows, t), generator=torch.Generator().manual_seed(seed)).to(device)
            found = [read(graphs, model, ids) for _ in range(3)]
            for ours, theirs in zip(found[0], read(model, model, ids), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            assert all(torch.equal(one, other) for again in found[1:] for one, other in zip(found[0], again, strict=True))


def test_states_outlive_the_next_prompt(device: torch.device) -> None:
    model = built("gpt", device)
    graphs = PrefillGraphs(model)
    first = read(graphs, model, torch.full((1, 6), 3, device=device))
    before = [part.clone() for part in first]
    read(graphs, model, torch.full((1, 6), 7, device=device))
    assert all(torch.equal(one, other) for one, other in zip(first, before, strict=True))


def test_rows_that_hold_something_are_the_models_own_affair(device: torch.device) -> None:
    model = built("gpt", device)
    graphs, cache = PrefillGraphs(model), model.new_state()
    cache.add_rows(1)
    ids = torch.arange(8, device=device)[None]
    graphs.hidden(ids[:, :4], cache)
    cache.count([4])
    whole = read(model, model, ids)[0]
    torch.testing.assert_close(graphs.hidden(ids[:, 4:], cache), whole[:, 4:], rtol=1e-4, atol=1e-5)


def test_few_shapes_are_kept_and_none_where_weights_have_moved(device: torch.device) -> None:
    model = built("gpt", device)
    graphs = PrefillGraphs(model)
    for rows in range(1, KEPT + 2):
        read(graphs, model, torch.zeros(rows, 4, dtype=torch.int64, device=device))
    assert list(graphs.shapes) == [(KEPT + 1, 16)]
    for module in (model.embed, model.head):
        module.weight = torch.nn.Parameter(module.weight.clone() * 2, requires_grad=False)
    ids = torch.ones(KEPT + 1, 4, dtype=torch.int64, device=device)
    torch.testing.assert_close(read(graphs, model, ids)[0], read(model, model, ids)[0], rtol=1e-4, atol=1e-5)


def test_a_capture_that_fails_is_told_of_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no graph today")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", fails)
    model = built("gpt", torch.device("cpu"))
    graphs = PrefillGraphs(model)
    ids = torch.zeros(1, 4, dtype=torch.int64)
    with caplog.at_level(logging.WARNING, "weft"):
        found = [read(graphs, model, ids)[0] for _ in range(4)]
    assert [record.message for record in caplog.records] == [
        "prompts are read without a captured graph, which takes longer: no graph today"
    ]
    assert all(torch.equal(found[0], again) for again in found)
