"""Tensors in files: every kind comes back, pieces become wholes, and what is missing or malformed is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import CheckpointError
from weft.training.checkpoint import tensors


def test_every_kind_of_number_comes_back_from_a_mapped_file(tmp_path: Path) -> None:
    given = {name: torch.arange(6).view(2, 3).to(dtype) for name, dtype in tensors.DTYPES.items()}
    given |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3)}
    (tmp_path / "f").write_bytes(tensors.pack(given))
    for found in (tensors.unpack(tensors.mapped(tmp_path / "f")), tensors.unpack(tensors.pack(given))):
        assert found.keys() == given.keys()
        for name, tensor in given.items():
            assert torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype, name


def test_pieces_of_several_files_make_a_whole() -> None:
    whole = torch.arange(20.0).view(4, 5)
    files = [
        {"w[0,0]": whole[:1], "w[1,0]": whole[1:, :2], "b": torch.ones(3)},
        {"w[1,2]": whole[1:, 2:], "n[2]": torch.tensor([3]), "n[0]": torch.tensor([1, 2])},
    ]
    found = tensors.wholes([tensors.pack(file) for file in files], "here")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"w": whole.tolist(), "b": [1.0] * 3, "n": [1, 2, 3]}
    assert list(tensors.below({"a/x": whole, "b/x": whole}, "a/")) == ["x"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([{"w[0]": torch.ones(2), "w[3]": torch.ones(2)}], "here: w lacks pieces"),
        ([{"w[1]": torch.ones(2)}], "here: w lacks pieces"),
        ([{"w[0]": torch.ones(2)}, {"w": torch.ones(4)}], "here: w lacks pieces"),
        ([{"w[0]": torch.ones(2)}, {"w[0,2]": torch.ones(2, 2)}], "here: w has pieces of several shapes"),
    ],
)
def test_pieces_that_make_no_whole(files: list[dict[str, torch.Tensor]], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        dict(tensors.wholes([tensors.pack(file) for file in files], "here"))


@pytest.mark.parametrize("data", [b"", b"\x10" + b"\0" * 7, b"\x02" + b"\0" * 7 + b"[]", tensors.pack({"a": torch.ones(9)})[:-8]])
def test_what_is_not_in_the_form_of_safetensors(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="here is not in the form of safetensors"):
        tensors.wholes([data], "here")


def test_names_of_files() -> None:
    assert [tensors.numbered("model.safetensors", rank) for rank in (0, 3)] == ["model.safetensors", "model-3.safetensors"]
    assert [tensors.kind(name) for name in ("model-3.safetensors", "ema.safetensors", "recipe.json")] == [
        "model.safetensors",
        "ema.safetensors",
        "recipe.json",
    ]
