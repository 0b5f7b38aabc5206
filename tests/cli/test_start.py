"""`weft start`: what lies at a path, the recipe for it, and a command that works as written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.contracts.tiny import answers, choices_file, image_folder, pairs_file, table_file
from weft.cli import start
from weft.cli.begin.look import look
from weft.cli.start import enough
from weft.core import installation
from weft.core.errors import DataError


def commands(out: str) -> list[list[str]]:
    """The commands that were written, without the program."""
    own = installation.command()
    return [shlex.split(line.strip())[len(shlex.split(own)) :] for line in out.splitlines() if line.startswith(f"  {own}")]


def labelled(folder: Path) -> Path:
    (folder / "labelled.tsv").write_text("".join(f"the film number {n} was rather long\t{'good' if n % 2 else 'bad'}\n" for n in range(60)))
    return folder / "labelled.tsv"


def text(folder: Path) -> Path:
    (folder / "my.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
    return folder / "my.txt"


def loose_images(folder: Path) -> Path:
    return image_folder(folder) / "high"


@pytest.mark.parametrize(
    ("make", "recipe", "said"),
    [
        (text, "gpt/text", "is text of 0.00 MB"),
        (image_folder, "classifier/images", "60 images of 2 classes (high 30, low 30)"),
        (loose_images, "vae/images", "30 images without classes"),
        (table_file, "classifier/table", "200 rows of 3 columns; 'label' has 2 classes"),
        (labelled, "classifier/table", "column 2 has 2 classes, column 1 is text"),
        (choices_file, "bert/choice", "several ways to go on"),
    ],
)
def test_a_path_leads_to_a_recipe(make: Callable[[Path], Path], recipe: str, said: str, tmp_path: Path) -> None:
    found = look(str(make(tmp_path)))
    assert found.recipe == recipe
    assert said in found.what
    assert found.settings["data.path"]


def test_answers_pairs_and_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(answers(tmp_path)["data.path"]).recipe == "bert/answers"
    rows = "".join(f"number {n}\tNummer {n}\n" for n in range(80))
    (tmp_path / "two.tsv").write_text(rows)
    assert look(str(tmp_path / "two.tsv")).recipe == "transformer/pairs"
    monkeypatch.setattr("weft.cli.begin.look.MUCH_TEXT", 100)
    found = look(str(text(tmp_path)))
    assert (found.recipe, found.before[0].split()[:2]) == ("gpt/shards", ["data", "build"])
    assert pairs_file(tmp_path).exists()


def test_folders_of_sounds(tmp_path: Path) -> None:
    for name in ("yes/a", "no/b"):
        (tmp_path / "classes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "classes" / f"{name}.wav").touch()
    found = look(str(tmp_path / "classes"))
    assert (found.recipe, found.examples) == ("audio_classifier/digits", 2)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "7_theo_0.wav").touch()
    assert look(str(tmp_path / "digits")).recipe == "audio_classifier/digits"
    (tmp_path / "digits" / "other.wav").touch()
    with pytest.raises(DataError, match="without classes or texts"):
        look(str(tmp_path / "digits"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"%PDF", "save it as plain text"),
        ("a.xlsx", b"PK", "save it as CSV"),
        ("a.pt", b"PK", "never opened"),
        ("a.wav", b"RIFF", "is one sound"),
        ("a.png", b"\x89PNG", "is one image"),
        ("a.what", b"\0\1\2", "neither text nor"),
        ("a.txt", b"", "is empty"),
        ("a.json", b"[1]", "is one JSON value"),
        ("a.tsv", b"".join(b"x%d\ty%d\tz%d\n" % (n, n, n) for n in range(50)), "--data.label COLUMN"),
    ],
)
def test_what_nothing_is_for_is_refused_with_what_to_do(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        look(str(tmp_path / name))


def test_an_empty_folder_and_nothing_at_all(tmp_path: Path, command: Callable[..., Outcome]) -> None:
    with pytest.raises(DataError, match="it is empty"):
        look(str(tmp_path))
    for words, said in ((["start", str(tmp_path / "none")], "there is no such file or folder"), (["start"], "name your data")):
        found = command(*words)
        assert (found.code, found.err.count("\n")) == (2, 1)
        assert said in found.err


def test_a_run_and_a_model_of_others(text_run: Path, tmp_path: Path) -> None:
    assert look(str(text_run)).before == [f"serve {text_run}"]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")
    assert look(str(tmp_path)).before[0].startswith(f"convert {tmp_path} runs/")


def test_what_it_proposes_is_timed_and_trains(command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table_file(tmp_path)
    done = command("start", "table.tsv", "--minutes", "0.01")
    assert done.code == 0, done.err
    assert "parameters" in done.out and "were tried" in done.out
    [words] = commands(done.out)
    assert words[:4] == ["train", "classifier/table", "--data.path", "table.tsv"]
    trained = command(*words[:-1], "3")
    assert trained.code == 0, trained.err
    assert json.loads((tmp_path / "runs" / "classifier-table" / "recipe.json").read_text())["data"]["path"] == "table.tsv"


def test_it_asks_on_a_terminal_and_can_run_it(command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table_file(tmp_path)
    replies = iter(["table", "table.tsv", "0.001"])
    monkeypatch.setattr("builtins.input", lambda _: next(replies))
    assert start.questions() == ("table.tsv", 0.001)
    monkeypatch.setattr(start, "enough", lambda *_: 2)
    done = command("start", "table.tsv", "--look-only", "--run")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "runs" / "classifier-table" / "recipe.json").read_text())["train"]["steps"] == 2


def test_little_data_takes_fewer_steps(tmp_path: Path) -> None:
    found = look(str(image_folder(tmp_path)))
    assert enough(found, 2000, 64) == 200
    found.examples = 50_000
    assert enough(found, 2000, 64) == 2000


@pytest.mark.parametrize("kind", ["text", "photos", "sound"])
def test_a_kind_instead_of_a_path_shows_what_there_is(command: Callable[..., Outcome], kind: str) -> None:
    assert command("start", kind).code == 0
