"""`weft plan` as one types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

TINY = ["gpt/tiny", "--context", "16", "--vocabulary", "50", "--batch", "8"]


def test_a_preset_is_planned_shown_and_written(command: Callable[..., Outcome], tmp_path: Path) -> None:
    done = command("plan", *TINY, "--gpus", "2", "--tokens", "1e6", "--check", "--json", str(tmp_path / "plan.json"))
    assert done.code == 0, done.err
    for word in ("parameters", "FLOPs per token", "memory per device", "MFU", "PF-days", "energy", "--parallel.", "checked"):
        assert word in done.out, word
    facts = json.loads((tmp_path / "plan.json").read_text())
    assert facts["gpus"] == 2 and facts["tokens"] == 1e6
    assert facts["flop"] == 6 * facts["parameters"] * 1e6
    assert facts["memory"]["total"] == pytest.approx(sum(v for k, v in facts["memory"].items() if k not in ("total", "tensors")))


def test_a_recipe_is_planned_without_its_data(command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    done = command("plan", "gpt/shakespeare_char", "--device", "cpu")
    assert done.code == 0, done.err
    assert "a vocabulary of 256 is assumed" in done.out


def test_a_recipe_with_data_of_its_own(command: Callable[..., Outcome]) -> None:
    pytest.importorskip("sklearn")
    done = command("plan", "classifier/digits", "--device", "cpu")
    assert done.code == 0, done.err
    assert "FLOPs per example" in done.out


@pytest.mark.parametrize("name", ["bigan/digits", "perceiver/source"])
def test_batch_norms_and_layers_that_there_are_once(command: Callable[..., Outcome], name: str) -> None:
    pytest.importorskip("sklearn")
    done = command("plan", name, "--device", "cpu")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["planar/lobes", "--device", "cpu"], "planar/lobes: no plan, as a step of it cannot be followed"),
        (["bert/classify"], "bert/classify: what a batch is like follows from its data"),
        ([], "name a recipe"),
        (["gpt/shakespear"], "did you mean 'gpt/shakespeare_c"),
        (["gtp2"], "did you mean 'gpt2'?"),
        (["base"], "several presets are called 'base'"),
        ([*TINY, "--gpus", "0"], "--gpus must be at least 1"),
        ([*TINY, "--tokens", "nan"], "--tokens must be a number that is not negative, not nan"),
        ([*TINY, "--tokens", "inf"], "--tokens must be a number that is not negative, not inf"),
        ([*TINY, "--pue", "-1"], "--pue must be a number that is not negative, not -1.0"),
        ([*TINY, "--mfu", "40"], "--mfu must be a share"),
        ([*TINY, "--batch", "-1"], "--batch must be a number that is not negative"),
    ],
)
def test_wrong_use_is_one_line(command: Callable[..., Outcome], words: list[str], said: str) -> None:
    done = command("plan", *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_help_needs_no_torch() -> None:
    program = "import sys\nfrom weft.__main__ import run\ntry: run(['plan', '--help'])\nexcept SystemExit: pass\n"
    program += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert "usage: weft plan" in done.stdout


def test_growth(command: Callable[..., Outcome]) -> None:
    done = command("plan", "--growth")
    assert done.code == 0
    assert "174,604,259,328" in done.out and "1,498" in done.out
