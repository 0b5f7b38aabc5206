"""Scores of continuations: the model's own log-probabilities, whatever the batch, the padding and the length."""

from __future__ import annotations

import pytest
import torch

from tests.evaluation.fewshot.conftest import CONFIGS, CONTEXT, bigram, tiny
from weft.core.errors import CapabilityError, DataError
from weft.data.tokenizers.base import WordTokenizer
from weft.evaluation.fewshot import scoring
from weft.evaluation.fewshot.scoring import Scorer
from weft.runs.load import Loaded

PAIRS = [("a", "b"), ("The quick brown fox", " jumps"), ("The quick", " brown fox jumps over it"), ("xy", "z"), ("a", "c"), ("", "start")]


def by_hand(loaded: Loaded, before: bytes, after: bytes) -> list[float]:
    """Log-probabilities from the logits of one whole text."""
    ids = torch.tensor([list(before + after)])
    with torch.no_grad():
        logprobs = loaded(ids[:, :-1])[0].log_softmax(-1)
    return [float(logprobs[place - 1, ids[0, place]]) for place in range(len(before), len(before + after))]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_scores_are_those_of_single_texts_in_any_batch(name: str, batch: int) -> None:
    loaded = tiny(name)
    found = Scorer(loaded, batch).score(PAIRS)
    for (context, continuation), score in zip(PAIRS, found, strict=True):
        alone = Scorer(loaded, 1).score([(context, continuation)])[0]
        assert score.logprobs == pytest.approx(by_hand(loaded, context.encode() or b"\n", continuation.encode()), abs=1e-5)
        assert score.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
        assert (score.greedy, score.truncated_tokens, score.bytes) == (alone.greedy, 0, len(continuation.lstrip().encode()))


def test_lengths_divide_the_sum() -> None:
    score = Scorer(tiny()).score([("ab", "né")])[0]
    assert (len(score.logprobs), score.bytes) == (3, 3)
    assert score.per_token == pytest.approx(score.logprob / 3) == pytest.approx(score.per_byte)


@pytest.mark.parametrize("name", CONFIGS)
def test_long_contexts_lose_their_beginning(name: str) -> None:
    loaded = tiny(name)
    text = bytes(range(65, 91)).decode() * 4
    seen = text[-(CONTEXT + 1 - 5) :]
    long, short = Scorer(loaded).score([(text, "12345"), (seen, "12345")])
    assert long.logprobs == pytest.approx(short.logprobs, abs=1e-5)
    assert (long.truncated_tokens, short.truncated_tokens) == (len(text) - len(seen), 0)


def test_a_continuation_longer_than_the_context_is_scored_once_each_in_full_windows() -> None:
    loaded = tiny()
    text = bytes(1 + place % 250 for place in range(2 * CONTEXT + 10))
    score = Scorer(loaded).score_tokens([((0,), tuple(text))])[0]
    whole = b"\0" + text
    expected = by_hand(loaded, whole[:1], whole[1 : CONTEXT + 1])
    expected += by_hand(loaded, whole[CONTEXT : CONTEXT + 1], whole[CONTEXT + 1 : 2 * CONTEXT + 1])
    expected += by_hand(loaded, whole[-CONTEXT - 1 : -10], whole[-10:])  # the last window is full
    assert score.logprobs == pytest.approx(expected, abs=1e-5)


def test_greedy_says_what_the_model_would_write() -> None:
    scorer = Scorer(bigram("abcd"))
    assert [score.greedy for score in scorer.score([("a", "bcda"), ("a", "bcdb"), ("a", "cd"), ("d", "a")])] == [True, False, False, True]
    assert scorer.score([("a", "bc")])[0].logprob == pytest.approx(0.0, abs=1e-5)


def test_answers_of_one_token_to_a_question_take_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    filled = scoring.filled
    monkeypatch.setattr(scoring, "filled", lambda rows: sizes.append(len(rows)) or filled(rows))
    found = Scorer(tiny()).score([("question", "A"), ("question", "B"), ("question", "C"), ("other", "A")])
    assert sizes == [2]
    assert len({score.logprob for score in found}) == 4


def test_long_rows_are_few_together() -> None:
    rows = [(1,) * 9000, (1,) * 8000, *[(1,) * 100] * 5]
    assert [len(batch) for batch in scoring.batches(rows, 4)] == [1, 2, 4]


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    Scorer(tiny(), 2, lambda done, total: seen.append((done, total))).score(PAIRS)
    assert seen[-1] == (len(PAIRS), len(PAIRS))


def test_what_cannot_be_scored_is_said() -> None:
    loaded = tiny()
    with pytest.raises(DataError, match="at least one token"):
        Scorer(loaded).score([("a", "")])
    loaded.tokenizer = None
    with pytest.raises(CapabilityError, match="no tokenizer"):
        Scorer(loaded)


def test_a_cut_inside_a_token_leaves_the_context_as_it_is() -> None:
    """Words as tokens: "foot" and "ball" are not the beginning and end of "football"."""
    loaded = tiny()
    loaded.tokenizer = WordTokenizer(["<unk>", "foot", "ball", "football"])
    assert Scorer(loaded).pair("foot", "ball") == ((1,), (2,))
    assert Scorer(loaded).pair("foot", " ball") == ((1,), (2,))
