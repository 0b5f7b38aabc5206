from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from weft.core.errors import ConfigError
from weft.data.text import biographies as made
from weft.data.text.biographies import ALPHABET, BIRTH, OTHER, BiographiesConfig, biographies, names


def longest(words: str) -> str:
    return max(words.split(), key=len)


@given(st.integers(2, 60), st.integers(2, 700), st.integers(1, 128), st.integers(-(2**40), 2**40), st.sampled_from([0.0, 1.0]))
@settings(max_examples=20)
def test_every_document_names_the_person_twice_and_the_place(people: int, places: int, variants: int, seed: int, skew: float) -> None:
    lines, answers = biographies(people, places, seed, variants, skew)
    assert (len(lines), len(answers)) == (people * variants, people)
    assert len({name for name, _ in answers}) == people
    assert len(set(lines)) == len(lines)
    assert set("".join(lines)) <= set(ALPHABET)
    for number, line in enumerate(lines):
        name, place = answers[number // variants]
        assert len(line) <= 112
        assert line.count(name) == 2
        assert place in line[:70]
        assert line.count(". ") == 1 and line.endswith(".")


def test_no_document_can_be_too_long() -> None:
    name = f"{longest(made.FIRST)} A. {''.join(longest(part) for part in made.LAST)}"
    facts = made.draw_facts(name, max(made.PREFIXES, key=len) + longest(made.PLACES), [0.0] * 4)
    facts |= {"month": longest(made.MONTHS), "work": longest(made.WORK), "subject": longest(made.SUBJECTS)}
    first, second = (max(len(sentence.format_map(facts)) for sentence in kind) for kind in (BIRTH, OTHER))
    assert first + 1 + second <= 112
    assert len(BIRTH) * len(OTHER) == 128, "a power of two, or the variants of a person repeat themselves"


def test_the_seed_decides_everything() -> None:
    assert biographies(50, 100, 7) == biographies(50, 100, 7)
    first, second = biographies(50, 100, 7)[1], biographies(50, 100, 8)[1]
    assert not {name for name, _ in first} & {name for name, _ in second}
    assert biographies(20, 100, 0, variants=3)[1] == biographies(20, 100, 0)[1], "how much is told does not change the people"
    assert biographies(2, 5, 0, 2)[0][0] == "Cork is where Nora Malbist was born. Nora Malbist became a composer early."


def test_names_are_different_for_any_number_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(set(names(50_000, 1))) == 50_000
    monkeypatch.setattr(made, "FIRST", "Ada Ben")
    monkeypatch.setattr(made, "LAST", ("Al Bar", "a e", "ck n"))
    few = names(16 * 27, 0)
    assert len(set(few)) == 16 * 27
    assert sum("." in name for name in few) == 16 * 26
    with pytest.raises(ConfigError, match="people must be from 2 to 432, not 433"):
        names(16 * 27 + 1, 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_place_is_a_good_guess(seed: int) -> None:
    train, evaluation = BiographiesConfig(seed=seed).questions()
    commonest = Counter(place for _, place in train).most_common(1)[0][0]
    assert sum(place == commonest for _, place in evaluation) / len(evaluation) <= 0.03
    assert len({place for _, place in train + evaluation}) >= 95
    uneven = Counter(place for _, place in biographies(5000, 100, seed, 1, skew=1.0)[1]).most_common()
    assert uneven[0][1] > 10 * uneven[-1][1]


def test_half_of_the_people_are_asked_about_and_all_are_described() -> None:
    config = BiographiesConfig(people=41, variants=2)
    train, evaluation = config.questions()
    assert (len(train), len(evaluation)) == (20, 21)
    text = config.text()
    assert text.count("\n") == 82
    answers = dict(biographies(41, 100, 0)[1])
    for question, place in train + evaluation:
        name = question.removeprefix("Where was ").removesuffix(" born?")
        assert answers.pop(name) == place
        assert name in text
        assert set(question + place) <= set(ALPHABET)
    assert not answers


@pytest.mark.parametrize(
    "wrong",
    [{"people": 1}, {"people": 10**9}, {"places": 1}, {"places": 10**4}, {"variants": 0}, {"variants": 129}, {"skew": float("nan")}],
)
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.biographies.{next(iter(wrong))} must be from"):
        BiographiesConfig(**wrong).text()  # type: ignore[arg-type]
