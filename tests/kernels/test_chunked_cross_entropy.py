"""The loss of tokens in chunks of logits: the plain one's value and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.data.base import IGNORE
from weft.kernels import chunked_cross_entropy as module
from weft.kernels.chunked_cross_entropy import add_product, chunk_rows, chunked_cross_entropy, chunked_loss, row_losses


def given(rows: int = 37, width: int = 12, vocabulary: int = 29) -> tuple[nn.Linear, Tensor, Tensor]:
    torch.manual_seed(0)
    targets = torch.randint(0, vocabulary, (rows,))
    targets[::5] = IGNORE
    return nn.Linear(width, vocabulary, bias=False), torch.randn(rows, width, requires_grad=True), targets


def found(head: nn.Linear, hidden: Tensor, targets: Tensor, logits: str) -> list[Tensor]:
    loss = chunked_cross_entropy(head, hidden, targets, logits) / 7
    return [loss, *torch.autograd.grad(loss, [hidden, head.weight])]


@pytest.mark.parametrize("held", [29, 29 * 10, 1 << 20])
def test_chunks_give_the_plain_loss_and_gradients(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(module, "CHUNK", held)
    head, hidden, targets = given()
    for one, other in zip(found(head, hidden, targets, "whole"), found(head, hidden, targets, "chunked"), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-6)


def test_states_of_any_shape() -> None:
    head, hidden, targets = given(rows=24)
    one = chunked_cross_entropy(head, hidden.view(2, 3, 4, 12), targets.view(2, 3, 4), "chunked")
    torch.testing.assert_close(one, chunked_cross_entropy(head, hidden, targets))


def test_without_gradients_only_the_loss_is_made() -> None:
    head, hidden, targets = given()
    with torch.no_grad():
        loss, back, grad_out = chunked_loss(hidden, head.weight, targets, False)
    torch.testing.assert_close(loss, chunked_cross_entropy(head, hidden, targets).detach())
    assert not back.numel()
    assert not grad_out.numel()


def test_half_precision_sums_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 29 * 8)
    head, hidden, targets = given(rows=800)
    with torch.autocast("cpu", torch.bfloat16):
        half = found(head, hidden, targets, "chunked")
        plain = found(head, hidden, targets, "whole")
    exact = found(head, hidden, targets, "whole")
    assert half[2].dtype == torch.float32
    torch.testing.assert_close(half[0], plain[0])
    for one, other, truth in zip(half[1:], plain[1:], exact[1:], strict=True):
        assert (one - truth).norm() <= 1.2 * (other - truth).norm()


def test_a_head_with_a_bias_keeps_the_plain_way() -> None:
    _, hidden, targets = given()
    head = nn.Linear(12, 29)
    expected = F.cross_entropy(head(hidden), targets, ignore_index=IGNORE, reduction="sum")
    torch.testing.assert_close(chunked_cross_entropy(head, hidden, targets, "chunked"), expected)


def test_the_operation_keeps_pytorchs_rules() -> None:
    head, hidden, targets = given(rows=6)
    torch.library.opcheck(chunked_loss, (hidden, head.weight, targets, True))


def test_chunks_are_of_one_size() -> None:
    assert chunk_rows(65536, 50304) == 65536 // 8 + 65536 % 8 or chunk_rows(65536, 50304) * 50304 <= module.CHUNK + 50304
    assert chunk_rows(10, 50304) == 10


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_first_product_is_no_sum(kind: torch.dtype) -> None:
    total, a, b = torch.full((3, 4), torch.nan), torch.randn(3, 5).to(kind), torch.randn(5, 4).to(kind)
    add_product(total, a, b, first=True)
    torch.testing.assert_close(total, (a @ b).float())
    add_product(total, a, b)
    torch.testing.assert_close(total, 2 * (a @ b).float())


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "width", "size"), [(300, 50304, 50257), (7, 65536, 65536), (301, 5120, 5003), (9, 1024, 1000), (5, 520, 513)]
)
def test_rows_on_a_gpu_are_those_of_plain_arithmetic(rows: int, width: int, size: int) -> None:
    torch.manual_seed(0)
    logits = (4 * torch.randn(rows, width) - 60).bfloat16()  # softmax forgets the shift, exponentials do not
    targets = torch.randint(0, size, (rows,))
    targets[::5], targets[1], targets[2] = IGNORE, 0, size - 1
    grad_out = logits.cuda()
    losses = row_losses(grad_out, size, targets.cuda(), learn=True).cpu()
    torch.testing.assert_close(row_losses(logits.cuda(), size, targets.cuda(), learn=False).cpu(), losses)
    torch.testing.assert_close(losses, row_losses(logits, size, targets, learn=True), rtol=1e-5, atol=1e-4)
    assert (grad_out[:, :size].cpu().float() - logits[:, :size].float()).norm() <= 5e-3 * logits[:, :size].float().norm()
    assert not grad_out[:, size:].any() and not grad_out[::5].any()


@pytest.mark.gpu
def test_a_gpu_gives_the_losses_of_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 5120 * 100)
    head, hidden, targets = (thing.cuda() for thing in given(rows=333, width=64, vocabulary=5003))
    hidden = hidden.detach().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        one, other = (found(head, hidden, targets, logits) for logits in ("whole", "chunked"))
    for plain, chunked in zip(one, other, strict=True):
        assert (chunked - plain).norm() <= 0.01 * plain.norm()


def test_data_and_layers_ignore_the_same() -> None:
    assert module.IGNORE == IGNORE
