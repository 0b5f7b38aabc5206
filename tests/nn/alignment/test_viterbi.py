"""Forced alignment, against the best of all paths."""

from __future__ import annotations

from itertools import product

import torch

from tests.nn.alignment.test_ctc import collapse
from weft.nn.alignment.viterbi import forced_alignment, spans


def test_the_best_of_all_paths() -> None:
    log_probs = torch.randn(3, 6, 3).log_softmax(-1)
    labels, frames = [[1, 2], [1, 1], [2]], [6, 5, 3]
    padded = torch.tensor([[*each, 0, 0][:2] for each in labels])
    found = forced_alignment(log_probs, torch.tensor(frames), padded, torch.tensor([2, 2, 1]))
    for row in range(3):
        paths = [path for path in product(range(3), repeat=frames[row]) if collapse(path) == labels[row]]
        best = max(paths, key=lambda path: sum(log_probs[row, time, label].item() for time, label in enumerate(path)))
        said = [labels[row][state // 2] if state % 2 else 0 for state in found[row, : frames[row]].tolist()]
        assert said == list(best) and (found[row, frames[row] :] == -1).all()


def test_labels_that_do_not_fit_have_no_path() -> None:
    log_probs = torch.zeros(1, 2, 3).log_softmax(-1)
    assert (forced_alignment(log_probs, torch.tensor([2]), torch.tensor([[1, 1]]), torch.tensor([2])) == -1).all()


def test_spans_of_labels() -> None:
    assert spans([0, 1, 1, 2, 3, -1], 2) == [(1, 3), (4, 5)]
    assert spans([-1, -1], 2) == []
