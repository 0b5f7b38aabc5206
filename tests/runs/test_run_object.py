"""What `weft.train` gives back: columns, curves, samples, the model, and what a notebook shows of them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.core.errors import ConfigError, MissingExtra
from weft.recipes.base import Recipe
from weft.runs.run import Run

TINY = {
    "data.context": 16,
    "model.width": 16,
    "model.layers": 1,
    "model.heads": 2,
    "train.steps": 6,
    "train.batch": 4,
    "train.eval_every": 3,
    "train.log_every": 2,
    "train.device": "cpu",
}
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("to be or not to be <that> is the question. " * 40)
    return weft.recipe("gpt/text", {**TINY, "data.path": str(path)})


@pytest.fixture(scope="module")
def run(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return weft.train(recipe, out=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_the_package_shows_its_public_names_without_torch() -> None:
    program = "import sys, weft; print(*dir(weft)); assert not {'torch', 'numpy'} & sys.modules.keys()"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"Recipe", "recipe", "train", "load", "evaluate", "convert"} <= set(shown)
    assert not [name for name in shown if name.startswith("_") and name != "__version__"]


def test_the_history_is_columns_of_one_length(run: Run) -> None:
    history = run.history
    assert list(history)[:3] == ["step", "examples", "seconds"]
    assert history["step"].tolist() == [1, 2, 3, 4, 6]
    assert history["examples"].tolist() == [4, 8, 12, 16, 24]
    assert {len(column) for column in history.values()} == {5}
    assert np.isnan(history["train/loss"]).tolist() == [False, False, True, False, False]
    assert np.isnan(history["validation/loss"]).tolist() == [True, True, False, True, False]
    assert run.validation is not None
    assert np.nanmin(history["validation/loss"]) == run.validation.best


def test_the_history_makes_a_table(run: Run) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(run.history).set_index("step")
    assert frame["validation/loss"].dropna().index.tolist() == [3, 6]


def test_the_curves_are_a_figure_with_a_panel_for_each_number(run: Run) -> None:
    pytest.importorskip("matplotlib")
    [axes] = run.plot().axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert [line.get_label() for line in axes.lines] == ["train", "validation"]
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 4, 6]
    assert [panel.get_ylabel() for panel in run.plot("perplexity", "lr").axes] == ["perplexity", "learning rate"]
    assert run.plot()._repr_png_().startswith(PNG)
    with pytest.raises(ConfigError, match="has logged no 'los'; did you mean 'loss'"):
        run.plot("los")


def test_a_missing_package_is_named_with_what_installs_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.runs import plot

    plot.figure_class.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"matplotlib is not installed; install it with: .*\[plots\]"):
        run.plot()


def test_a_run_gives_its_model_and_its_samples(run: Run) -> None:
    assert run.path == run.folder
    assert run.model is run.model
    assert run.model.generate("to", max_new_tokens=3, seed=1) == weft.load(run.path).generate("to", max_new_tokens=3, seed=1)
    [sample] = run.samples
    assert sample.text
    assert "Text written after step 6" in repr(sample)
    assert not sample.png


def test_objects_say_in_a_line_what_they_are(run: Run, recipe: Recipe) -> None:
    shown = [repr(thing) for thing in (recipe, run, run.log, run.model, weft.evaluate(run.model))]
    assert all(len(line) < 300 and "\n" not in line and "tensor(" not in line for line in shown)
    assert shown[0] == "Recipe(gpt/text: data text, model gpt, objective next_token, optim adamw; 6 steps of 4)"
    assert "steps 6 of 6, best validation loss" in shown[1]
    assert shown[3].startswith("Loaded(GPT: checkpoint")
    assert shown[4].startswith("Evaluation(loss")


def test_a_notebook_shows_objects_as_html_without_taking_text_for_markup(run: Run, recipe: Recipe) -> None:
    written = run.model.generate("<that>", max_new_tokens=2, seed=0)
    pages = [thing._repr_html_() for thing in (recipe, run, run.log, run.model, weft.evaluate(run.model), written, *run.samples)]
    assert all(page.startswith("<") and page.endswith(">") for page in pages)
    assert "&lt;that&gt;" in pages[5]
    assert "<that>" not in "".join(pages)


def test_images_are_shown_and_saved_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    small = {"model.hidden": [12], "model.latent": 2, "train.steps": 2, "train.eval_every": 0, "train.device": "cpu"}
    run = weft.train(weft.recipe("vae/digits", small), out=tmp_path / "run", progress=False)
    sheet = run.model.draw(6, seed=3)
    assert repr(sheet) == "Sheet(6 images of 1 x 8 x 8)"
    sheet.save(tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes() == sheet._repr_png_()
    assert run.samples[0].png.startswith(PNG)
    assert "data:image/png" in run.samples[0]._repr_html_()


def test_training_shows_its_progress_unless_told_not_to(recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weft.train(recipe, out=tmp_path / "shown")
    said = capsys.readouterr().out
    assert "step 1/6  loss" in said and "validation loss" in said
    weft.train(recipe, out=tmp_path / "silent", progress=False)
    assert not capsys.readouterr().out


class Kernel:
    """A stand-in for IPython inside a Jupyter kernel: it keeps every state of every display."""

    kernel = object()

    def __init__(self) -> None:
        self.states: list[dict[str, str]] = []

    def get_ipython(self) -> Kernel:
        return self

    def display(self, data: dict[str, str], raw: bool, display_id: bool = False) -> Kernel:
        assert raw
        self.states.append(data)
        return self

    update = display


def test_a_notebook_has_one_display_that_is_brought_up_to_date(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)  # type: ignore[arg-type]
    weft.train(recipe, out=tmp_path / "run")
    last = kernel.states[-1]
    assert '<progress value="6" max="6">' in last["text/html"] and "<polyline" in last["text/html"]
    assert last["text/plain"].startswith("step 6/6  loss")
    assert capsys.readouterr().out.count("validation loss") == 2
    assert importlib.import_module("weft.report.live").drawn([(1.0, 2.0)]) == ""
