"""Exposure bias and error propagation: the measures by hand, and both studies on models that have hardly learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import weft
from tests.encoder_decoders import batch, transformer
from weft.core.errors import ConfigError
from weft.data.tokenizers.special_tokens import END, START
from weft.models.language.transformer import TransformerConfig
from weft.nn.state import EncoderDecoderState, RecurrentState
from weft.studies.language import error_propagation
from weft.studies.language.error_propagation import by_distance, forced
from weft.studies.language.exposure_bias import Settings, Subject, by_position, overall, spread, study

V, N = 9, 5


class Counts(torch.nn.Module):
    """Says the successor of the last token: right behind true tokens of a row that counts, and off for ever behind a wrong one."""

    config = TransformerConfig(vocabulary=V, context=20)

    def new_state(self) -> EncoderDecoderState:
        return EncoderDecoderState(RecurrentState({"h": (1,)}, torch.zeros(())))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        return source.float().unsqueeze(-1)

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: Any = None) -> Tensor:
        return target

    def hidden(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return target

    def head(self, hidden: Tensor) -> Tensor:
        said = torch.where(hidden == START, 3, (hidden + 1) % V)
        return torch.nn.functional.one_hot(said, V).float() + torch.linspace(0, 0.1, V)


def counting(last: int) -> Subject:
    """3, 4, 5, 6 and then `last`; the model says 7."""
    target = torch.tensor([[START, 3, 4, 5, 6, last], [START, 3, 4, 5, END, 0]])
    lengths = {"source_length": torch.tensor([2, 2]), "target_length": torch.tensor([6, 5])}
    return Subject(Counts(), {"source": torch.tensor([[3, END], [3, END]]), "target": target, **lengths}, START)


def test_measures_by_hand() -> None:
    one = counting(8)
    wrong, counted = one.taught()
    assert counted.tolist() == [[True] * 5, [True] * 4 + [False]]
    assert (wrong & counted).tolist() == [[False] * 4 + [True], [False] * 3 + [True, False]]
    assert overall(wrong, counted) == pytest.approx(2 / 9)
    assert by_position(wrong, counted) == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert torch.equal(one.greedy()[0] & counted, wrong & counted)  # it never errs before, so its own tokens are the true ones
    misled, _ = forced(one, 1)  # it reads 8, the largest of what it did not want to say
    assert (misled & counted).tolist() == [[False, False, True, True, True], [False, False, True, True, False]]
    after, anyway = by_distance(one, error_propagation.Settings(positions=(2,), distance=3))
    assert after == [1.0, 1.0, 1.0] and anyway == [0.0, 0.5, 1.0]
    assert spread([0.01, 0.03]) == "2.00 ± 1.41 %"


def test_greedy_and_taught_agree_on_the_first_token() -> None:
    one = Subject(transformer(scale=3.0).eval(), {name: value[:3] for name, value in batch().items()}, START)
    (taught, counted), (alone, _) = one.taught(), one.greedy()
    assert torch.equal(taught[:, 0], alone[:, 0]) and counted[:, 0].all()
    assert torch.equal(forced(one, 2)[0][:, :3], alone[:, :3])  # what comes before the forced token stays


def test_both_studies(tmp_path: Path) -> None:
    small: dict[str, Any] = {"steps": 6, "width": 16, "limit": 100, "examples": 10, "seeds": (1, 2)}
    found = study(Settings(**small))
    assert [row[0] for row in found.rows] == ["teacher forcing", "scheduled sampling"] and all("±" in row[3] for row in found.rows)
    assert "2 seeds, 6 steps each" in found.claim
    found.write(tmp_path / "page.html")
    other = error_propagation.study(error_propagation.Settings(**small, distance=4))
    assert len(other.rows) == 2 and other.head[2] == "at distance 4"
    with pytest.raises(ConfigError, match="expected positions from 1 on"):
        error_propagation.study(error_propagation.Settings(**small, positions=()))
    with pytest.raises(ConfigError, match="expected seeds"):
        study(Settings(**{**small, "seeds": ()}))


def test_a_run_of_ones_own(tmp_path: Path) -> None:
    sizes = {"data.pairs": 90, "data.limit": 100, "data.max_length": 16, "model.layers": 1, "model.width": 16, "model.heads": 2}
    short = {"train.steps": 2, "train.batch": 4, "train.device": "cpu", "train.eval_every": 0}
    weft.train(weft.recipe("transformer/numbers", {**sizes, **short}), out=tmp_path / "run")
    found = study(Settings(run=str(tmp_path / "run"), examples=5))
    assert len(found.rows) == 1 and str(tmp_path / "run") in found.claim
    assert len(error_propagation.study(error_propagation.Settings(run=str(tmp_path / "run"), examples=5)).rows) == 1
