"""The command itself: verbs, exit codes, one-line errors, and that help and lists load nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from weft.benchmarks.record import measurements, write_record
from weft.cli import list as listing
from weft.cli.begin.front import VERBS
from weft.core import registry

LIGHT = "import sys; from weft.__main__ import run; run({}); print([m for m in ('torch', 'numpy', 'rich') if m in sys.modules])"


@pytest.mark.parametrize(
    "words", [["--help"], ["list"], ["list", "recipes"], ["--version"], ["train", "--help"], ["train", "gpt/text", "--help"]]
)
def test_help_and_lists_import_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT.format(words)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["serve", "evaluate", "bench"])
def test_the_help_of_a_verb_loads_no_torch(verb: str) -> None:
    program = (
        f"import sys; from weft.__main__ import run\ntry: run([{verb!r}, '--help'])\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_help_and_list_are_quick() -> None:
    def seconds(*words: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "weft", *words], capture_output=True, check=True)
        return time.perf_counter() - begin

    bare = min(_bare() for _ in range(3))  # a busy machine slows an empty Python just as much
    for words in (["--help"], ["list"], ["train", "--help"], ["train", "gan/digits", "--help"]):
        assert min(seconds(*words) for _ in range(3)) - bare < 0.4


def _bare() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - begin


def test_help_names_every_verb(command: Callable[..., Outcome]) -> None:
    done = command("--help")
    assert done.code == 0
    assert all(verb in done.out for verb in VERBS)
    assert command().code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "did you mean 'train'?"),
        (["train", "gpt/quikstart"], "did you mean 'gpt/quickstart'?"),
        (["list", "modles"], "did you mean 'models'?"),
        (["bench", "engine-cpo"], "did you mean 'engine-cpu'?"),
        (["study", "generalization-gap"], "did you mean 'generalisation-gap'?"),
        (["train", "--model.width", "3"], "expected the name of a recipe"),
        (["sample"], "expected CKPT [PROMPT…], found nothing"),
        (["evaluate", "a", "--", "b", "--c"], "no checkpoint here"),
    ],
)
def test_wrong_use_is_one_line_that_helps(command: Callable[..., Outcome], words: list[str], said: str) -> None:
    done = command(*words)
    assert done.code in (1, 2)
    assert said in done.err
    assert done.err.startswith("weft: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(command: Callable[..., Outcome], verb: str) -> None:
    done = command(verb, "--help")
    assert done.code == 0
    assert f"usage: weft {verb}" in done.out


def test_list_shows_what_year_and_measured_score(command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measurements([{"seed": seed, "accuracy": value} for seed, value in ((1, 0.98), (2, 0.98246))], split="validation")
    folder = tmp_path / "records"
    write_record(folder / "recipe-classifier-digits.json", found, recipe="classifier/digits", command="weft train classifier/digits")
    write_record(folder / "images-digits.json", found, recipe="gan/digits", benchmark="images", command="weft bench images digits")
    monkeypatch.setattr(listing.importlib.resources, "files", lambda package: tmp_path)
    lines = {line.split()[0]: line for line in command("list", "recipes").out.splitlines() if line.startswith("  ")}
    assert set(lines) == set(registry.RECIPES)
    assert lines["classifier/digits"].endswith("accuracy 0.9812")
    assert "1986" in lines["classifier/digits"]
    assert lines["gpt/text"].endswith(registry.RECIPES["gpt/text"].summary)


def test_bench_gives_the_rest_of_the_words_to_its_function(command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(registry, "find", lambda table, name: seen.append if (table, name) == ("benches", "engine-cpu") else None)
    assert command("bench", "engine-cpu", "--steps", "3").code == 0
    assert seen == [["--steps", "3"]]
