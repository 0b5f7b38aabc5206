"""Losses that are compared are the same, and ratios are those of turns."""

from __future__ import annotations

import pytest
import torch

from weft.benchmarks.training import transducer


def test_losses_are_exact_and_repeat() -> None:
    x = transducer.inputs(3, 9, 4, 7, torch.device("cpu"))
    for kind in (transducer.WHOLE, transducer.PRUNED, transducer.CTC, transducer.PYTORCH_CTC):
        found = transducer.checked(kind, x)
        assert found["same_bits"]
        assert found.get("largest_difference", 0.0) < 1e-5
    assert (transducer.pruned(x) >= transducer.whole(x)).all()
    assert transducer.there(transducer.WHOLE)


def test_ratios() -> None:
    rows = {
        transducer.WHOLE: {"turns": [1.0, 2.0, 4.0], "gib": 1.0},
        transducer.AUDIO: {"turns": [3.0, 4.0, 4.0], "gib": 4.0},
    }
    transducer.ratios(rows)
    assert rows[transducer.WHOLE]["times_torchaudio"] == pytest.approx(2.0)
    assert rows[transducer.WHOLE]["memory_ratio_torchaudio"] == pytest.approx(0.25)
