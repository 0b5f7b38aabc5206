"""Reading on with a cache gives what reading everything at once gives, alone and beside others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.inference.beam_models import translate
from weft.inference.runner import ModelRunner
from weft.models.language.gpt import GPTConfig
from weft.models.language.llama import LlamaConfig
from weft.models.language.perceiver import PerceiverConfig
from weft.models.language.t5 import T5Config
from weft.models.language.transformer import TransformerConfig
from weft.nn.state import KVCache

V, CONTEXT = 30, 150
SIZES: dict[str, Any] = {"vocabulary": V, "context": CONTEXT, "layers": 3, "heads": 4, "width": 32}
MODELS = {
    "learned": GPTConfig(**SIZES),
    "rotary": GPTConfig(**SIZES, position_embedding="rotary"),
    "sinusoidal, post": GPTConfig(**SIZES, position_embedding="sinusoidal", norm="post"),
    "banded": GPTConfig(**SIZES, sliding_window=5),
    "llama": LlamaConfig(**SIZES),
    "groups": LlamaConfig(**SIZES, kv_heads=2),
    "perceiver": PerceiverConfig(**SIZES, latents=8),
    "perceiver ar": PerceiverConfig(**SIZES, latents=8, queries="last", pad=-1, position_embedding="rotary"),
}
ROWS = [list(range(1, 11)), [5], [7, 7, 7, 2, 9, 0, 1, 4], [29, 28]]


def model(name: str) -> Any:
    torch.manual_seed(0)
    return MODELS[name].build().eval()


def same(made: Any, states: Tensor, ids: list[int]) -> None:
    """The last states are those of reading everything at once, and their logits are the same to 1e-5."""
    with torch.inference_mode():
        expected = made.hidden(torch.tensor([ids]))[0, -len(states) :]
        torch.testing.assert_close(states, expected, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(made.head(states), made.head(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_rows_read_in_pieces_are_as_rows_read_at_once(name: str) -> None:
    made = model(name)
    runner = ModelRunner(made)
    runner.add_rows(len(ROWS))
    read: list[list[int]] = [[] for _ in ROWS]
    for pieces in ([3, 1, 0, 2], [7, 0, 5, 0], [0, 0, 3, 0]):
        now = [row[len(r) : len(r) + n] for row, r, n in zip(ROWS, read, pieces, strict=True)]
        read = [[*r, *n] for r, n in zip(read, now, strict=True)]
        for found, ids, new in zip(runner.prefill(now), read, now, strict=True):
            assert len(found) == len(new)
            if new:
                same(made, found, ids)
    assert read == ROWS == runner.ids


@pytest.mark.parametrize("name", MODELS)
def test_rows_join_leave_and_change_places(name: str) -> None:
    made = model(name)
    first, second = ModelRunner(made), ModelRunner(made)
    for runner, rows in ((first, ROWS[:2]), (second, ROWS[2:])):
        runner.add_rows(2)
        runner.prefill(rows)
    first.join(second)
    first.drop(1)  # the last row stands there now
    assert first.ids == [ROWS[0], ROWS[3], ROWS[2]]
    first.select([2, 2, 0])
    for found, ids in zip(first.prefill([[3], [4], [5]]), first.ids, strict=True):
        same(made, found, ids)
    assert first.ids == [[*ROWS[2], 3], [*ROWS[2], 4], [*ROWS[0], 5]]


@pytest.mark.parametrize("name", ["learned", "rotary", "groups", "perceiver"])
def test_a_row_longer_than_the_context_is_seen_through_its_end(name: str) -> None:
    made, runner = model(name), ModelRunner(model(name))
    runner.add_rows(2)
    long = [(7 * i) % V for i in range(CONTEXT - 1)]
    runner.prefill([long, [3]])
    for step in range(4):  # the row beside it is not disturbed
        found = runner.prefill([[step], [step + 1]])
        same(made, found[0], runner.ids[0][-CONTEXT:])
        same(made, found[1], runner.ids[1])


@pytest.mark.parametrize("memory", ["last", "all", "layerwise", "t5"])
def test_a_decoder_with_a_cache_translates_the_same(memory: Any) -> None:
    torch.manual_seed(0)
    config: Any = T5Config(vocabulary=V, layers=2, heads=2, head_dim=8, width=16) if memory == "t5" else TransformerConfig(
        vocabulary=V, context=40, layers=2, heads=2, width=16, encoder_output=memory
    )  # fmt: skip
    made = config.build().eval()
    source = torch.randint(3, V, (5, 9), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([9, 4, 1, 7, 9])
    found = [
        translate(made, source[rows], lengths[rows], 1, 2, beams=3, longest=20, cached=cached)
        for cached in (True, False)
        for rows in (slice(0, 5), slice(1, 2))
    ]
    together, alone, again, alone_again = [[[h.ids for h in row] for row in rows] for rows in found]
    assert together == again and alone == alone_again and together[1:2] == alone
    for row, others in zip(found[0], found[2], strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in others], abs=1e-5)


@pytest.mark.parametrize("way", ["drop", "rewind"])
@pytest.mark.parametrize("name", ["learned", "groups"])
def test_a_row_that_was_not_a_number_leaves_nothing_to_the_next(name: str, way: str) -> None:
    """What a row held is hidden from the sequence that comes after it, but a weight of 0 times NaN is NaN."""
    made = model(name)
    runner = ModelRunner(made)
    runner.add_rows(1)
    runner.prefill([ROWS[0]])
    assert isinstance(runner.state, KVCache)
    with torch.inference_mode():
        runner.state.kv[..., : len(ROWS[0]), :] = torch.nan
    if way == "rewind":
        runner.rewind(0, 0, None)
    else:
        runner.drop(0)
        runner.add_rows(1)
    same(made, runner.prefill([ROWS[2]])[0], ROWS[2])
