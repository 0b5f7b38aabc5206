"""The notebooks in examples/ are committed as executed, whole and small; `make demos` executes them again."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_of(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_are_three_which_the_guide_names() -> None:
    assert {path.name for path in NOTEBOOKS} == set(re.findall(r"`(\w+\.ipynb)`", (ROOT / "docs" / "python.md").read_text()))
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_executed_from_top_to_bottom_without_an_error(path: Path) -> None:
    cells = code_of(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs), "there is something to look at"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_says_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text()
    assert len(text) < 300_000
    assert not re.search(r"/(tmp|home|root|work|Users)/", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_settings_in_a_notebook_are_those_of_its_recipes(path: Path) -> None:
    """So that a setting that is renamed is noticed here, and not in the demos."""
    import weft

    made = 0
    for cell in code_of(path):
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "weft.recipe":
                name, changes = ast.literal_eval(node.args[0]), node.args[1]
                assert isinstance(changes, ast.Dict)
                values = [value if isinstance(value, (ast.Constant, ast.List)) else ast.Constant("text") for value in changes.values]
                weft.recipe(name, {ast.literal_eval(k): ast.literal_eval(v) for k, v in zip(changes.keys, values, strict=True) if k})
                made += 1
    assert made
