"""Beam search against brute force, and what its hypotheses promise."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from weft.errors import ConfigError
from weft.generation.beam import Hypothesis, penalty, search, translate
from weft.models.transformer import TransformerConfig

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


def brute_force(logits: Tensor, row: int, longest: int, alpha: float) -> list[Hypothesis]:
    score, found = scorer(logits), []
    for length in range(1, longest + 1):
        for ids in itertools.product(range(V), repeat=length):
            if END in ids[:-1] or (ids[-1] != END and length < longest):
                continue
            total = sum(
                float(score(torch.tensor([[START, *ids[:i]]]), torch.tensor([row])).log_softmax(-1)[0, ids[i]]) for i in range(length)
            )
            found.append(Hypothesis(list(ids), total, total / penalty(length, alpha)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_wide_beam_is_brute_force(seed: int, alpha: float) -> None:
    logits, longest = table(seed), 4
    found = search(scorer(logits), 2, START, END, beams=V**longest, longest=longest, alpha=alpha)
    for row in range(2):
        expected = brute_force(logits, row, longest, alpha)
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
        assert best[0].log_probability == pytest.approx(total, abs=1e-5)
    assert logits.shape[0] == 2


@pytest.mark.parametrize("beams", [1, 2, 5])
def test_stopping_early_changes_nothing(beams: int) -> None:
    """The same as searching on to the end, which a search that never settles does."""
    for seed in range(6):
        score = scorer(table(seed))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.generation.beam.settled", lambda *_: False)
            whole = search(score, 2, START, END, beams=beams, longest=7)
        assert [row[0].ids for row in search(score, 2, START, END, beams=beams, longest=7)] == [row[0].ids for row in whole]


@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 3])
def test_a_translation_does_not_depend_on_its_batch(beams: int) -> None:
    torch.manual_seed(0)
    model = TransformerConfig(vocabulary=20, context=24, layers=2, heads=2, width=16).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    source, lengths = torch.randint(3, 20, (6, 9)), torch.tensor([9, 1, 4, 7, 2, 9])
    whole = translate(model, source, lengths, 1, 2, beams=beams, longest=12)
    for row in range(6):
        cut = int(lengths[row])
        alone = translate(model, source[row : row + 1, :cut], lengths[row : row + 1], 1, 2, beams=beams, longest=12)[0]
        assert [h.ids for h in alone] == [h.ids for h in whole[row]]
        for hypothesis in alone:
            logits = model(source[row : row + 1, :cut], None, torch.tensor([[1, *hypothesis.ids[:-1]]])).log_softmax(-1)[0]
            total = float(logits[torch.arange(len(hypothesis.ids)), hypothesis.ids].sum())
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="at least one beam"):
        search(scorer(table(0)), 1, START, END, beams=0, longest=3)


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
        best = search(spelled(chances, alphabet), 1, 0, 1, beams=beams, longest=3, alpha=0.0)[0][0]
        assert "".join(alphabet[i] for i in best.ids) == f"{word}."
        assert best.log_probability == pytest.approx(math.log(chance), abs=1e-5)


def test_a_tree_where_the_first_step_misleads() -> None:
    steps = {"": 0.6, "A": 0.4, "B": 0.1, "AA": 0.4, "AB": 0.4, "BA": 0.4, "BB": 0.1}  # the probability of A after each prefix
    chances = {
        a + b + c: abs((a == "B") - steps[""]) * abs((b == "B") - steps[a]) * abs((c == "B") - steps[a + b])
        for a, b, c in itertools.product("AB", repeat=3)
    }
    assert sum(chances.values()) == pytest.approx(1.0)
    for beams, word, chance in ((1, "ABB", 0.216), (2, "BBB", 0.324), (8, "BBB", 0.324)):
        best = search(spelled(chances, " .AB"), 1, 0, 1, beams=beams, longest=4, alpha=0.0)[0][0]
        assert "".join(" .AB"[i] for i in best.ids) == f"{word}."
        assert best.log_probability == pytest.approx(math.log(chance), abs=1e-5)
