"""Losses over all alignments, with their gradients in closed form: CTC and the transducer, bit-repeatable.

The sums are those of `nn.alignment`, in fp64: over hundreds of frames fp32 would lose the fifth digit of a gradient, and they are small
beside what they are sums of. On a GPU with Triton, one program a row and direction makes them, without a launch for each frame.
Shapes: B batch, T frames, S or U labels, L states, V vocabulary.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.nn.alignment import ctc, transducer

LONGEST = 4096
"""States, or labels and one, of the longest row that one program of a GPU walks along."""


def ctc_log_likelihood(log_probs: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int = 0) -> Tensor:
    """log_probs (B, T, V), labels (B, S) without blanks, lengths (B,) twice -> log-probability of the labels (B,).

    -inf where no path exists, as more labels than frames have none; the gradient of such a row is 0.
    """
    wanted = log_probs.requires_grad and torch.is_grad_enabled()
    found: Tensor = ctc_sums(log_probs, frame_lengths, labels, label_lengths, blank, wanted)[0]
    return found


def transducer_log_likelihood(blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> Tensor:
    """Log-probability of a blank (B, T, U + 1) and of the next label (B, T, U) at each frame after each label, lengths (B,) twice, of
    frames at least 1 -> log-probability of the labels (B,)."""
    wanted = (blank.requires_grad or label.requires_grad) and torch.is_grad_enabled()
    found: Tensor = transducer_sums(blank, label, frame_lengths, label_lengths, wanted)[0]
    return found


def transducer_logit_log_likelihood(logits: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int = 0) -> Tensor:
    """Logits of a joint (B, T, U + 1, V), labels (B, U), lengths (B,) twice, of frames at least 1 -> log-probability of the labels (B,)."""
    wanted = logits.requires_grad and torch.is_grad_enabled()
    found: Tensor = transducer_logit_sums(logits, frame_lengths, labels, label_lengths, blank, wanted)[0]
    return found


def on_gpu(x: Tensor, width: int) -> bool:
    """Whether the kernels in Triton serve."""
    return x.is_cuda and width <= LONGEST and importlib.util.find_spec("triton") is not None


@torch.library.custom_op("weft::ctc_sums", mutates_args=())
def ctc_sums(
    log_probs: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int, with_grad: bool
) -> tuple[Tensor, Tensor]:
    """-> log-likelihood (B,) and, to `with_grad`, its gradient by log_probs (B, T, V)."""
    with torch.autocast(log_probs.device.type, enabled=False):
        states = ctc.states_of(labels, blank)
        emitted = log_probs.gather(2, states[:, None].expand(-1, log_probs.size(1), -1)).double()  # (B, T, L)
        skip = ctc.may_skip(states, blank)
        if not with_grad:
            alpha = ctc.recursion(emitted, skip)
            return ctc.log_likelihood(alpha, frame_lengths, label_lengths).to(log_probs.dtype), log_probs.new_empty(0)
        if on_gpu(emitted, emitted.size(2)) and emitted.size(1):
            from weft.kernels.triton.alignment import ctc_forward_backward

            total, share = ctc_forward_backward(emitted, skip, frame_lengths, label_lengths)
        else:
            total, share = ctc.forward_backward(emitted, skip, frame_lengths, label_lengths)
        gradient = ctc.summed_by_label(share[:, :, 1::2], labels, log_probs.size(2)).to(log_probs.dtype)
        gradient[:, :, blank] = share[:, :, 0::2].sum(-1)
        return total.to(log_probs.dtype), gradient


@ctc_sums.register_fake
def _(
    log_probs: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int, with_grad: bool
) -> tuple[Tensor, Tensor]:
    gradient = torch.empty_like(log_probs, memory_format=torch.contiguous_format) if with_grad else log_probs.new_empty(0)
    return log_probs.new_empty(len(log_probs)), gradient


@torch.library.custom_op("weft::transducer_sums", mutates_args=())
def transducer_sums(
    blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor, with_grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """-> log-likelihood (B,) and its gradients by blank (B, T, U + 1) and label (B, T, U); empty without `with_grad`."""
    with torch.autocast(blank.device.type, enabled=False):
        found = transducer_forward_backward(blank.double(), label.double(), frame_lengths, label_lengths)
    total, by_blank, by_label = (each.to(blank.dtype) for each in found)
    if not with_grad:
        by_blank, by_label = blank.new_empty(0), blank.new_empty(0)
    return total, by_blank.contiguous(), by_label.contiguous()


def transducer_forward_backward(
    blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `nn.alignment.transducer.forward_backward`, by a kernel where there is one."""
    if on_gpu(blank, blank.size(2)):
        from weft.kernels.triton import alignment

        return alignment.transducer_forward_backward(blank, label, frame_lengths, label_lengths)
    return transducer.forward_backward(blank, label, frame_lengths, label_lengths)


@transducer_sums.register_fake
def _(blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor, with_grad: bool) -> tuple[Tensor, Tensor, Tensor]:
    kind = torch.contiguous_format
    empty = (torch.empty_like(each, memory_format=kind) if with_grad else blank.new_empty(0) for each in (blank, label))
    return blank.new_empty(len(blank)), *empty  # type: ignore[return-value]


@torch.library.custom_op("weft::transducer_logit_sums", mutates_args=())
def transducer_logit_sums(
    logits: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int, with_grad: bool
) -> tuple[Tensor, Tensor]:
    """-> log-likelihood (B,) and, to `with_grad`, its gradient by the logits (B, T, U + 1, V), in their precision."""
    with torch.autocast(logits.device.type, enabled=False):
        if on_gpu(logits, logits.size(2)):
            from weft.kernels.triton.alignment import transducer_logits

            return transducer_logits(logits, frame_lengths, labels, label_lengths, blank, with_grad)
        log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        following = labels[:, None, :, None].expand(-1, logits.size(1), -1, -1)
        at_label = log_probs[:, :, :-1].gather(3, following).squeeze(3)
        found = transducer.forward_backward(log_probs[..., blank].double(), at_label.double(), frame_lengths, label_lengths)
        total, by_blank, by_label = (each.to(log_probs.dtype) for each in found)
        if not with_grad:
            return total, logits.new_empty(0)
        gradient = log_probs.exp_().mul_(-(by_blank + F.pad(by_label, (0, 1)))[..., None])
        gradient[..., blank] += by_blank
        gradient[:, :, :-1].scatter_add_(3, following, by_label[..., None])
        return total, gradient.to(logits.dtype)


@transducer_logit_sums.register_fake
def _(logits: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int, with_grad: bool) -> tuple[Tensor, Tensor]:
    total = logits.new_empty(len(logits), dtype=torch.promote_types(logits.dtype, torch.float32))
    return total, torch.empty_like(logits, memory_format=torch.contiguous_format) if with_grad else logits.new_empty(0)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*output[1:])


def _spread(factor: Tensor, gradient: Tensor) -> Tensor:
    """factor (B,) times gradient (B, ...)."""
    return factor.view(-1, *(1,) * (gradient.ndim - 1)).to(gradient.dtype) * gradient


def _differentiate_ctc(ctx, factor, _):  # type: ignore[no-untyped-def]
    return _spread(factor, ctx.saved_tensors[0]), None, None, None, None, None


def _differentiate_transducer(ctx, factor, *_):  # type: ignore[no-untyped-def]
    by_blank, by_label = ctx.saved_tensors
    return _spread(factor, by_blank), _spread(factor, by_label), None, None, None


def _differentiate_logits(ctx, factor, _):  # type: ignore[no-untyped-def]
    return _spread(factor, ctx.saved_tensors[0]), None, None, None, None, None


transducer_logit_sums.register_autograd(_differentiate_logits, setup_context=_save)
ctc_sums.register_autograd(_differentiate_ctc, setup_context=_save)
transducer_sums.register_autograd(_differentiate_transducer, setup_context=_save)
