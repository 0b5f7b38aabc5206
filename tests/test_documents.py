"""Documents say what results/ say, and the README names only what exists."""

from __future__ import annotations

import importlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

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


EXAMPLES = {
    "docs/add-a-family.md": {
        *(f"mixture/{name}.py" for name in ("data", "family", "model", "objective", "recipes")),
        *("model.py", "objective.py", "tests/test_mixture.py"),
    },
    "src/weft/benchmarks/nanogpt.py": {"model.py"},
    "src/weft/kernels/c/cpu_decode_step.py": {"kernels.c"},
}
"""Files that a document or a docstring names as an example, of another project, or as what will be written."""
NAMED = re.compile(r"(?<![\w/.*-])(?:\.\./)*((?:[\w.-]+/)*[\w-]+\.(?:py|cu|c|md))(?![\w*])")


def prose(path: Path) -> str:
    """A document, the comments and docstrings of a module, or the comments of C and CUDA."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return "\n".join(t.string for t in tokens if t.type == tokenize.COMMENT or t.string.lstrip("rR").startswith('"""'))
    return text if path.suffix == ".md" else "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", text, flags=re.DOTALL))


def test_every_file_that_is_named_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = listed or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    ends = {"/".join(parts[start:]) for parts in (file.split("/") for file in files) for start in range(len(parts))}
    own = [file for file in files if file.startswith(("docs/", "src/")) and file.endswith((".md", ".py", ".c", ".cu", ".h"))]
    missing = [
        (file, name)
        for file in ["README.md", "CONTRIBUTING.md", *own]
        for name in NAMED.findall(prose(ROOT / file))
        if name not in ends and name not in EXAMPLES.get(file, ())
    ]
    assert len(own) > 300 and missing == []
