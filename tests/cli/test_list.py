"""`weft`, `weft list` and what an unknown verb is answered with."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from tests.cli.conftest import Outcome
from weft.cli.begin import have
from weft.cli.begin.front import GROUPS, MEANT, VERBS, unknown
from weft.core import registry


@pytest.mark.parametrize("words", [[], ["list"]])
def test_the_first_pages_lead_from_what_one_has_to_a_command(command: Callable[..., Outcome], words: list[str]) -> None:
    said = command(*words).out
    for kind in have.HAVE.values():
        assert kind.what in said
        assert not kind.ways or f"weft {kind.ways[0][0]}" in said
    assert "weft list recipes" in said or not words
    assert len(said.splitlines()) <= 50
    assert max(map(len, said.splitlines())) <= 160


def test_the_commands_for_what_one_has_name_what_exists() -> None:
    for kind in have.HAVE.values():
        for line, _ in kind.ways:
            verb, *rest = shlex.split(line)
            assert verb in VERBS
            assert verb != "train" or rest[0] in registry.RECIPES
        for begun in kind.recipes:
            assert any(name.startswith(begun) for name in registry.RECIPES), begun


def test_a_word_shows_what_there_is_about_it(command: Callable[..., Outcome]) -> None:
    def names(*words: str) -> set[str]:
        return {line.split()[0] for line in command("list", *words).out.splitlines() if line.startswith("  ")} & set(registry.RECIPES)

    assert names("gpt") == {name for name in registry.RECIPES if name.startswith("gpt/")}
    assert {"classifier/images", "vit/images", "vae/digits", "dcgan/images"} <= names("images") == names("pictures")
    assert not {name for name in names("images") if name.startswith(("gpt/", "bert/"))}
    assert {"bert/squad", "bert/answers"} <= names("spans")
    assert "muon" in command("list", "muon").out
    assert "weft train classifier/images" in command("list", "images").out
    assert names("recipes") == set(registry.RECIPES)


def test_what_nothing_is_about_is_refused(command: Callable[..., Outcome]) -> None:
    found = command("list", "imagse")
    assert (found.code, found.err) == (2, "weft: nothing is listed about 'imagse'; did you mean 'images'?\n")


@pytest.mark.parametrize(
    ("word", "said"),
    [("chat", "weft serve is: "), ("generate", "weft sample is: "), ("eval", "weft evaluate is: "), ("gpt/text", "weft train gpt/text")],
)
def test_a_word_of_other_programs_is_answered_with_the_verb(command: Callable[..., Outcome], word: str, said: str) -> None:
    found = command(word)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_nothing_unrelated_is_suggested() -> None:
    for word in ("xyzzy", "quux", "blah", "jump"):
        assert "did you mean" not in unknown(word)
    assert not set(MEANT) & set(VERBS)
    assert {name for names in GROUPS.values() for name in names} >= set(VERBS)


def test_help_of_a_verb_by_either_order(command: Callable[..., Outcome]) -> None:
    assert command("help", "list").out == command("list", "--help").out
