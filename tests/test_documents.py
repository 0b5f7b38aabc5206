"""Documents say what results/ say, and the README names only what exists."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.front import VERBS
from weft.core import config, registry
from weft.recipes.base import recipe

ROOT = Path(__file__).resolve().parent.parent


def test_tables_are_generated_from_the_results() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_is_short_and_its_commands_exist() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    commands = re.findall(r"^weft (\S+)(?: (\S+))?", text, flags=re.MULTILINE)
    assert {verb for verb, _ in commands} <= VERBS.keys()
    assert all(name in registry.RECIPES for verb, name in commands if verb == "train")


def test_the_settings_that_a_foreign_format_needs_are_flags_that_work() -> None:
    for family, said in re.findall(r"^\| `(\w+)`.* with (.*) \|$", (ROOT / "docs" / "verbs.md").read_text(), flags=re.MULTILINE):
        default = recipe(next(name for name in registry.RECIPES if name.startswith(f"{family}/")))
        free, flags = config.separate(" ".join(re.findall("`(.*?)`", said)).split(), default)
        assert not free, said
        assert config.parse_flags(flags, default)


def symbols() -> list[str]:
    lines = (ROOT / "docs" / "architecture.md").read_text().partition("## Where is")[2].splitlines()
    return [line.split("`")[1] for line in lines if line.startswith("| ") and "`" in line]


@pytest.mark.parametrize("symbol", symbols())
def test_every_answer_of_the_architecture_names_a_symbol(symbol: str) -> None:
    module, _, path = symbol.partition(":")
    found = importlib.import_module(module)
    for name in path.split(".") if path else ():
        found = getattr(found, name)


def test_the_architecture_answers_more_than_twenty_questions() -> None:
    assert len(symbols()) >= 24
