"""`weft birthplace` and `weft quickstart`: the assignment's command lines, and one clear line for everything that is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from weft.core.config import override
from weft.data.text.biographies import BiographiesConfig
from weft.projects.birthplace import quickstart, task
from weft.recipes import base
from weft.recipes.base import Recipe

PEOPLE = BiographiesConfig(people=20, places=5, variants=4)
SIZES = {"model.layers": 3, "model.heads": 2, "model.width": 32, "train.batch": 16, "train.compile": "off", "train.cuda_graphs": "off"}
Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "find_recipe", lambda name: base.recipe(name, SIZES))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The assignment's files in the current folder, about other people."""
    asked, held = PEOPLE.questions()
    (tmp_path / "wiki.txt").write_text(PEOPLE.text() + "Where?\n")
    (tmp_path / "train.tsv").write_text("".join(f"{q}\t{p}\n" for q, p in asked))
    (tmp_path / "dev.tsv").write_text("".join(f"{q}\t{p}\n" for q, p in held))
    (tmp_path / "test.tsv").write_text("".join(f"{q}\n" for q, _ in held))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("variant", list(task.VARIANTS))
def test_the_assignments_commands(command: Command, folder: Path, variant: str) -> None:
    few = ["--steps", "2"]
    done = command(
        "birthplace", "pretrain", variant, "wiki.txt", "--writing_params_path", "a.pretrain.params", "--pretrain_lr", "6e-3", *few
    )
    assert done.code == 0, done.err
    done = command(
        "birthplace", "finetune", variant, "wiki.txt", "--reading_params_path", "a.pretrain.params",
        "--writing_params_path", "a.finetune.params", "--finetune_corpus_path", "train.tsv", *few,
    )  # fmt: skip
    assert done.code == 0, done.err
    places = ["--reading_params_path", "a.finetune.params", "--outputs_path", "out/dev.predictions"]
    done = command("birthplace", "evaluate", variant, "wiki.txt", "--eval_corpus_path", "dev.tsv", *places)
    assert done.code == 0, done.err
    assert "Correct: " in done.out
    assert "out of 10: " in done.out
    assert "baseline, always London" in done.out
    assert len((folder / "out/dev.predictions").read_text().split("\n")) == 11
    assert (folder / "out/dev.predictions.html").stat().st_size > 5000
    places[-1] = "test.predictions"
    done = command("birthplace", "evaluate", variant, "wiki.txt", "--eval_corpus_path", "test.tsv", *places)
    assert done.code == 0, done.err
    assert "nothing is scored" in done.out
    assert len((folder / "test.predictions").read_text().split("\n")) == 11
    assert command("birthplace", "ask", "a.finetune.params", "Where was Ada born?").out.startswith("Where was Ada born? ")


def test_finetuning_alone_and_the_lengths_of_the_reference(folder: Path) -> None:
    options = task.Options(writing_params_path="x", finetune_corpus_path="train.tsv")
    assert task.pretraining("vanilla", "wiki.txt", options).train.steps == 650 * 6  # 82 documents, the empty last one included
    assert task.finetuning("vanilla", "wiki.txt", options).train.steps == 75 * 1
    perceiver = task.pretraining("perceiver", "wiki.txt", options).model
    assert (perceiver.latents, perceiver.queries) == (32, "learned")  # type: ignore[attr-defined]
    wider = task.pretraining("perceiver", "wiki.txt", dataclasses.replace(options, bottleneck_dim=64)).model
    assert wider.latents == 64  # type: ignore[attr-defined]


def test_what_is_wrong_is_said_in_one_line(command: Command, folder: Path) -> None:
    (folder / "empty.txt").write_text("")
    (folder / "other.txt").write_text("Ünlike.\n" * 5)
    (folder / "bad.tsv").write_text("Where was Ada born?\tRome\nWhere was Bob born? Oslo\n")
    assert command("birthplace", "pretrain", "vanilla", "wiki.txt", "--writing_params_path", "p", "--steps", "1").code == 0
    before = sorted(str(path) for path in folder.rglob("*"))
    finetune = ["--writing_params_path", "q", "--finetune_corpus_path"]
    evaluate = ["--eval_corpus_path", "dev.tsv", "--outputs_path", "o", "--reading_params_path"]
    for words, piece in [
        (["pretrain", "vanila", "wiki.txt", "--writing_params_path", "q"], "did you mean 'vanilla'"),
        (["pretrian", "vanilla", "wiki.txt"], "did you mean 'pretrain'"),
        (["pretrain", "vanilla", "missing.txt", "--writing_params_path", "q"], "missing.txt"),
        (["pretrain", "vanilla", "empty.txt", "--writing_params_path", "q"], "empty.txt"),
        (["pretrain", "vanilla", "wiki.txt"], "--writing_params_path is missing"),
        (["finetune", "vanilla", "wiki.txt", "--writing_params_path", "q"], "--finetune_corpus_path is missing"),
        (["finetune", "vanilla", "wiki.txt", *finetune, "missing.tsv"], "missing.tsv"),
        (["finetune", "vanilla", "wiki.txt", *finetune, "bad.tsv"], "bad.tsv:2"),
        (["finetune", "vanilla", "wiki.txt", *finetune, "train.tsv", "--reading_params_path", "nothing"], "there is no 'nothing'"),
        (["evaluate", "rotary", "wiki.txt", *evaluate, "p"], "holds 'vanilla', not 'rotary'"),
        (["evaluate", "vanilla", "other.txt", *evaluate, "p"], "other characters"),
        (["evaluate", "vanilla", "wiki.txt", *evaluate, "nothing"], "there is no 'nothing'"),
        (["ask", "p"], "at least one question"),
    ]:
        done = command("birthplace", *words)
        assert done.code == 2, (words, done)
        assert piece in done.err, (words, done.err)
        assert len(done.err.strip().split("\n")) == 1, done.err
        assert "Traceback" not in done.err
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_quickstart_compares_four_systems(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"train.steps": 6, "train.log_every": 2, "model.width": 32, "model.layers": 2, "model.heads": 2, "train.batch": 8}

    def few_steps(name: str) -> Recipe:
        return override(base.recipe(name), short)

    monkeypatch.setattr(quickstart, "find_recipe", few_steps)
    words = ["quickstart", "--people", "20", "--places", "5", "--out", str(tmp_path / "quick")]
    done = command(*words)
    assert done.code == 0, done.err
    for piece in ("commonest place", "finetuned only", "pretrained + finetuned", "perceiver", "report: ", "weft birthplace ask"):
        assert piece in done.out
    page = (tmp_path / "quick" / "report.html").read_text()
    assert "Where were they born?" in page
    again = command(*words)
    assert again.code == 0, again.err
    assert "step" not in again.out  # everything was trained already
