"""`weft bench parity`: every family from transformers and back, and a difference that is too large ends the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.conftest import Outcome, weft_command
from weft import results
from weft.benchmarks.quality import parity
from weft.benchmarks.references import CASES, KINDS, apart, reference
from weft.core import registry

pytest.importorskip("transformers")


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, cases in CASES.items() for name in cases])
def test_states_and_logits_are_equal_in_both_directions(family: str, name: str, tmp_path: Path) -> None:
    row = parity.compare(family, name, tmp_path)
    assert row["import"] <= parity.TOLERANCE
    assert row["round_trip"] <= 1e-5


ELSEWHERE = {
    "g2p-en": "convert/test_g2p.py",
    "elmo": "convert/test_elmo.py",
    "resemblyzer": "models/audio/test_speaker_encoder.py",
    "timm-resnet": "convert/test_torchvision.py",
    "timm-densenet": "convert/test_torchvision.py",
}
"""Families that transformers does not have, compared with their own equations or with what their own code has computed."""


def test_every_converter_is_compared() -> None:
    assert CASES.keys() == KINDS.keys()
    assert CASES.keys() | ELSEWHERE.keys() == registry.CONVERTERS.keys()
    assert all((Path(__file__).parents[2] / file).is_file() for file in ELSEWHERE.values())
    assert all(len(cases) >= 3 for cases in CASES.values())


@pytest.mark.parametrize("family", CASES)
@torch.no_grad()
def test_no_weight_goes_unseen(family: str) -> None:
    """A comparison that one wrong tensor could escape would prove nothing."""
    model, reads = reference(family, next(iter(CASES[family].values()))), KINDS[family].reads
    given = reads.inputs(model.config)
    expected = reads.theirs(model, given)
    fixed = ("embed_positions", "k_proj.bias", "key.bias")  # Marian's table; and a shift of all keys, which softmax does not see
    for name, parameter in model.named_parameters():
        before = parameter.clone()
        parameter.add_(0.1 * torch.randn_like(parameter))
        seen = apart(reads.theirs(model, given), expected) > parity.TOLERANCE
        parameter.copy_(before)
        assert seen or any(part in name for part in fixed), name


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    """Leaves one comparison, and changes what it found."""

    def leave(changes: dict[str, Any]) -> None:
        compare = parity.compare
        monkeypatch.setattr(parity, "CASES", {"gpt2": dict(list(CASES["gpt2"].items())[:1])})
        monkeypatch.setattr(parity, "compare", lambda *given: compare(*given) | changes)

    return leave


def run(tmp_path: Path) -> Outcome:
    return weft_command("bench", "parity", "--record", str(tmp_path / "parity.json"))


def test_the_command_tells_and_records(one_case: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    one_case({})
    done = run(tmp_path)
    assert done.code == 0, done.err
    assert "GPT-2  " in done.out
    record = results.read(tmp_path / "parity.json")
    assert record.benchmark == "parity" and "transformers" in record.versions
    assert record.table()[0].keys() == {"family", "configuration", "parameters", "import", "round_trip"}


@pytest.mark.parametrize("way", ["import", "round_trip"])
@pytest.mark.parametrize("value", [2e-4, float("inf")])
def test_a_difference_ends_the_command(one_case: Callable[[dict[str, Any]], None], way: str, value: float, tmp_path: Path) -> None:
    one_case({way: value})
    done = run(tmp_path)
    assert done.code == 1
    assert f"weft: parity: gpt2, 2 layers of 32: {value:.1e} apart, more than 1e-04" in done.err


def test_what_is_no_number_is_infinitely_far() -> None:
    assert apart([torch.tensor([1.0, float("nan")])], [torch.zeros(2)]) == float("inf")
    assert apart([torch.ones(2), torch.zeros(2)], [torch.zeros(2), torch.zeros(2)]) == 1.0
