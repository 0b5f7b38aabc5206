"""The same network from the same weights learns with its gradients clipped, and does not without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.optimization.exploding_rnn import Settings, exploding, study, train_exploding


def test_it_learns_only_where_gradients_are_clipped() -> None:
    free, clipped = (train_exploding(Settings(), clip, 1) for clip in (0.0, 1.0))
    assert free.losses[0] == clipped.losses[0], "from the same weights and examples"
    assert free.accuracy < 0.5
    assert clipped.accuracy > 0.95
    assert max(norm for _, norm in free.norms) > 5


def test_the_gradient_of_the_first_state_grows_through_its_matrix() -> None:
    """A17 on the layer that models use: the matrix lengthens vectors by its gain, again at every step."""
    layer = exploding(Settings(width=64), 0).rnn
    state = torch.zeros(1, 64, requires_grad=True)
    quiet = torch.zeros(1, 30, layer.inputs)
    with torch.no_grad():
        layer.bias_ih.zero_()
        layer.bias_hh.zero_()
    end = layer(quiet, state={"h": state})[1]["h"]
    (gradient,) = torch.autograd.grad(end[0, 0], state)
    assert gradient.norm() > 1.2**30


def test_a_page_and_settings_that_cannot_be(tmp_path: Path) -> None:
    small = Settings(steps=3, seeds=1, length=4)
    finding = study(small)
    assert len(finding.rows) == 2
    finding.write(tmp_path / "page.html")
    assert "norm of its gradient, before clipping" in (tmp_path / "page.html").read_text()
    for wrong in ({"clip": 0.0}, {"steps": 0}, {"seeds": 0}):
        with pytest.raises(ConfigError, match="expected length, width"):
            study(dataclasses.replace(small, **wrong))  # type: ignore[arg-type]
