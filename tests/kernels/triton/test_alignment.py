"""Recursions in Triton against the plain ones: on a GPU, or without one by Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from weft.kernels.alignment import transducer_logit_sums
from weft.nn.alignment import ctc, transducer

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero") if INTERPRETED else pytest.mark.gpu

FRAMES, LENGTHS = torch.tensor([11, 9, 5, 3, 1]), torch.tensor([4, 4, 0, 2, 3])


def labels() -> Tensor:
    drawn = torch.randint(1, 7, (5, 4))
    drawn[0] = 3
    return drawn


def near(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-5, rtol=1e-6)


def test_ctc() -> None:
    from weft.kernels.triton.alignment import ctc_forward_backward

    states = ctc.states_of(labels(), 0)
    emitted = torch.randn(5, 11, 7).log_softmax(-1).gather(2, states[:, None].expand(-1, 11, -1))
    given = (emitted, ctc.may_skip(states, 0), FRAMES, LENGTHS)
    near(ctc_forward_backward(*(each.to(DEVICE) for each in given)), ctc.forward_backward(*given))


def test_transducer() -> None:
    from weft.kernels.triton.alignment import transducer_forward_backward

    given = (-torch.rand(5, 11, 5), -torch.rand(5, 11, 4), FRAMES, LENGTHS)
    near(transducer_forward_backward(*(each.to(DEVICE) for each in given)), transducer.forward_backward(*given))


@pytest.mark.parametrize("vocabulary", [7, 5000])
def test_joint_and_its_gradient(vocabulary: int) -> None:
    from weft.kernels.triton.alignment import transducer_logits

    given = (torch.randn(5, 11, 5, vocabulary), FRAMES, labels(), LENGTHS)
    near(transducer_logits(*(each.to(DEVICE) for each in given), 0, True), transducer_logit_sums(*given, 0, True))
