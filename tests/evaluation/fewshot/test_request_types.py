"""The rules by which an answer is chosen, a word completed and a written answer judged."""

from __future__ import annotations

import pytest

from tests.evaluation.fewshot.conftest import bigram
from weft.evaluation.fewshot.metrics import first_number, last_number, same_text
from weft.evaluation.fewshot.request_types import GenerateUntil, LogLikelihood, MultipleChoice, written
from weft.evaluation.fewshot.scoring import Score, Scorer
from weft.evaluation.fewshot.templates import Item, Prompt, Template

ANSWERS = ("A", "B", "C", "D")
SCORES = [Score((-1.0,), True, 1), Score((-0.6, -0.6), False, 2), Score((-4.0,), False, 10), Score((-3.0,), False, 2)]
SINGLE_PROCESS = [Score((-0.5,), True, 1), Score((-1.2,), True, 2), Score((-4.0,), True, 10), Score((-9.0,), True, 2)]


@pytest.mark.parametrize(("rule", "said"), [("sum", "A"), ("token", "B"), ("byte", "C"), ("unconditional", "D")])
def test_every_rule_has_its_own_answer(rule: str, said: str) -> None:
    prompt = Prompt(Item({}, ANSWERS, ANSWERS.index(said)), "?")
    found = MultipleChoice(rule).outcome(prompt, SCORES, SINGLE_PROCESS)  # type: ignore[arg-type]
    assert found.said == said
    right = {name for name, value in found.statistics.items() if value == (1.0,)}
    assert right == {"accuracy", f"accuracy_{rule}"}


def test_the_likeliest_continuation_is_chosen() -> None:
    loaded = bigram("ab cd?")
    prompt = Template.parse("{question}{answer}").prompt(Item({"question": "ab"}, (" cd", " dc", "xx"), 0))
    [found] = MultipleChoice("token")(loaded, Scorer(loaded), [prompt])
    assert found.said == " cd"
    assert found.details["greedy"] == [True, False, False]
    [free] = MultipleChoice("unconditional", neutral="b")(loaded, Scorer(loaded), [prompt])
    assert free.details["scores"]["unconditional"] == pytest.approx([0.0] * 3, abs=1e-4)  # this model looks at one character only


def test_partial_evaluation_scores_what_follows() -> None:
    loaded = bigram("ab!")
    prompt = Template.parse("{answer}{ending}").prompt(Item({"ending": "b!"}, ("x", "a"), 1))
    [found] = MultipleChoice("sum", partial=True)(loaded, Scorer(loaded), [prompt])
    assert (found.said, found.statistics) == ("a", {"accuracy": (1.0,)})


def test_a_word_is_right_if_the_model_would_say_it() -> None:
    loaded = bigram("a b")
    prompts = [Template.parse("{context} {answer}").prompt(Item({"context": "a"}, (word,))) for word in ("b", "c")]
    right, wrong = LogLikelihood()(loaded, Scorer(loaded), prompts)
    assert (right.statistics["accuracy"], wrong.statistics["accuracy"]) == ((1.0,), (0.0,))
    assert right.statistics["perplexity"][0] == pytest.approx(0.0, abs=1e-4)
    assert wrong.statistics["perplexity"][0] > 10.0


def test_written_answers_end_where_they_should() -> None:
    loaded = bigram("Q: yes\n")
    prompt = Template.parse("{question} {answer}").prompt(Item({"question": "Q:"}, ("yes",), references=("Yes.", "no")))
    [found] = GenerateUntil(same_text)(loaded, Scorer(loaded), [prompt])
    assert (found.said, found.statistics) == ("yes", {"exact_match": (1.0,), "f1": (1.0,)})
    assert written(loaded, ["Q:"], 100, ("\n", "s"), Scorer(loaded)) == [" ye"]
    assert written(loaded, ["Q:"], 2, (), Scorer(loaded)) == [" y"]


def test_numbers_are_found() -> None:
    item = Item({}, ("",), references=("1450",))
    assert last_number("First 3, then 5.\n#### 1,450 eggs, or 7", item) == {"accuracy": (1.0,)}
    assert last_number("So 3 + 5 makes 1,450.", item) == {"accuracy": (1.0,)}
    assert last_number("no idea", item) == {"accuracy": (0.0,)}
    assert first_number(" 1450.0 and 3", item) == {"accuracy": (1.0,)}
    assert first_number("14", item) == {"accuracy": (0.0,)}
    assert first_number("-734", Item({}, ("",), references=("-734",))) == {"accuracy": (1.0,)}
