"""Model folders of others: whole or in parts; hostile ones are refused with one line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from weft.convert import folder
from weft.core.errors import CheckpointError

CONFIG = {"model_type": "gpt2"}


def made(path: Path, config: object = CONFIG, parts: int = 1) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    tensors = {f"t{i}": torch.full((2, 3), float(i)) for i in range(6)}
    if parts == 1:
        save_file(tensors, path / "model.safetensors")
        return path
    names = {f"t{i}": f"model-{i % parts:05d}-of-{parts:05d}.safetensors" for i in range(6)}
    for name in set(names.values()):
        save_file({key: tensors[key] for key in tensors if names[key] == name}, path / name)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return path


@pytest.mark.parametrize("parts", [1, 3])
def test_one_file_or_several(tmp_path: Path, parts: int) -> None:
    found = folder.read(made(tmp_path / "m", parts=parts))
    assert found.config == CONFIG
    assert {name: float(tensor.mean()) for name, tensor in found.tensors.items()} == {f"t{i}": float(i) for i in range(6)}


def only_pickles(path: Path) -> None:
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(path)))


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path / "BOOM",))


def index(names: object) -> Callable[[Path], None]:
    return lambda path: (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names})) and None


def content(data: bytes) -> Callable[[Path], None]:
    return lambda path: (path / "model.safetensors").write_bytes(data) and None


HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    (only_pickles, "a format that can run code when it is read"),
    (lambda path: (path / "model.safetensors").unlink(), "holds no weights"),
    (lambda path: (path / "config.json").unlink(), r"holds no config\.json"),
    (lambda path: (path / "config.json").write_text("{"), "is no JSON"),
    (lambda path: (path / "config.json").write_text("[" * 100_000), "is no JSON"),
    (lambda path: (path / "config.json").write_text("[1]"), "holds no JSON object"),
    (lambda path: (path / "config.json").write_text('{"auto_map": {"AutoModel": "evil.Model"}}'), "runs no code"),
    (index({"t0": "../../etc/passwd"}), "only safetensors files beside it"),
    (index({"t0": "/etc/model.safetensors"}), "only safetensors files beside it"),
    (index({"t0": "a\\b.safetensors"}), "only safetensors files beside it"),
    (index({"t0": "evil.py"}), "only safetensors files beside it"),
    (index({"t0": 3}), "holds no weight_map"),
    (index([]), "holds no weight_map"),
    (index({"t0": "absent.safetensors"}), "cannot be read"),
    (content(b""), "no safetensors file"),
    (content((1 << 60).to_bytes(8, "little") + b"{}"), "header claims"),
    (content((99 << 20).to_bytes(8, "little") + b"{}"), "header claims"),
    (content((2).to_bytes(8, "little") + b"[]"), "no safetensors file"),
    (content(b'\x40\0\0\0\0\0\0\0{"t":{"dtype":"F32","shape":[99999999],"data_offsets":[0,4]}}     '), "no safetensors file"),
    (lambda path: save_file({"x": torch.ones(1)}, path / "other.safetensors"), "2 safetensors files but no"),
]


@pytest.mark.parametrize(("spoil", "said"), HOSTILE)
def test_hostile_folders_are_refused_with_one_line(tmp_path: Path, spoil: Callable[[Path], object], said: str) -> None:
    path = made(tmp_path / "m")
    spoil(path)
    with pytest.raises(CheckpointError, match=said) as caught:
        folder.read(path)
    assert "\n" not in str(caught.value)
    assert not (path / "BOOM").exists()


def test_a_tensor_in_two_files_is_an_error(tmp_path: Path) -> None:
    path = made(tmp_path / "m", parts=3)
    save_file({"t0": torch.ones(1)}, path / "model-00001-of-00003.safetensors")
    with pytest.raises(CheckpointError, match="'t0' is in another file too"):
        folder.read(path)


def test_a_tensor_that_the_index_names_in_vain_is_an_error(tmp_path: Path) -> None:
    path = made(tmp_path / "m", parts=3)
    save_file({"t3": torch.ones(1)}, path / "model-00000-of-00003.safetensors")
    with pytest.raises(CheckpointError, match=r"index\.json: names 't0', which none of its files holds"):
        folder.read(path)
