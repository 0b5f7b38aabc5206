"""Checkpoint folders: what goes in comes out, damage is found, names mean what they say."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from weft.core.errors import CheckpointError
from weft.training.checkpoint import checkpoint
from weft.training.parallel.team import Team


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.arange(3))
        self.register_buffer("none", torch.zeros(0))


def content(value: float) -> dict[str, bytes]:
    tensors = {"w": torch.full((50,), value)}
    return {
        "recipe.json": checkpoint.encode({"value": value}),
        "model.safetensors": checkpoint.pack(tensors),
        "metrics.json": checkpoint.encode({"best": False}),
        "training.safetensors": checkpoint.pack(tensors),
        "training.json": checkpoint.encode({"step": int(value)}),
    }


def make_run(run: Path, steps: tuple[int, ...] = (10, 20, 30), best: tuple[int, ...] = ()) -> Path:
    run.mkdir(exist_ok=True)
    for step in steps:
        files = content(float(step)) | {"metrics.json": checkpoint.encode({"best": step in best})}
        checkpoint.save(run / "checkpoints" / f"{step:08d}", files)
        checkpoint.mark_saved(run, step)
    return run


# -- tensors ----------------------------------------------------------------------------------------------------------------


def test_a_tied_tensor_is_written_once_and_loads_into_both_names(device: torch.device) -> None:
    model, other = Tied().to(device), Tied().to(device)
    data = checkpoint.pack(model.state_dict())
    stored = checkpoint.Checkpoint(Path(), {"m": data}).tensors("m")
    assert set(stored) == {"embed.weight", "steps", "none"}
    checkpoint.load_weights(other, stored, "here")
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
    assert other.head.weight is other.embed.weight


def test_a_square_matrix_and_its_transpose_are_two_tensors() -> None:
    matrix = torch.randn(3, 3)
    stored = checkpoint.Checkpoint(Path(), {"m": checkpoint.pack({"a": matrix, "b": matrix.T})}).tensors("m")
    assert torch.equal(stored["a"], matrix)
    assert torch.equal(stored["b"], matrix.T)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("embed.weight"), "missing embed.weight"),
        (lambda t: t.update(extra=torch.zeros(1)), "unknown extra"),
        (lambda t: t.update(steps=torch.zeros(2)), "other shape steps"),
    ],
)
def test_weights_that_do_not_fit_are_named(change: object, message: str) -> None:
    model = Tied()
    tensors = {name: value for name, value in model.state_dict().items() if name != "head.weight"}
    change(tensors)  # type: ignore[operator]
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load_weights(model, tensors, "here")


# -- folders ----------------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    files = content(1.0)
    checkpoint.save(tmp_path / "c", files)
    assert checkpoint.read(tmp_path / "c").files == files
    assert set(checkpoint.read(tmp_path / "c", only=checkpoint.INFERENCE).files) == {"recipe.json", "model.safetensors", "metrics.json"}
    assert checkpoint.read(tmp_path / "c").json("recipe.json") == {"value": 1.0}


def test_nothing_is_pickled(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", content(1.0))
    assert {p.suffix for p in (tmp_path / "c").iterdir()} == {".json", ".safetensors"}


def damage(path: Path, how: str, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(data[: chance.randrange(len(data))])
    else:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["flip", "truncate", "delete"])
def test_damage_is_found_and_the_one_before_is_used(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    chance, run = random.Random(how), make_run(tmp_path)
    for victim in chance.choices(sorted((run / "checkpoints" / "00000030").iterdir()), k=100):
        whole = victim.read_bytes()
        damage(victim, how, chance)
        found = checkpoint.newest(run)
        victim.write_bytes(whole)
        assert found is not None
        assert found.path.name == "00000020", victim
        assert "trying another" in caplog.text


def test_a_run_with_nothing_left_is_an_error_not_a_new_beginning(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for folder in checkpoint.folders(run):
        (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="3 damaged"):
        checkpoint.newest(run)
    for folder in checkpoint.folders(run):
        checkpoint.files.remove_folder(folder)
    with pytest.raises(CheckpointError, match="the run had saved before"):
        checkpoint.newest(run)


def test_a_run_that_never_saved_begins() -> None:
    assert checkpoint.newest(Path("nowhere")) is None


def test_a_newer_format_is_said_to_be_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    checkpoint.save(tmp_path / "c", content(1.0))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="newer weft"):
        checkpoint.read(tmp_path / "c")


def test_an_older_format_is_upgraded_once_per_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path / "c", content(1.0))
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 2)
    upgrades = {checkpoint.FORMAT - 2: lambda f: {**f, "a": b"1"}, checkpoint.FORMAT - 1: lambda f: {**f, "b": f["a"] + b"2"}}
    monkeypatch.setattr(checkpoint, "UPGRADES", upgrades)
    assert checkpoint.read(tmp_path / "c").files["b"] == b"12"


@pytest.mark.parametrize(("binary", "how"), [(True, "threshold"), (False, "none")])
def test_a_recipe_that_said_binary_says_how(binary: bool, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 1)
    recipe = {"data": {"type": "digits", "binary": binary, "flat": True}, "model": {}}
    checkpoint.save(tmp_path / "c", content(1.0) | {"recipe.json": checkpoint.encode(recipe)})
    monkeypatch.undo()
    assert checkpoint.read(tmp_path / "c").json("recipe.json")["data"] == {"type": "digits", "binarise": how, "flat": True}
    assert "recipe.json" not in checkpoint.read(tmp_path / "c", only=("metrics.json",)).files


# -- parts ------------------------------------------------------------------------------------------------------------------


class Thread(Team):
    """One of two threads that do as processes do."""

    processes, main_pid = 2, 77

    def __init__(self, rank: int, table: list[Any], barrier: threading.Barrier):
        self.rank, self.table, self.barrier = rank, table, barrier

    def all_gather_object(self, thing: Any) -> list[Any]:
        self.table[self.rank] = thing
        self.barrier.wait()
        told = list(self.table)
        self.barrier.wait()
        return told


def saved_by_two(path: Path, second: dict[str, bytes]) -> list[OSError | None]:
    """What each of two writers of one checkpoint meets."""
    table, barrier = [None, None], threading.Barrier(2)
    first = content(1.0) | {"model.safetensors": checkpoint.pack({"w[0]": torch.zeros(3)})}

    def work(rank: int) -> OSError | None:
        try:
            checkpoint.save(path, second if rank else first, Thread(rank, table, barrier))
        except OSError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(2)))


def test_two_write_one_checkpoint(tmp_path: Path) -> None:
    path = checkpoint.folder(tmp_path, 40)
    path.parent.mkdir()
    make_run(tmp_path)
    assert saved_by_two(path, {"model-1.safetensors": checkpoint.pack({"w[3]": torch.ones(2)})}) == [None, None]
    found = checkpoint.read(path, only=checkpoint.INFERENCE)
    assert set(found.files) == {"recipe.json", "model.safetensors", "model-1.safetensors", "metrics.json"}
    assert found.tensors("model.safetensors")["w"].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert checkpoint.find(f"{tmp_path}@average1").tensors("model.safetensors")["w"].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    (path / "model-1.safetensors").unlink()
    newest = checkpoint.newest(tmp_path)
    assert newest and newest.path.name == "00000030"


def test_where_one_cannot_write_neither_has_saved(tmp_path: Path) -> None:
    path = tmp_path / "c"
    assert [type(error) for error in saved_by_two(path, {"no folder/model-1.safetensors": b""})] == [FileNotFoundError] * 2
    assert list(tmp_path.iterdir()) == []


# -- names ------------------------------------------------------------------------------------------------------------------


def test_names_of_checkpoints(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run@home", best=(10, 20))
    plain = make_run(tmp_path / "plain")
    assert checkpoint.resolve(plain).name == "00000030"
    assert checkpoint.resolve(f"{plain}@10").name == "00000010"
    assert checkpoint.resolve(plain / "checkpoints" / "00000020").name == "00000020"
    assert checkpoint.resolve(f"{run}@last").name == "00000030"
    assert checkpoint.resolve(run).name == "00000020"
    with pytest.raises(CheckpointError, match="no checkpoint of step 15; there are 10, 20, 30"):
        checkpoint.resolve(f"{plain}@15")
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        checkpoint.resolve(tmp_path / "absent")


def test_a_model_of_others_is_to_be_converted_first(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    for path in (tmp_path, tmp_path / "model.gguf"):
        with pytest.raises(CheckpointError, match=f"make it one of ours first: weft convert {path} runs/NAME"):
            checkpoint.resolve(path)


def test_where_the_best_is_damaged_another_stands_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run(tmp_path, best=(10, 20))
    (run / "checkpoints" / "00000020" / "model.safetensors").unlink()
    assert checkpoint.find(run).path.name == "00000030"
    assert "00000020: model.safetensors cannot be read" in caplog.text and "trying another" in caplog.text
    for name in (f"{run}@20", run / "checkpoints" / "00000020"):  # one that was named is that one
        with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read"):
            checkpoint.find(name)


def test_pruning_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=(10, 20, 30, 40, 50), best=(10, 20))
    checkpoint.prune(run, keep=2, step=50)
    assert [int(p.name) for p in checkpoint.folders(run)] == [20, 40, 50]


def test_the_manifest_lists_every_file(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", content(1.0))
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert set(manifest["files"]) == {p.name for p in (tmp_path / "c").iterdir()} - {"manifest.json"}
