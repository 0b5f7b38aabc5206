"""A copier with and without location-sensitive and guided attention: what it is tested on, and that it learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.studies.language.monotonic_attention import END, WAYS, Copier, Settings, sequences, study, train
from weft.studies.language.monotonic_attention import test as measure

SMALL = Settings(symbols=3, shortest=2, longest=4, lengths=(3, 6), width=16, steps=4, seeds=1)


@torch.no_grad()
@pytest.mark.parametrize("location", [False, True])
def test_it_says_by_itself_what_teacher_forcing_finds_likeliest(location: bool) -> None:
    torch.manual_seed(0)
    model = Copier(SMALL, location)
    for parameter in model.parameters():
        parameter.mul_(2.0)
    source = sequences(SMALL, 5, 4, 4, 3).tensors["source"]
    said, weights = model.copy(source, 6)
    target = torch.cat([torch.ones_like(said[:, :1]), said[:, :-1]], 1)
    hidden, again = model.decode_with_attention(target, model.encode(source))
    going = torch.cat([torch.ones_like(said[:, :1], dtype=torch.bool), (said[:, :-1] != END)], 1)
    assert torch.equal(model.head(hidden).argmax(-1)[going], said[going])
    torch.testing.assert_close(weights, again)


def test_it_learns_to_copy() -> None:
    settings = Settings(symbols=3, shortest=2, longest=3, lengths=(3,), width=32, steps=120, seeds=1)
    found = measure(settings, train(settings, "location, guided", 1), 3)
    assert found["right"] > 0.8
    assert found["skipped"] < 0.1


def test_a_page_and_settings_that_cannot_be(tmp_path: Path) -> None:
    finding = study(SMALL)
    assert [row[:2] for row in finding.rows] == [(way, length) for way in WAYS for length in ("3", "6")]
    finding.write(tmp_path / "page.html")
    assert "share skipped, by length" in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="longest"):
        study(Settings(shortest=5, longest=4))
