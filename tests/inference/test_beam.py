"""Beam search against brute force, and what its hypotheses promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.inference.attention_weights import Recorder
from weft.inference.beam import Beam, Hypothesis, finish, penalty, search, searching
from weft.inference.beam_models import continuations, translate, translating
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.models.language.gpt import GPTConfig
from weft.models.language.transformer import TransformerConfig

V, END, START = 4, 1, 0


def table(seed: int) -> Tensor:
    """Logits of what follows each of the first prefixes, one per row: a model without structure."""
    return torch.randn(2, 4000, V, generator=torch.Generator().manual_seed(seed)) * 2


def scorer(logits: Tensor):  # type: ignore[no-untyped-def]
    def score(ids: Tensor, row: Tensor, origin: Tensor | None = None) -> Tensor:
        place = torch.zeros(len(ids), dtype=torch.int64)
        for column in ids.T:
            place = (place * (V + 1) + column + 1) % logits.size(1)
        return logits[row, place]

    return score


def brute_force(logits: Tensor, row: int, longest: int, length_penalty: float) -> list[Hypothesis]:
    score, found = scorer(logits), []
    for length in range(1, longest + 1):
        for ids in itertools.product(range(V), repeat=length):
            if END in ids[:-1] or (ids[-1] != END and length < longest):
                continue
            total = sum(
                float(score(torch.tensor([[START, *ids[:i]]]), torch.tensor([row])).log_softmax(-1)[0, ids[i]]) for i in range(length)
            )
            found.append(Hypothesis(list(ids), total, total / penalty(length, length_penalty)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_is_brute_force(seed: int, length_penalty: float) -> None:
    logits, longest = table(seed), 4
    found = search(scorer(logits), 2, START, END, beams=V**longest, longest=longest, length_penalty=length_penalty)
    for row in range(2):
        expected = brute_force(logits, row, longest, length_penalty)
        assert [h.ids for h in found[row][:10]] == [h.ids for h in expected[:10]]
        assert found[row][0].score == pytest.approx(expected[0].score, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy_and_scores_are_log_probabilities(seed: int) -> None:
    logits, score = table(seed), scorer(table(seed))
    for row, best in enumerate(search(score, 2, START, END, beams=1, longest=6)):
        ids, total = [START], 0.0
        while len(ids) <= 6 and ids[-1] != END:
            following = score(torch.tensor([ids]), torch.tensor([row])).log_softmax(-1)[0]
            total += float(following.max())
            ids.append(int(following.argmax()))
        assert best[0].ids == ids[1:]
        assert best[0].logprob == pytest.approx(total, abs=1e-5)
    assert logits.shape[0] == 2


@pytest.mark.parametrize("beams", [1, 2, 5])
def test_stopping_early_changes_nothing(beams: int) -> None:
    """The same as searching on to the end, which a search that never settles does."""
    for seed in range(6):
        score = scorer(table(seed))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.inference.beam.finished", lambda *_: False)
            whole = search(score, 2, START, END, beams=beams, longest=7)
        found = search(score, 2, START, END, beams=beams, longest=7)
        assert [[one.ids for one in row] for row in found] == [[one.ids for one in row] for row in whole]


def translator() -> nn.Module:
    torch.manual_seed(0)
    model = TransformerConfig(vocabulary=20, context=24, layers=2, heads=2, width=16).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 3])
def test_a_translation_does_not_depend_on_its_batch(beams: int) -> None:
    model = translator()
    source, lengths = torch.randint(3, 20, (6, 9)), torch.tensor([9, 1, 4, 7, 2, 9])
    whole = translate(model, source, lengths, 1, 2, beams=beams, longest=12)
    for row in range(6):
        cut = int(lengths[row])
        alone = translate(model, source[row : row + 1, :cut], lengths[row : row + 1], 1, 2, beams=beams, longest=12)[0]
        assert [h.ids for h in alone] == [h.ids for h in whole[row]]
        for hypothesis in alone:
            logits = model(source[row : row + 1, :cut], None, torch.tensor([[1, *hypothesis.ids[:-1]]])).log_softmax(-1)[0]
            total = float(logits[torch.arange(len(hypothesis.ids)), hypothesis.ids].sum())
            assert hypothesis.logprob == pytest.approx(total, abs=1e-5)


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="at least one beam"):
        search(scorer(table(0)), 1, START, END, beams=0, longest=3)
    with pytest.raises(ConfigError, match="at least one token"):
        search(scorer(table(0)), 1, START, END, beams=1, longest=0)
    with pytest.raises(ConfigError, match=r"length_penalty \(alpha\) must be at least 0"):  # for which the bound would not hold
        search(scorer(table(0)), 1, START, END, beams=1, longest=3, length_penalty=-1)


def unread(ids: list[int], row: int) -> float:
    """A made-up coverage: what a sequence left unread of its row."""
    return -float((sum((i + 2) * token for i, token in enumerate(ids)) + row) % 7)


@pytest.mark.parametrize("beams", [2, V**4])
def test_coverage_counts_and_stopping_early_still_changes_nothing(beams: int) -> None:
    def cover(sequences: Sequence[Sequence[int]], rows: Sequence[int]) -> list[float]:
        return [unread(list(ids), row) for ids, row in zip(sequences, rows, strict=True)]

    for seed in range(4):
        logits, beam = table(seed), Beam(beams, 0.6, coverage_penalty=0.5)

        def found(logits: Tensor = logits, beam: Beam = beam) -> list[list[Hypothesis]]:
            return finish(searching(scorer(logits), torch.full((2,), START), END, beam, 4, cover))

        early = found()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.inference.beam.finished", lambda *_: False)
            assert found() == early
        if beams > 2:
            for row in range(2):
                every = brute_force(logits, row, 4, 0.6)
                best = sorted(every, key=lambda one: -one.score - 0.5 * unread(one.ids, row))
                assert [one.ids for one in early[row][:5]] == [one.ids for one in best[:5]]


@torch.no_grad()
def test_coverage_is_the_attention_that_each_source_token_got() -> None:
    model = translator()
    source, lengths = torch.randint(3, 20, (3, 7)), torch.tensor([7, 3, 5])
    plain = translate(model, source, lengths, 1, 2, beams=4, longest=8)
    for row, best in enumerate(translate(model, source, lengths, 1, 2, beams=4, longest=8, coverage_penalty=2.0)):
        cut = int(lengths[row])
        for one in best:
            with Recorder(model) as recorder:
                model.decode(torch.tensor([[1, *one.ids[:-1]]]), model.encode(source[row : row + 1, :cut]))
            cross = torch.stack(recorder.of(["decoder.0.cross", "decoder.1.cross"]))  # (L, 1, H, T, S)
            covered = float(cross.mean((0, 1, 2)).sum(0).clamp(max=1).log().sum())
            assert one.score == pytest.approx(one.logprob / penalty(len(one.ids), 0.6) + 2.0 * covered, abs=1e-4)
    assert all(one.score == pytest.approx(one.logprob / penalty(len(one.ids), 0.6)) for best in plain for one in best)


@torch.no_grad()
@pytest.mark.parametrize("cached", [True, False])
def test_continuations_do_not_depend_on_their_batch_and_scores_are_log_probabilities(cached: bool) -> None:
    model = GPTConfig(vocabulary=20, context=12, layers=2, heads=2, width=16).build().eval()
    for parameter in model.parameters():
        parameter.mul_(2.0)
    prompts = [[3], [4, 5, 6, 7], [8, 9], [3, 3, 3, 3, 3, 3]]
    beam, settings = Beam(3, 0.6), {"longest": 6, "end": 2, "vocabulary": 18}
    whole = continuations(model, prompts, beam=beam, cached=cached, **settings)
    for prompt, best in zip(prompts, whole, strict=True):
        [alone] = continuations(model, [prompt], beam=beam, cached=not cached, **settings)
        assert [one.ids for one in alone] == [one.ids for one in best]
        assert len(best) == 3
        for one in best:
            logits = model(torch.tensor([[*prompt, *one.ids[:-1]]]))[0, len(prompt) - 1 :, :18].log_softmax(-1)
            assert one.logprob == pytest.approx(float(logits[torch.arange(len(one.ids)), one.ids].sum()), abs=1e-5)
    [greedy] = continuations(model, [[3]], beam=Beam(1), **settings)
    engine = Engine(model, SimpleNamespace(size=18, decode=lambda ids: " ".join(map(str, ids)), special_tokens={"end": 2}))
    [answer] = generate_all(engine, [Request((3,), Sampling(max_new_tokens=6, temperature=0))])
    assert greedy[0].ids == [token.id for token in answer.tokens]


def test_prompts_that_cannot_be_continued() -> None:
    model = GPTConfig(vocabulary=20, context=12, layers=1, heads=2, width=16).build().eval()
    with pytest.raises(ConfigError, match="at least one token each"):
        continuations(model, [[]], beam=Beam(2), longest=3)
    with pytest.raises(ConfigError, match="has none"):
        continuations(model, [[3]], beam=Beam(2, coverage_penalty=1.0), longest=3)


def test_a_search_can_be_paused() -> None:
    model = translator()
    source, lengths = torch.randint(3, 20, (2, 5)), torch.tensor([5, 2])
    steps, seen = translating(model, source, lengths, 1, 2, Beam(2), 6), 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            assert ended.value == translate(model, source, lengths, 1, 2, beams=2, longest=6)
            break
        seen += 1
        assert not torch.is_inference_mode_enabled()
    assert 0 < seen < 6


def spelled(chances: dict[str, float], alphabet: str):  # type: ignore[no-untyped-def]
    """Scores of the next letter, END being the letter "." and START " ", where whole words have these probabilities."""

    def score(ids: Tensor, row: Tensor, origin: Tensor | None = None) -> Tensor:
        rows = []
        for prefix in ("".join(alphabet[i] for i in found[1:]) for found in ids.tolist()):
            total = sum(p for word, p in chances.items() if f"{word}.".startswith(prefix))
            after = {letter: sum(p for word, p in chances.items() if f"{word}.".startswith(prefix + letter)) for letter in alphabet}
            rows.append([after[letter] / total if total else 1 / len(alphabet) for letter in alphabet])
        return torch.tensor(rows, dtype=torch.float64).log()

    return score


def test_the_likeliest_word_is_not_the_one_of_likeliest_letters() -> None:
    chances = {"苹果": 0.45, "大象": 0.1, "大人": 0.08, "大妈": 0.12, "大便": 0.05, "大军": 0.05, "大米": 0.08, "大姐": 0.07}
    alphabet = " ." + "".join(sorted({letter for word in chances for letter in word}))
    for beams, word, chance in ((1, "大妈", 0.12), (2, "苹果", 0.45)):
        best = search(spelled(chances, alphabet), 1, 0, 1, beams=beams, longest=3, length_penalty=0.0)[0][0]
        assert "".join(alphabet[i] for i in best.ids) == f"{word}."
        assert best.logprob == pytest.approx(math.log(chance), abs=1e-5)


def test_a_tree_where_the_first_step_misleads() -> None:
    steps = {"": 0.6, "A": 0.4, "B": 0.1, "AA": 0.4, "AB": 0.4, "BA": 0.4, "BB": 0.1}  # the probability of A after each prefix
    chances = {
        a + b + c: abs((a == "B") - steps[""]) * abs((b == "B") - steps[a]) * abs((c == "B") - steps[a + b])
        for a, b, c in itertools.product("AB", repeat=3)
    }
    assert sum(chances.values()) == pytest.approx(1.0)
    for beams, word, chance in ((1, "ABB", 0.216), (2, "BBB", 0.324), (8, "BBB", 0.324)):
        best = search(spelled(chances, " .AB"), 1, 0, 1, beams=beams, longest=4, length_penalty=0.0)[0][0]
        assert "".join(" .AB"[i] for i in best.ids) == f"{word}."
        assert best.logprob == pytest.approx(math.log(chance), abs=1e-5)
