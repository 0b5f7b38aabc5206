"""Runs written before things got their present names (tests/fixtures/format3): they load, answer as they did and continue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import weft
from weft.cli import train
from weft.core import renamed
from weft.runs import record
from weft.runs.assemble import assemble
from weft.runs.environment import machine
from weft.training.checkpoint import checkpoint
from weft.training.checkpoint.tensors import unpack

FIXTURES = Path(__file__).parent.parent / "fixtures" / "format3"
NAMES = ("gpt", "llama", "t5", "sharded")
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
AFTER = {
    "gpt": "--data.tokenizer characters --model.norm-heads --train.micro-batch 2 --train.batch-ramp 2 8 --train.ema 0.9 --model.layers 2 "
    "--train.activation-checkpointing selective",
    "llama": "--model.kv-heads 1 --model.rope-base 500 --model.ffn-width 12 --train.activation-checkpointing full --model.layers 2",
    "t5": "--data.tokenizer characters --data.max-length 24 --model.head-dim 4 --model.ffn-width 12 --model.relative-buckets 8 "
    "--model.max-distance 16 --objective.label-smoothing 0.1 --objective.length-penalty 0.5 --model.layers 1",
    "sharded": "--train.ema 0.9 --train.micro-batch 1 --model.layers 1",
}
"""Settings of the command that continues each, in today's words but for one that another model has now."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs beside their data, as the working folder."""
    shutil.copytree(FIXTURES, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def words(name: str) -> list[str]:
    data = "--data.path pairs.tsv" if name == "t5" else "--data.path text.txt --data.context 8"
    common = "--model.heads 2 --model.width 8 --train.batch 4 --train.log-every 2 --train.save-every 4 --train.eval-every 4"
    common += " --train.keep-checkpoints 1 --train.device cpu --train.seed 3 --train.steps 8"
    return f"{data} {common} {AFTER[name]}".split()


def recipe_name(name: str) -> str:
    return str(record.recipe_of(FIXTURES / name)["name"])


@pytest.mark.parametrize("name", NAMES)
def test_they_give_the_same_outputs(name: str) -> None:
    loaded = weft.load(FIXTURES / name, device="cpu")
    ids = torch.arange(3, 9)[None]
    with torch.no_grad():
        logits = loaded.model(ids, torch.tensor([6]), ids[:, :4]) if name == "t5" else loaded.model(ids)
    torch.testing.assert_close(logits[0, -1], torch.tensor(EXPECTED[name]["logits"]))
    said = [a.text for a in loaded.answer("12")] if name == "t5" else loaded.generate("the ", max_new_tokens=12, seed=5).text
    assert said == EXPECTED[name]["said"]


@pytest.mark.parametrize("name", NAMES)
def test_they_continue_to_the_same_weights(name: str, runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe, _ = train.parse(recipe_name(name), words(name))
    assert caplog.messages == ["--model.norm_heads is now called --model.qk_norm"] * (name == "gpt")
    caplog.clear()
    run = assemble(recipe, runs / name)
    assert run.trainer.step == 4
    run.trainer.fit()
    assert "now called" not in caplog.text
    found = checkpoint.newest(runs / name)
    assert found is not None and found.path.name == "00000008"
    old = unpack((FIXTURES / name / "after.safetensors").read_bytes())
    new_name = renamed.parameters(found.json("recipe.json")["model"])
    weights, wanted = found.tensors("model.safetensors"), {new_name(name): tensor for name, tensor in old.items()}
    torch.testing.assert_close(weights, wanted, rtol=1e-5, atol=1e-6)
    begun = json.loads((FIXTURES / name / "environment.json").read_text())
    if begun["machine"].rpartition(",")[0] == machine().rpartition(",")[0] and begun["versions"]["torch"] == torch.__version__:
        assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("name", NAMES)
def test_no_tensor_is_lost_or_copied(name: str) -> None:
    """Weights, their average and the optimiser's state have new names and the same numbers, also where two processes wrote them."""
    found = checkpoint.newest(FIXTURES / name)
    assert found is not None
    names = {file.name for file in found.path.glob("*.safetensors")}
    assert len(names) == {"gpt": 3, "llama": 2, "t5": 2, "sharded": 6}[name]
    for kind in {"model.safetensors", "training.safetensors", "ema.safetensors"} & names:
        new = found.lazy(kind)
        assert new and not [n for n in new if ".rise." in n or ".fall." in n]
        assert any((".up." if "gpt" in name or name == "sharded" else ".gate_up.") in n for n in new)
        for file in (found.files[n] for n in names if n.partition("-")[0].partition(".")[0] == kind.partition(".")[0]):
            assert isinstance(file.data, memoryview)  # still mapped, not read


def test_their_settings_are_read_in_todays_words() -> None:
    gpt, llama, t5 = (record.read(FIXTURES / name).settings() for name in ("gpt", "llama", "t5"))
    assert (gpt["train.micro_batch"], gpt["train.batch_ramp"], gpt["train.activation_checkpointing"]) == ("2", "2 8", "selective")
    assert (gpt["model.qk_norm"], gpt["data.tokenizer"], gpt["train.keep_checkpoints"]) == ("True", "characters", "1")
    assert (llama["model.kv_heads"], llama["model.rope_base"], llama["train.activation_checkpointing"]) == ("1", "500.0", "full")
    assert (t5["model.relative_buckets"], t5["model.max_distance"], t5["model.head_dim"]) == ("8", "16", "4")
    assert (t5["objective.label_smoothing"], t5["objective.length_penalty"], t5["data.max_length"]) == ("0.1", "0.5", "24")
    assert weft.load(FIXTURES / "t5", device="cpu").tokenizer.name == "seq2seq"
    assert not {"--train.micro", "--train.keep", "--train.ramp"} & set(record.command(record.read(FIXTURES / "gpt")).split())


def test_they_continue_by_the_command_that_began_them(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = "--data.path text.txt --data.unit characters --data.context 8 --model.layers 2 --model.heads 2 --model.width 8 --model.norm-heads"
    old += " --train.micro 2 --train.ramp 2 8 --train.ema 0.9 --train.activations products --train.batch 4 --train.log-every 2"
    old += " --train.save-every 4 --train.eval-every 4 --train.keep 1 --train.device cpu --train.seed 3 --train.steps 6 --out gpt"
    assert train.main(["gpt/text", *old.split()]) == 0
    found = capsys.readouterr()
    assert (runs / "gpt" / "checkpoints" / "00000006").is_dir()
    for before, now in (("micro", "micro_batch"), ("ramp", "batch_ramp"), ("activations", "activation_checkpointing")):
        assert found.err.count(f"--train.{before} is now called --train.{now}\n") == 1
    assert found.err.count("--data.unit is now called --data.tokenizer\n") == 1
    assert found.err.count("--model.norm_heads is now called --model.qk_norm\n") == 1
