"""Sums over the paths of a transducer, against all paths one by one; in a band, and with a joint in parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.kernels.alignment import transducer_log_likelihood, transducer_logit_log_likelihood
from weft.nn.alignment.gather import pick_labels, take_rows
from weft.nn.alignment.joint import joint_log_probs
from weft.nn.alignment.pruned import additive_joint, band_joint, band_starts, band_symbols
from weft.nn.alignment.transducer import forward_backward, skewed, unskewed

FRAMES, LABELS = torch.tensor([6, 4, 1, 5]), torch.tensor([3, 4, 2, 0])


def enumerated(blank: Tensor, label: Tensor, frames: int, labels: int) -> Tensor:
    """log of the sum over all paths, one after the other."""
    paths: list[Tensor] = []

    def walk(frame: int, said: int, before: Tensor) -> None:
        if said < labels:
            walk(frame, said + 1, before + label[frame, said])
        if frame < frames - 1:
            walk(frame + 1, said, before + blank[frame, said])
        elif said == labels:
            paths.append(before + blank[frame, said])

    walk(0, 0, blank.new_zeros(()))
    return torch.stack(paths).logsumexp(0)


def lattice() -> tuple[Tensor, Tensor]:
    return (-torch.rand(4, 6, size, dtype=torch.float64) for size in (5, 4))  # type: ignore[return-value]


def test_sum_of_all_paths_and_its_gradient() -> None:
    blank, label = (each.requires_grad_() for each in lattice())
    total = transducer_log_likelihood(blank, label, FRAMES, LABELS)
    expected = torch.stack([enumerated(blank[i], label[i], int(FRAMES[i]), int(LABELS[i])) for i in range(4)])
    torch.testing.assert_close(total, expected, atol=1e-12, rtol=0)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    found = torch.autograd.grad((weights * total).sum(), (blank, label))
    wanted = torch.autograd.grad((weights * expected).sum(), (blank, label))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_in_fp32_it_is_exact_to_1e5() -> None:
    blank, label = lattice()
    single = [each.float().requires_grad_() for each in (blank, label)]
    total = transducer_log_likelihood(*single, FRAMES, LABELS)  # type: ignore[arg-type]
    expected, by_blank, by_label = forward_backward(blank, label, FRAMES, LABELS)
    assert (total - expected).abs().max() < 1e-5
    for one, other in zip(torch.autograd.grad(total.sum(), single), (by_blank, by_label), strict=True):
        assert (one - other).abs().max() < 1e-5


def test_a_row_without_any_path_has_no_gradient() -> None:
    blank, label = lattice()
    blank[0, 2] = float("-inf")
    total, by_blank, by_label = forward_backward(blank, label, FRAMES, LABELS)
    assert total[0] == float("-inf") and not by_blank[0].any() and not by_label[0].any()
    assert total[1:].isfinite().all() and by_blank.isfinite().all()


def test_logits_of_a_joint() -> None:
    logits, labels = torch.randn(4, 6, 5, 7, dtype=torch.float64, requires_grad=True), torch.randint(1, 7, (4, 4))
    log_probs = logits.log_softmax(-1)
    label = log_probs[:, :, :-1].gather(3, labels[:, None, :, None].expand(-1, 6, -1, -1)).squeeze(3)
    expected = transducer_log_likelihood(log_probs[..., 0], label, FRAMES, LABELS)
    total = transducer_logit_log_likelihood(logits, FRAMES, labels, LABELS)
    torch.testing.assert_close(total, expected)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    wanted, found = (torch.autograd.grad((weights * each).sum(), logits)[0] for each in (expected, total))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("step", [1, 4, 100])
def test_a_joint_in_parts_is_the_joint(step: int) -> None:
    frames, symbols, labels = (
        torch.randn(2, 6, 3, requires_grad=True),
        torch.randn(2, 4, 3, requires_grad=True),
        torch.randint(1, 5, (2, 3)),
    )
    head = nn.Linear(3, 5)

    def joiner(some: Tensor, before: Tensor) -> Tensor:
        out: Tensor = head(torch.tanh(some + before))
        return out

    logits = joiner(frames[:, :, None], symbols[:, None])
    lengths = torch.tensor([6, 5]), torch.tensor([3, 2])
    whole = transducer_logit_log_likelihood(logits, lengths[0], labels, lengths[1])
    parts = transducer_log_likelihood(*joint_log_probs(joiner, frames, symbols, labels, 0, step), *lengths)
    torch.testing.assert_close(parts, whole)
    for one, other in zip(*(torch.autograd.grad(each.sum(), (frames, symbols, head.weight)) for each in (parts, whole)), strict=True):
        torch.testing.assert_close(one, other)


def test_skewing_and_back() -> None:
    x = torch.randn(2, 5, 3)
    turned = skewed(x)
    assert turned.shape == (7, 2, 3)
    assert all(torch.equal(turned[n, :, u], x[:, n - u, u]) for n in range(7) for u in range(3) if 0 <= n - u < 5)
    assert torch.equal(unskewed(turned, 5), x)


def test_the_joint_that_adds_is_a_softmax_of_sums() -> None:
    frames, symbols, labels = (
        torch.randn(2, 6, 5, dtype=torch.float64),
        torch.randn(2, 4, 5, dtype=torch.float64),
        torch.randint(1, 5, (2, 3)),
    )
    log_probs = (frames[:, :, None] + symbols[:, None]).log_softmax(-1)
    blank, label = additive_joint(frames, symbols, labels, 0)
    torch.testing.assert_close(blank, log_probs[..., 0])
    torch.testing.assert_close(label, log_probs[:, :, :-1].gather(3, labels[:, None, :, None].expand(-1, 6, -1, -1)).squeeze(3))


@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_a_band_bounds_the_loss_and_all_of_it_is_exact(width: int) -> None:
    logits, labels = torch.randn(4, 6, 5, 7, dtype=torch.float64), torch.randint(1, 7, (4, 4))
    exact = transducer_logit_log_likelihood(logits, FRAMES, labels, LABELS)
    _, by_blank, by_label = forward_backward(*lattice(), FRAMES, LABELS)
    starts = band_starts(by_blank, by_label, FRAMES, LABELS, width)
    symbols = band_symbols(starts, width, 5)
    banded = logits.gather(2, symbols[..., None].expand(-1, -1, -1, 7))
    pruned = transducer_log_likelihood(*band_joint(banded, starts, labels, 0), FRAMES, LABELS)
    assert (pruned <= exact + 1e-12).all()
    if width >= 5:
        torch.testing.assert_close(pruned, exact)
    wide_enough = (width - 1) * (FRAMES - 1) + width > LABELS
    assert pruned[wide_enough].isfinite().all()


def test_a_band_moves_on_as_paths_do() -> None:
    blank, label = -4 * torch.rand(3, 20, 16), -4 * torch.rand(3, 20, 15)
    frames, labels = torch.tensor([20, 17, 9]), torch.tensor([15, 9, 15])
    _, by_blank, by_label = forward_backward(blank, label, frames, labels)
    starts = band_starts(by_blank, by_label, frames, labels, 4)
    step = starts.diff(dim=1)
    assert (starts[:, 0] == 0).all() and (step >= 0).all() and (step <= 3).all()
    assert torch.equal(starts[torch.arange(3), frames - 1], (labels + 1 - 4).clamp(min=0))


def test_taking_has_the_gradient_of_indexing() -> None:
    x, labels, index = (
        torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True),
        torch.randint(0, 5, (2, 6)),
        torch.randint(0, 4, (2, 3, 2)),
    )
    assert torch.autograd.gradcheck(lambda x: pick_labels(x, labels), x)
    assert torch.autograd.gradcheck(lambda x: take_rows(x, index), x)
    assert torch.equal(take_rows(x, index)[1, 2, 0], x[1, index[1, 2, 0]])
