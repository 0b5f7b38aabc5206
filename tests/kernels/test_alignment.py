"""CTC against PyTorch's, rows that no path leads to, and the same bits twice."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.kernels.alignment import ctc_log_likelihood, transducer_logit_log_likelihood

FRAMES, LABELS = torch.tensor([23, 20, 9, 12, 5, 1]), torch.tensor([6, 5, 0, 6, 2, 0])


def example(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    labels = torch.randint(1, 7, (6, 6))
    labels[0] = 3  # repeated, with a blank between each two
    return torch.randn(6, 23, 7, dtype=dtype, requires_grad=True), labels


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("blank", [0, 6])
def test_ctc_is_that_of_pytorch(dtype: torch.dtype, near: float, blank: int) -> None:
    logits, labels = example(dtype)
    labels = labels if blank == 0 else labels - 1
    weights = torch.linspace(-1, 2, 6, dtype=dtype)
    found = -ctc_log_likelihood(logits.log_softmax(-1), FRAMES, labels, LABELS, blank)
    expected = F.ctc_loss(logits.log_softmax(-1).transpose(0, 1), labels, FRAMES, LABELS, blank, reduction="none")
    assert (found - expected).abs().max() < near
    one, other = (torch.autograd.grad((weights * each).sum(), logits)[0] for each in (found, expected))
    assert (one - other).abs().max() < near


def test_gradient_by_log_probabilities() -> None:
    log_probs = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 1], [2, 3]])
    assert torch.autograd.gradcheck(lambda x: ctc_log_likelihood(x, torch.tensor([4, 3]), labels, torch.tensor([2, 2])), log_probs)


def test_what_cannot_be_aligned_is_infinite_and_has_no_gradient() -> None:
    logits = torch.randn(3, 3, 5, requires_grad=True)
    frames, labels = torch.tensor([3, 3, 0]), torch.tensor([[1, 1, 1], [2, 3, 4], [1, 0, 0]])
    found = ctc_log_likelihood(logits.log_softmax(-1), frames, labels, torch.tensor([3, 3, 1]))
    assert found.isinf().tolist() == [True, False, True]
    found.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    assert logits.grad.flatten(1).any(1).tolist() == [False, True, False]


def test_a_probability_of_zero_is_no_nan() -> None:
    log_probs = torch.randn(1, 4, 3).log_softmax(-1)
    log_probs[:, 1] = float("-inf")
    log_probs[:, 1, 1] = 0.0
    log_probs.requires_grad_()
    found = ctc_log_likelihood(log_probs, torch.tensor([4]), torch.tensor([[1, 2]]), torch.tensor([2]))
    (gradient,) = torch.autograd.grad(found.sum(), log_probs)
    assert found.isfinite().all() and gradient.isfinite().all()


def test_the_compiler_takes_it_as_it_is() -> None:
    logits, labels = example(torch.float32)
    step = torch.compile(lambda x: ctc_log_likelihood(x.log_softmax(-1), FRAMES, labels, LABELS).sum(), backend="aot_eager", fullgraph=True)
    found, expected = step(logits), ctc_log_likelihood(logits.log_softmax(-1), FRAMES, labels, LABELS).sum()
    one, other = (torch.autograd.grad(each, logits)[0] for each in (found, expected))
    assert torch.equal(found, expected) and torch.equal(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["ctc", "transducer"])
def test_two_runs_on_a_gpu_are_equal_to_the_bit(kind: str) -> None:
    frames, lengths = torch.full((16,), 200, device="cuda"), torch.full((16,), 40, device="cuda")
    labels = torch.randint(1, 30, (16, 40), device="cuda")
    logits = torch.randn((16, 200, 30) if kind == "ctc" else (16, 200, 41, 30), device="cuda", requires_grad=True)

    def loss() -> Tensor:
        if kind == "ctc":
            return ctc_log_likelihood(logits.log_softmax(-1), frames, labels, lengths)
        return transducer_logit_log_likelihood(logits, frames, labels, lengths)

    first, (gradient,) = loss(), torch.autograd.grad(loss().sum(), logits)
    for _ in range(5):
        assert torch.equal(loss(), first) and torch.equal(torch.autograd.grad(loss().sum(), logits)[0], gradient)
