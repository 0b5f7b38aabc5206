"""The same network from the same weights learns with its gradients clipped, and does not without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.optimization.exploding_rnn import Recurrent, Settings, sequences, study, train


def test_it_learns_only_where_gradients_are_clipped() -> None:
    free, clipped = (train(Settings(), clip, 1) for clip in (0.0, 1.0))
    assert free.losses[0] == clipped.losses[0], "from the same weights and examples"
    assert free.accuracy < 0.5
    assert clipped.accuracy > 0.95
    assert max(norm for _, norm in free.norms) > 5


def test_it_is_the_recurrence_of_torch() -> None:
    torch.manual_seed(0)
    model, theirs = Recurrent(Settings(width=8)), torch.nn.RNN(5, 8, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(model.read.weight)
        theirs.bias_ih_l0.copy_(model.read.bias)
        theirs.weight_hh_l0.copy_(model.again.weight)
        theirs.bias_hh_l0.zero_()
    x = sequences(6, 9, 0).tensors["x"]
    torch.testing.assert_close(model.classify(x), model.tell(theirs(x)[0][:, -1]))


def test_a_page_and_settings_that_cannot_be(tmp_path: Path) -> None:
    small = Settings(steps=3, seeds=1, length=4)
    finding = study(small)
    assert len(finding.rows) == 2
    finding.write(tmp_path / "page.html")
    assert "norm of its gradient, before clipping" in (tmp_path / "page.html").read_text()
    for wrong in ({"clip": 0.0}, {"steps": 0}, {"seeds": 0}):
        with pytest.raises(ConfigError, match="expected length, width"):
            study(dataclasses.replace(small, **wrong))  # type: ignore[arg-type]
