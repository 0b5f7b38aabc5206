"""Whole runs of several processes: files written once, checkpoints that any number of processes continue, families that share a batch."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.training.parallel.processes import together
from weft.__main__ import dispatch
from weft.core.errors import ConfigError
from weft.training.checkpoint import checkpoint
from weft.training.checkpoint.tensors import kind
from weft.training.optimizer.settings import SGD
from weft.training.parallel.processes import LAYOUT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
GPT: dict[str, Any] = {
    "data.megabytes": 0.05,
    "data.context": 16,
    "model.layers": 2,
    "model.heads": 2,
    "model.width": 16,
    "train.batch": 6,
    "train.ema": 0.9,
    "train.eval_every": 4,
    "train.eval_examples": 9,
}
GAN: dict[str, Any] = {
    "model.generator": (16,),
    "model.discriminator": (16,),
    "model.dropout": 0.0,
    "train.batch": 10,
    "train.eval_every": 0,
}
COMMON: dict[str, Any] = {"train.device": "cpu", "train.precision": "fp32", "train.log_every": 1, "train.save_every": 3}


def train(name: str, folder: Path, changes: dict[str, Any], steps: int, *layout: int) -> bool:
    """Copies, parts, divided heads and stages."""
    parallel = {f"parallel.{part}": number for part, number in zip(LAYOUT, layout, strict=False)}
    weft.train(weft.recipe(name, {**COMMON, **changes, "train.steps": steps, **parallel}), folder)
    return True


def curve(folder: Path) -> dict[int, dict[str, float]]:
    """Losses by step, of training and of validation."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1)), "each step once"
    found = {}
    for line in lines:
        numbers = {**line["train"], **{f"validation {name}": value for name, value in line.get("validation", {}).items()}}
        found[line["step"]] = {name: value for name, value in numbers.items() if name not in ("per_second", "mfu")}
    return found


def assert_same_run(one: Path, many: Path, step: int, tolerance: float) -> None:
    expected, found = curve(one), curve(many)
    assert expected.keys() == found.keys()
    for number in expected:
        assert found[number] == pytest.approx(expected[number], rel=1e-4), f"step {number}"
    for name in ("model.safetensors", "ema.safetensors"):
        first, second = (checkpoint.read(checkpoint.folder(run, step)) for run in (one, many))
        if name in first.files:
            tensors = second.tensors(name)
            for key, value in first.tensors(name).items():
                assert (tensors[key] - value).abs().max() <= tolerance, key


def test_a_run_goes_on_with_other_numbers_of_processes(tmp_path: Path) -> None:
    """Two parts, then one process, then two stages of divided heads: one curve, and the weights and averages of an uninterrupted run."""
    one, many = tmp_path / "one", tmp_path / "many"
    train("gpt/quickstart", one, GPT, 9)
    together(2, tmp_path / "a", train, "gpt/quickstart", many, GPT, 3, 1, 2)
    train("gpt/quickstart", many, GPT, 6)
    together(4, tmp_path / "b", train, "gpt/quickstart", many, GPT, 9, 1, 1, 2, 2)
    assert_same_run(one, many, 9, 1e-5)
    kept = [{path.name for path in run.iterdir() if not path.name.startswith("events.")} for run in (one, many)]
    assert kept[0] == kept[1]
    content = [checkpoint.read(checkpoint.folder(run, 9)) for run in (one, many)]
    assert content[0].files.keys() == {kind(name) for name in content[1].files}
    assert content[0].tensors("training.safetensors").keys() == content[1].tensors("training.safetensors").keys()
    sizes = [len(data) for name, data in content[1].files.items() if kind(name) == "training.safetensors"]
    assert len(sizes) == 4 and max(sizes) < 0.6 * len(content[0].files["training.safetensors"]), "each wrote its own part"
    spoken = [weft.load(f"{run}@last").generate("the", max_new_tokens=8, temperature=0.0).text for run in (one, many)]
    assert spoken[0] == spoken[1]


def test_two_stages_go_on_alone_without_a_damaged_part(tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    train("gpt/quickstart", one, GPT, 8)
    together(2, tmp_path / "a", train, "gpt/quickstart", many, GPT, 7, 1, 1, 1, 2)
    part = checkpoint.folder(many, 7) / "training-1.safetensors"
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    train("gpt/quickstart", many, GPT, 8)
    assert_same_run(one, many, 8, 1e-5)


def test_only_transformers_have_heads_to_divide(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(ConfigError) as error:
            train("gan/digits", tmp_path / "run", GAN, 2, 1, 1, 2)
        return str(error.value)

    assert all("divides the blocks of Transformers" in said for said in together(2, tmp_path, refused))


@pytest.mark.parametrize("layout", [(2, 1), (1, 2)], ids=["copies", "parts"])
def test_a_gan_trains_as_in_one_process(layout: tuple[int, int], tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    train("gan/digits", one, GAN, 6)
    together(2, tmp_path / "a", train, "gan/digits", many, GAN, 6, *layout)
    assert_same_run(one, many, 6, 1e-5)


def test_a_persistent_chain_moves_alike_in_all_processes(tmp_path: Path) -> None:
    changes = {"objective.particles": 8, "train.batch": 7, "train.eval_every": 0}
    one, many = tmp_path / "one", tmp_path / "many"
    train("rbm/persistent", one, changes, 4)
    together(2, tmp_path / "a", train, "rbm/persistent", many, changes, 4, 1, 2)
    assert_same_run(one, many, 4, 1e-5)


@pytest.mark.parametrize("name", ["scheduled", "risk"])
def test_what_a_decoder_draws_in_training_is_the_same_in_two_processes(name: str, tmp_path: Path) -> None:
    sizes = {"data.pairs": 90, "data.limit": 100, "data.max_length": 16, "model.layers": 1, "model.width": 16, "model.heads": 2}
    changes: dict[str, Any] = {**sizes, "model.dropout": 0.0, "train.batch": 6, "train.eval_every": 3, "train.eval_examples": 5}
    changes["optim"] = SGD(lr=0.1)  # Adam makes much of gradients that are rounding alone, as those of a key's bias
    changes |= {"objective.samples": 2} if name == "risk" else {"objective.decay_steps": 4.0}
    one, many = tmp_path / "one", tmp_path / "many"
    train(f"transformer/numbers_{name}", one, changes, 6)
    together(2, tmp_path / "a", train, f"transformer/numbers_{name}", many, changes, 6, 2, 1)
    assert_same_run(one, many, 6, 1e-5)


def command(port: int, folder: Path) -> str:
    """What a process that torchrun started prints."""
    torch.distributed.destroy_process_group()  # the command joins them itself
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = ["--train.steps", "2", "--train.device", "cpu", "--train.eval-every", "0", "--parallel.replicate", "2", "--out", str(folder)]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert dispatch(["train", "rbm/digits", *words]) == 0
    return said.getvalue()


def test_the_command_line_speaks_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first, second = together(2, tmp_path, command, port, tmp_path / "run")
    assert "plan: 2 processes: replicate 2" in first
    assert "step 2/2" in first
    assert not second


def several(port: int, folder: Path) -> list[int]:
    """Runs of one program that torchrun started, which joins its processes itself for the last of them."""
    torch.distributed.destroy_process_group()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    made = weft.recipe("rbm/digits", {"train.steps": 2, "train.device": "cpu", "train.eval_every": 0, "parallel.replicate": 2})
    steps = [weft.train(made, folder / str(number)).trainer.step for number in range(3)]
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=int(os.environ["RANK"]), world_size=2)
    steps.append(weft.train(made, folder / "last").trainer.step)
    torch.distributed.barrier()  # the program's own group is still there
    return steps


def test_a_program_trains_more_than_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "runs").mkdir()
    assert together(2, tmp_path / "a", several, port, tmp_path / "runs") == [[2] * 4] * 2


def test_torchrun_shows_a_refusal_once() -> None:
    words = ["--standalone", "--nproc-per-node=2", "-m", "weft", "train", "rbm/digits", "--parallel.replicate", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode
    assert done.stderr.count("but 2 processes were started") == 1
