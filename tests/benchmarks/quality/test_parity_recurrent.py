"""The bench of recurrent models of others: their code runs without what it does not need, and differences are those of arrays."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.benchmarks.quality import parity_recurrent
from weft.benchmarks.quality.parity_recurrent import imported, rows_of


def test_a_package_is_imported_without_what_prepares_its_inputs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "strange_voices").mkdir()
    (tmp_path / "strange_voices" / "__init__.py").write_text("")
    (tmp_path / "strange_voices" / "network.py").write_text("import inflect\nfrom nltk.corpus import cmudict\nANSWER = 42\n")
    before = set(sys.modules), list(sys.path)
    with imported(tmp_path, "strange_voices.network") as module:
        assert module.ANSWER == 42
    assert not [name for name in set(sys.modules) - before[0] if name.startswith(("strange_voices", "inflect", "nltk"))]
    assert sys.path == before[1]


def test_differences_are_told_with_the_largest_number() -> None:
    pairs = [(torch.tensor([1.0, 2.0]), np.array([1.0, 2.5])), (torch.tensor([-7.0]), np.array([-7.25]))]
    (row,) = rows_of({"model": "a"}, "fp32", {"h": pairs})
    assert row == {"model": "a", "layer": "h", "precision": "fp32", "largest_difference": 0.5, "largest_number": 7.25}


def test_too_large_a_difference_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def rows(apart: float) -> list[dict[str, object]]:
        return [{"model": "a", "layer": "h", "precision": each, "largest_difference": apart} for each in ("fp32", "fp64")]

    for name, apart in (("g2p", 0.0), ("resemblyzer", 1e-9)):
        monkeypatch.setattr(parity_recurrent, name, lambda folder, apart=apart: rows(apart))
    parity_recurrent.main(["--record", str(tmp_path / "found.json")])
    assert (tmp_path / "found.json").exists()
    monkeypatch.setattr(parity_recurrent, "g2p", lambda folder: rows(1e-3))
    with pytest.raises(Exception, match=r"1\.0e-03 apart in fp64"):
        parity_recurrent.main([])
