"""Documents say what results/ say, and the README names only what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from weft.__main__ import VERBS
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
