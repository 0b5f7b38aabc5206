"""Sums over the paths of CTC, against all paths one by one."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from weft.nn.alignment import ctc


def collapse(path: tuple[int, ...]) -> list[int]:
    return [label for place, label in enumerate(path) if label and (not place or label != path[place - 1])]


@pytest.mark.parametrize("labels", [[], [1], [1, 1], [1, 2], [2, 1, 2]])
@pytest.mark.parametrize("frames", [1, 3, 5])
def test_sum_of_all_paths(labels: list[int], frames: int) -> None:
    log_probs = torch.randn(1, frames + 2, 3, dtype=torch.float64).log_softmax(-1)
    padded = torch.tensor([[*labels, 1, 2]])
    paths = [path for path in product(range(3), repeat=frames) if collapse(path) == labels]
    each = [sum(log_probs[0, time, label] for time, label in enumerate(path)) for path in paths]
    states = ctc.states_of(padded, 0)
    emitted = log_probs.gather(2, states[:, None].expand(-1, frames + 2, -1))
    total, share = ctc.forward_backward(emitted, ctc.may_skip(states, 0), torch.tensor([frames]), torch.tensor([len(labels)]))
    if not paths:
        assert total.item() == float("-inf") and not share.any()
        return
    torch.testing.assert_close(total[0], torch.stack(each).logsumexp(0))
    torch.testing.assert_close(share.sum(-1)[0, :frames], torch.ones(frames, dtype=torch.float64))  # every path has one state in a frame
    assert not share[:, frames:].any()


def test_sums_by_label_are_those_of_a_product_with_ones() -> None:
    labels, values = torch.randint(0, 6, (3, 9)), torch.randn(3, 4, 9, dtype=torch.float64)
    expected = values @ torch.nn.functional.one_hot(labels, 6).double()
    torch.testing.assert_close(ctc.summed_by_label(values, labels, 6), expected)
    assert ctc.summed_by_label(values[:, :, :0], labels[:, :0], 6).shape == (3, 4, 6)
