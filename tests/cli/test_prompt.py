"""`weft prompt`: a template, worked examples, and what a model answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "translate.txt"
    path.write_text("Translate English to German:\n---\n{source} => {answer}\n---\n{source} => {answer}\n")
    rows = [{"source": word, "answer": other} for word, other in (("cheese", "Käse"), ("house", "Haus"), ("tree", "Baum"))]
    (tmp_path / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_template_with_and_without_examples(command: Command, template: Path) -> None:
    assert command("prompt", str(template), "source=cheese").out == "Translate English to German:\ncheese =>\n"
    words = ["prompt", str(template), "source=cheese", "--examples", str(template.parent / "words.jsonl"), "--shots", "2"]
    done = command(*words)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "Translate English to German:"
    assert sorted(lines[1:3]) == ["house => Haus", "tree => Baum"]  # never the question itself
    assert lines[3] == "cheese =>"
    assert command(*words).out == done.out


def test_a_model_is_asked(command: Command, text_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "fox.txt"
    path.write_text("the {animal}{answer}")
    done = command("prompt", str(path), "animal=fox", "--ask", str(text_run), "--max-new-tokens", "5", "--until", "")
    assert done.code == 0, done.err
    assert done.out.startswith("the fox")
    assert len(done.out) == len("the fox") + 5 + 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["source"], "expected NAME=VALUE"),
        ([], "the field {source} has no value; give it one as source=…"),
        (["sorce=x"], "did you mean 'sorce'"),
        (["source=x", "target=y"], "has no field {target}"),
        (["source=x", "--shots", "2"], "need both"),
        (["source=x", "--examples", "words.jsonl"], "need both"),
        (["source=cheese", "--examples", "words.jsonl", "--shots", "3"], "only 2 other records"),
        (["source=x", "--examples", "nowhere.jsonl", "--shots", "1"], "nowhere.jsonl"),
    ],
)
def test_what_is_refused(command: Command, template: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(template.parent)
    done = command("prompt", str(template), *words)
    assert done.code in (1, 2)
    assert said in done.err
    assert done.err.startswith("weft: ")


def test_a_template_that_is_not_there(command: Command) -> None:
    assert "there is no such file" in command("prompt", "nowhere.txt").err
