"""`weft report`: one page for a run, one page for several."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_a_damaged_recipe_is_taken_from_the_newest_checkpoint(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(text_run, folder)
    (folder / "recipe.json").write_text("")
    done = command("report", str(folder), "--no-samples")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("words", ["evaluate RUN --out", "report RUN --out", "sample RUN the --out", "plan gpt2 --json"])
def test_a_folder_in_the_place_of_a_file_is_refused(
    command: Callable[..., Outcome], text_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", str(tmp_path)):
        done = command(*words.replace("RUN", str(text_run)).split(), folder)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"weft: {folder}: is a folder, and a file is to be written; name one")
    assert not list(tmp_path.iterdir())


def test_every_figure_is_written_as_three_files(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "figures"
    done = command("report", str(text_run), "--no-samples", "--out", str(tmp_path / "page.html"), "--figures", str(folder))
    assert done.code == 0
    names = {path.stem for path in folder.iterdir()}
    assert {"loss", "learning-rate", "tokens-per-second"} <= names
    assert {path.name for path in folder.iterdir()} == {f"{name}.{suffix}" for name in names for suffix in ("svg", "png", "csv")}
    assert f"{len(names)} figures as SVG, PNG and CSV" in done.out
    (tmp_path / "file").write_text("")
    done = command("report", str(text_run), "--no-samples", "--figures", str(tmp_path / "file"))
    assert (done.code, done.out) == (2, "")
    assert "is a file, and a folder is to be written" in done.err
