"""`weft report`: one page for a run, one page for several."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Outcome


def test_a_run_becomes_a_page_with_samples(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    done = command("report", str(text_run), "--out", str(tmp_path / "page.html"))
    assert done.code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Text written after step" in page
    assert "weft train gpt/text" in page
    assert "Text written" not in _page(command, text_run, tmp_path, "--no-samples")


def _page(command: Callable[..., Outcome], run: Path, folder: Path, *words: str) -> str:
    assert command("report", str(run), "--out", str(folder / "other.html"), *words).code == 0
    return (folder / "other.html").read_text()


def test_several_runs_are_compared(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    shutil.copytree(text_run, other)
    recipe = (other / "recipe.json").read_text()
    (other / "recipe.json").write_text(recipe.replace('"width": 16', '"width": 24'))
    done = command("report", str(text_run), str(other), "--out", str(tmp_path / "both.html"))
    assert done.code == 0
    page = (tmp_path / "both.html").read_text()
    assert "Comparison of 2 runs" in page
    assert "model.width" in page


def test_a_folder_without_a_run_is_one_line(command: Callable[..., Outcome], tmp_path: Path) -> None:
    done = command("report", str(tmp_path))
    assert done.code == 1
    assert "no run here" in done.err
