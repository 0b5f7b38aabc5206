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

from reliability.blocks import Command, commands
from reliability.documents import documents, resolve
from reliability.newcomer import make_data, typed
from weft.cli.begin.front import VERBS
from weft.cli.begin.look import look
from weft.core import config, registry
from weft.core.errors import WeftError
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


def documented() -> list[Command]:
    return [command for path in documents() for command in commands(path) if command.words]


@pytest.mark.parametrize("document", sorted({command.place.partition(":")[0] for command in documented()}))
def test_every_documented_command_resolves(document: str) -> None:
    """As typed: verb, recipe, flags and the kinds of their values."""
    for command in documented():
        if command.place.startswith(f"{document}:"):
            try:
                resolve(command.words)
            except WeftError as error:
                pytest.fail(f"{command.place}: {command.line}: {error}")


@pytest.mark.parametrize(
    "line",
    [
        "weft trian gpt/text",
        "weft train gpt/texts",
        "weft train gpt/text --model.widht 3",
        "weft train gpt/text --model.width three",
        "weft sample runs/gpt-text --temprature 3",
        "weft evaluate runs/gpt-text --data.pth x",
        "weft evaluate",
        "weft data build x --outt y",
        "weft plan gpt3-175b --gpu 3",
        "weft list imagse",
        "weft study flow-costs",
        "weft serve runs/a --prt 3",
    ],
)
def test_a_command_that_does_not_work_is_noticed(line: str) -> None:
    with pytest.raises(WeftError):
        resolve(Command("here", line).words)


def test_commands_are_found_as_they_are_typed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "weft train not/this\n```\nweft train a \\\n   --b 'c # d'   # why\n"
        "A=1 torchrun -m weft train x && weft list\nweft train …\n$ ./weft list &\n```\n"
    )
    found = commands(tmp_path / "a.md")
    assert [command.line for command in found] == [
        "weft train a     --b 'c # d'",
        "A=1 torchrun -m weft train x",
        "weft list",
        "./weft list",
    ]
    assert [command.words[1:] for command in found] == [["train", "a", "--b", "c # d"], ["train", "x"], ["list"], ["list"]]


def test_the_newcomer_types_the_readme() -> None:
    lines = [*typed(ROOT / "README.md")]
    assert lines[0] == "make run"
    assert lines.index("source .venv/bin/activate") < lines.index("weft train gpt/text --data.path my.txt")
    assert any(line.startswith("python - <<") and "weft.train(" in line for line in lines)
    names = {
        word for line in lines for word in line.split() if word.endswith((".txt", ".tsv", "/")) and not word.startswith(("runs", "shards"))
    }
    assert names == {"my.txt", "other.txt", "photos/", "rows.tsv", "texts/"}


def test_the_newcomer_has_data_for_what_is_typed(tmp_path: Path) -> None:
    make_data(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"my.txt", "other.txt", "photos", "rows.tsv", "texts"}
    for path, kind in (("my.txt", "gpt/text"), ("photos", "classifier/images"), ("rows.tsv", "classifier/table")):
        assert look(str(tmp_path / path)).recipe == kind


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
    "src/weft/benchmarks/training/nanogpt.py": {"model.py"},
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
