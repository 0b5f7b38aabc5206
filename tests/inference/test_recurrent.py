"""A recurrent model goes through the same engine as others: every token read once, with the answers of reading everything again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.inference.test_engine import PROMPTS, SETTINGS, Letters, plain
from tests.recurrent import GRU, built
from weft.core.errors import CapabilityError
from weft.inference.beam import Beam
from weft.inference.beam_models import continuations
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.inference.runner import ModelRunner
from weft.inference.speculative import speculate
from weft.models.language.gpt import GPTConfig

REQUESTS = [Request(ids, sampling) for ids, sampling in itertools.product(PROMPTS, SETTINGS)]
GREEDY = Sampling(temperature=0.0, max_new_tokens=24, ignore_end=True)


def read_by(model: GRU, work: Any) -> int:
    model.tokens_read = 0
    work()
    return model.tokens_read


@pytest.mark.parametrize("settings", [{"slots": 1}, {"slots": 5, "prefill_chunk": 3}, {"slots": 32}, {"slots": 7, "batch_invariant": True}])
def test_answers_are_those_of_reading_everything_again(settings: dict[str, Any]) -> None:
    model = built()
    expected = [plain(generate_all(Engine(model, Letters(), slots=1, cached=False), [request]))[0] for request in REQUESTS]
    assert len({ids for _, ids, _ in expected}) > len(REQUESTS) // 2
    assert plain(generate_all(Engine(model, Letters(), **settings), REQUESTS)) == expected


@pytest.mark.parametrize("number", [10, 100, 400])
def test_every_token_is_read_once_however_long_the_text(number: int) -> None:
    model, requests = built(), [Request(ids, Sampling(max_new_tokens=number, ignore_end=True)) for ids in PROMPTS[:3]]
    read = read_by(model, lambda: generate_all(Engine(model, Letters(), slots=3), requests))
    assert read == sum(len(request.ids) + number - 1 for request in requests)


def test_rows_of_the_same_bits_beside_others_in_bf16() -> None:
    model: Any = built().to(torch.bfloat16)
    expected = [generate_all(Engine(model, Letters(), slots=1, batch_invariant=True), [request])[0] for request in REQUESTS[::4]]
    for settings in ({"slots": 4}, {"slots": 32}, {"slots": 2, "prefill_chunk": 7}):
        alone = expected
        if "prefill_chunk" in settings:
            alone = [
                generate_all(Engine(model, Letters(), **{**settings, "slots": 1}, batch_invariant=True), [r])[0] for r in REQUESTS[::4]
            ]
        assert generate_all(Engine(model, Letters(), **settings, batch_invariant=True), REQUESTS[::4]) == alone


def test_prompts_that_begin_alike_go_on_from_a_snapshot() -> None:
    model, shared = built(), tuple((5 * i) % 29 for i in range(50))
    requests = [Request((*shared, *rest), SETTINGS[i % 4]) for i, rest in enumerate([(1, 2), (1, 3, 4), (), (7,), (1, 2)])]
    expected = [plain(generate_all(Engine(model, Letters(), prefixes=0), [request]))[0] for request in requests]
    engine = Engine(model, Letters(), prefixes=4, slots=1)
    assert plain(generate_all(engine, requests)) == expected
    assert engine.prefix_cache.hit_tokens >= 4 * 48
    answered = [*requests[0].ids, *expected[0][1]]
    longer = Request((*answered, 3, 3), GREEDY)  # a conversation: what was read of its beginning is not read again
    engine = Engine(model, Letters(), prefixes=4)
    generate_all(engine, [requests[0]])
    read = read_by(model, lambda: generate_all(engine, [longer]))
    assert read == len(longer.ids) - len(requests[0].ids) + 23


def test_where_prompts_part_a_snapshot_is_taken() -> None:
    model, shared = built(), tuple((5 * i) % 29 for i in range(70))
    engine, requests = Engine(model, Letters(), prefixes=8, slots=1), [Request((*shared, *[own] * 40), GREEDY) for own in (1, 2, 3)]
    reads = [read_by(model, lambda request=request: generate_all(engine, [request])) for request in requests]
    assert reads == [110 + 23, 110 + 23, 110 + 23 - 64]  # the second tells where the first was left


@pytest.mark.parametrize("kinds", [("gru", "gru"), ("gru", "gpt"), ("gpt", "gru")])
@pytest.mark.parametrize("num_draft_tokens", [1, 4])
def test_speculative_decoding_with_a_recurrent_target_or_draft(kinds: tuple[str, str], num_draft_tokens: int) -> None:
    torch.manual_seed(1)
    gpt = GPTConfig(vocabulary=30, context=100, layers=2, heads=2, width=16).build().eval()
    target, draft = (built(place) if kind == "gru" else gpt for place, kind in enumerate(kinds))
    for request in REQUESTS[::4]:
        [expected] = plain(generate_all(Engine(target, Letters()), [request]))
        assert plain([speculate(target, draft, Letters(), request, num_draft_tokens=num_draft_tokens).answer])[0] == expected


def test_speculative_decoding_reads_little_twice() -> None:
    model, request = built(), Request((1, 2, 3), Sampling(max_new_tokens=200, ignore_end=True, temperature=0.0))
    helped = speculate(model, built(), Letters(), request, num_draft_tokens=4)
    assert helped.acceptance_rate == 1.0 and helped.target_steps == 40
    helper = built(5)
    read = read_by(model, lambda: speculate(model, helper, Letters(), request, num_draft_tokens=4))
    assert read <= 200 * 2 * 6 and helper.tokens_read <= 200 * 6  # in proportion to the answer


def test_beam_search_keeps_the_states_of_its_hypotheses() -> None:
    model, prompts = built(), [list(ids) for ids in PROMPTS[:4]]
    cached, again = (continuations(model, prompts, beam=Beam(4), longest=12, end=29, cached=cached) for cached in (True, False))
    for ours, expected in zip(cached, again, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in expected]
        assert [one.logprob for one in ours] == pytest.approx([one.logprob for one in expected], abs=1e-4)
    model.tokens_read = 0
    continuations(model, prompts, beam=Beam(4), longest=12)
    assert model.tokens_read <= sum(map(len, prompts)) + 4 * 4 * 12


def test_a_stream_is_the_answer_in_pieces() -> None:
    engine, request = Engine(built(), Letters()), Request((4, 5), GREEDY)
    number, texts = engine.add(request), []
    while True:
        delta = engine.step()[number]
        texts.append(delta.text)
        if delta.finish_reason:
            break
    assert len(texts) > 10 and "".join(texts) == generate_all(Engine(built(), Letters()), [request])[0].text


def test_a_row_goes_back_to_a_snapshot_only() -> None:
    runner = ModelRunner(built())
    runner.add_rows(2)
    runner.prefill([[1, 2, 3], [4]])
    assert runner.state is not None and not runner.state.can_truncate and runner.state.lengths == [3, 1]
    before = runner.state.tensors["h"].clone()  # type: ignore[attr-defined]
    mark = runner.snapshot(0)
    runner.prefill([[5, 6], []])
    with pytest.raises(CapabilityError, match="a recurrent state of 5 tokens cannot be cut to 3; restore a snapshot of them"):
        runner.state.truncate(0, 3)
    with pytest.raises(CapabilityError, match="knows its 5 tokens only, not the first 2"):
        runner.state.snapshot(0, 2)
    runner.rewind(0, 4, mark)
    assert runner.ids == [[1, 2, 3], [4]] and runner.state.lengths == [3, 1]
    assert torch.equal(runner.state.tensors["h"], before)  # type: ignore[attr-defined]
