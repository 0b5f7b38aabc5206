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
    assert "a vocabulary of 256 is assumed, for characters" in done.out


def test_shards_that_are_not_here_are_taken_for_subwords(command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    done = command("plan", "gpt/classical", "--device", "cpu", "--model.layers", "1", "--batch", "1")
    assert done.code == 0, done.err
    assert "a vocabulary of 50,257 is assumed, GPT-2's" in done.out


def test_settings_of_a_recipe_are_flags(command: Callable[..., Outcome], text_file: Path, tmp_path: Path) -> None:
    changes = ["--model.width", "64", "--train.batch=12", "--data.context", "32", "--model.no-tie-embeddings", "--train.micro_batch", "3"]
    kind = ["--optim.type", "muon", "--optim.momentum", "0.9", "--train.batch_ramp", "6", "100"]
    done = command("plan", "gpt/text", "--data.path", str(text_file), *changes, *kind, "--json", str(tmp_path / "plan.json"))
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "plan.json").read_text())
    vocabulary = len(set(text_file.read_text()))
    assert facts["parameters_by_part"]["embeddings"] == 64 * 2 * vocabulary
    assert (facts["batch"], facts["tokens_per_example"], facts["layout"]["micro_batch"]) == (12, 32, 3)
    assert facts["memory"]["optimiser state"] < 8 * facts["parameters"]


def test_a_model_alone_has_settings(command: Callable[..., Outcome], tmp_path: Path) -> None:
    for words in (["gpt/tiny", "--model.layers", "1"], ["--model", "gpt/tiny", "--model.layers=1"]):
        done = command("plan", *words, *TINY[1:], "--device", "cpu", "--json", str(tmp_path / "plan.json"))
        assert done.code == 0, done.err
        assert json.loads((tmp_path / "plan.json").read_text())["parameters_by_part"]["attention"] == 4 * 32 * 33


def test_a_run_is_planned(command: Callable[..., Outcome], text_run: Path) -> None:
    for place in (text_run, text_run / "recipe.json"):
        done = command("plan", str(place), "--device", "cpu", "--gpus", "3")
        assert done.code == 0, done.err
        assert "4 examples of 16 tokens" in done.out


def test_what_is_paid(command: Callable[..., Outcome], tmp_path: Path) -> None:
    words = [*TINY, "--device", "cpu", "--tokens", "1e12", "--json", str(tmp_path / "plan.json")]
    assert "cost" not in command("plan", *words).out
    assert "cost" not in json.loads((tmp_path / "plan.json").read_text())
    assert "2.5 for a device-hour" in command("plan", *words, "--price", "2.5").out
    facts = json.loads((tmp_path / "plan.json").read_text())
    assert facts["cost"] == pytest.approx(2.5 * facts["device_hours"])


def test_a_recipe_with_data_of_its_own(command: Callable[..., Outcome]) -> None:
    pytest.importorskip("sklearn")
    done = command("plan", "classifier/digits", "--device", "cpu")
    assert done.code == 0, done.err
    assert "FLOPs per example" in done.out


@pytest.mark.parametrize("name", ["bigan/digits", "perceiver/source", "perceiver/reference"])
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
        ([*TINY, "--gpus", "99999999"], "--gpus must be at least 1 and at most 65,536"),
        ([*TINY, "--gpus", "4", "--parallel.shard", "3"], "--parallel.shard 3 does not divide --gpus 4; say --gpus 3"),
        ([*TINY, "--parallel.replicate", "4", "--parallel.shard", "4"], "4 x --parallel.shard 4 is 16, but --gpus is 1; say --gpus 16"),
        ([*TINY, "--gpus", "4", "--parallel.shard", "-2"], "--parallel.shard must be at least 1, or 0"),
        ([*TINY, "--train.steps", "9"], "--train.steps is a setting of a recipe, and gpt/tiny is a model alone"),
        ([*TINY, "--model.widht", "9"], "did you mean 'width'?"),
        ([*TINY, "--modle.width", "9"], "did you mean 'model'?"),
        ([*TINY, "--model.context", "9"], "--context 16 and --model.context 9 say different things"),
        ([*TINY, "--model.layers", "9" * 400], "--model.layers must be at most 10,000"),
        ([*TINY, "--model.width", "2000000000"], "the sizes of GPTConfig are too large to be counted"),
        (["gpt/text", "--trian.batch", "9"], "did you mean 'train'?"),
        (["gpt/text", "--train.bach", "9"], "did you mean 'batch'?"),
        (["gpt/text", "--train.batch", "9", "--batch", "8"], "--batch 8 and --train.batch 9 say different things"),
        (
            ["gpt/text", "--train.activation_checkpointing", "full", "--activation-checkpointing", "off"],
            "--activation-checkpointing off and --train.activation_checkpointing full say",
        ),
        (["gpt/text", "--train.batch", "0"], "--train.batch must be at least 1"),
        (["gpt/text", "--train.batch", "9", "more"], "expected flags only behind --train.batch, found more"),
        (["--train.batch", "9", "gpt/text"], "or a preset before --train.batch"),
        (["gpt/text", "--data.path", "nowhere.txt"], "nowhere.txt: no such file"),
        (["gpt/text", "--data.context", "0"], "--data.context must be at least 1"),
        (["gpt/text", "--model", "gpt2", "--data.context", "2048"], "the model has a context of 1024 tokens"),
        (["src"], "src holds no recipe.json"),
        ([*TINY, "--price", "nan"], "--price must be a number that is not negative, not nan"),
        ([*TINY, "--tokens", "1e30"], "--tokens must be at most 1e+24"),
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


def test_the_help_of_a_recipe_tells_of_its_settings(command: Callable[..., Outcome]) -> None:
    done = command("plan", "gpt/text", "--help")
    assert done.code == 0
    assert "--parallel.shard" in done.out and "settings of the recipe are flags" in " ".join(done.out.split())


def test_what_normalises_over_the_batch_stays_on_one_device(command: Callable[..., Outcome]) -> None:
    pytest.importorskip("sklearn")
    done = command("plan", "dcgan/digits", "--gpus", "4", "--device", "cpu")
    assert done.code == 2
    assert "normalises over the batch, so the batch cannot be divided; use --gpus 1\n" in done.err


def test_growth(command: Callable[..., Outcome]) -> None:
    done = command("plan", "--growth")
    assert done.code == 0
    assert "174,604,259,328" in done.out and "1,498" in done.out


@pytest.mark.parametrize(
    ("name", "speaks"),
    [("gpt2", True), ("bert/base", False), ("t5/base", False), ("transformer/base", False), ("vae/digits", False)],
)
def test_a_scaling_law_is_asked_only_about_decoders_of_text(
    command: Callable[..., Outcome], tmp_path: Path, name: str, speaks: bool
) -> None:
    told = command("plan", name, "--device", "cpu", "--batch", "1", "--json", str(tmp_path / "plan.json"))
    assert told.code == 0, told.err
    facts = json.loads((tmp_path / "plan.json").read_text())
    assert ("loss to expect" in told.out) == ("compute-optimal" in told.out) == speaks
    assert (facts["chinchilla_loss"] is not None) == bool(facts["compute_optimal"]) == speaks
    assert "device-hours" in told.out


def test_a_scaling_law_is_not_asked_about_characters(command: Callable[..., Outcome], text_file: Path) -> None:
    law = []
    for unit in ("characters", "byte_bpe"):
        words = ["--data.path", str(text_file), "--data.tokenizer", unit, "--vocabulary", "300", "--device", "cpu"]
        told = command("plan", "gpt/text", *words)
        assert told.code == 0, told.err
        law.append("compute-optimal" in told.out)
    assert law == [False, True]
