"""What two commits are compared by: a changed weight or sample is told, another name is a note."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from weft.training.checkpoint.tensors import pack

RELIABILITY = Path(__file__).parents[2] / "reliability"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RELIABILITY / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known(**changes: Any) -> dict[str, Any]:
    """What is known of a recipe."""
    weights = [["in.weight", "F32 [2, 3]", "aa"], ["in.bias", "F32 [2]", "00"], ["out.bias", "F32 [2]", "00"]]
    outputs = {"greedy": {"code": 0, "sha256": "cc", "begin": "the cat"}, "sheet": {"code": 2, "message": "draws nothing"}}
    return {"weights": weights, "training": "bb", "validation": {"loss": 1.5}, "outputs": outputs, "drawn": ""} | changes


def test_what_is_equal_is_not_told_and_another_name_is_a_note() -> None:
    differences = script("compare_commits").differences
    assert differences(known(), known()) == ([], [])
    renamed = known(weights=[["up.weight", "F32 [2, 3]", "aa"], ["up.bias", "F32 [2]", "00"], ["out.bias", "F32 [2]", "00"]])
    wrong, notes = differences(known(), renamed)
    assert wrong == []
    assert len(notes) == 1
    assert "in.weight -> up.weight" in notes[0]
    assert "in.bias -> up.bias" in notes[0]
    assert "out.bias" not in notes[0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"weights": [["in.weight", "F32 [2, 3]", "ab"], *known()["weights"][1:]]}, "in.weight"),
        ({"weights": [["in.weight", "F32 [3, 2]", "aa"], *known()["weights"][1:]]}, "in.weight"),
        ({"weights": known()["weights"][:2]}, "more or less often"),
        ({"training": "bc"}, "optimisers"),
        ({"validation": {"loss": 1.6}}, "1.6"),
        ({"drawn": "dd"}, "drawn"),
        ({"outputs": {"greedy": {"code": 0, "sha256": "ce", "begin": "the dog"}}}, "the dog"),
        ({"outputs": {"greedy": {"code": 1, "message": "broken"}}}, "broken"),
        ({"error": "ConfigError: no recipe"}, "no recipe"),
    ],
)
def test_what_differs_is_told(changes: dict[str, Any], told: str) -> None:
    wrong, _ = script("compare_commits").differences(known(), known(**changes))
    assert told in " ".join(wrong)


def test_what_is_no_longer_refused_is_a_note() -> None:
    outputs = {**known()["outputs"], "sheet": {"code": 0, "sha256": "ff", "begin": "an image"}}
    wrong, notes = script("compare_commits").differences(known(), known(outputs=outputs))
    assert wrong == []
    assert "sheet" in notes[0]


def test_weights_are_read_as_they_are_saved(tmp_path: Path) -> None:
    saved = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.int64)}
    (tmp_path / "model.safetensors").write_bytes(pack(saved))
    found = {name: (kind, sha) for name, kind, sha in script("fingerprint").tensors(tmp_path / "model.safetensors")}
    kinds = {"a": "F32 [2, 3]", "b": "I64 [4]"}
    assert found == {name: (kinds[name], hashlib.sha256(value.numpy().tobytes()).hexdigest()) for name, value in saved.items()}
