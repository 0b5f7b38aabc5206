"""A transducer in a band (Kuang et al., 2022, arXiv:2206.13236): what lies far from all likely paths is not computed.

A joint that only adds logits of a frame and of the labels so far costs no tensor of frames, labels and vocabulary. It is learned beside the
true one, and its probabilities tell where paths go: in each frame a band of R symbols from a start that never goes back. The joint that
counts is computed there only. A band leaves paths out, so its loss is never below the whole one; if as wide as the labels, it is the same.

Shapes: B batch, T frames, U labels, V vocabulary, R symbols of the band.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.nn.alignment.gather import pick_labels
from weft.nn.alignment.transducer import NEVER


def additive_joint(frames: Tensor, symbols: Tensor, labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Logits of frames (B, T, V) and of the labels so far (B, U + 1, V), whose sum is the joint, labels (B, U) -> log-probability of a
    blank (B, T, U + 1) and of the next label (B, T, U). The sum over the vocabulary is a product of matrices."""
    with torch.autocast(frames.device.type, enabled=False):
        frames, symbols = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (frames, symbols))
        high, top = frames.amax(-1, keepdim=True).detach(), symbols.amax(-1, keepdim=True).detach()
        product = (frames - high).exp() @ (symbols - top).exp().mT
        whole = product.clamp(min=torch.finfo(product.dtype).tiny).log() + high + top.mT  # (B, T, U + 1)
        own = symbols[:, :-1].gather(2, labels[:, :, None]).mT  # (B, 1, U)
        said = frames[:, :, blank, None] + symbols[:, None, :, blank]
        return said - whole, pick_labels(frames, labels) + own - whole[:, :, :-1]


def band_starts(by_blank: Tensor, by_label: Tensor, frame_lengths: Tensor, label_lengths: Tensor, width: int) -> Tensor:
    """Probabilities of blanks (B, T, U + 1) and labels (B, T, U), lengths (B,) twice -> first of the R symbols of each frame (B, T).

    It is where most probability lies, as far as the first band can have its first symbol, the last frame its last, and bands of frames
    that follow one another a symbol in common.
    """
    frames, symbols = by_blank.shape[1:]
    furthest = (label_lengths + 1 - width).clamp(min=0)[:, None]  # (B, 1)
    if symbols <= width:
        return torch.zeros(by_blank.shape[:2], dtype=torch.int64, device=by_blank.device)
    mass = by_blank.unfold(2, width, 1).sum(-1)  # (B, T, U + 2 - R)
    mass = mass + by_label.unfold(2, width - 1, 1).sum(-1)[:, :, : mass.size(2)] if width > 1 else mass
    frame = torch.arange(frames, device=by_blank.device)
    start = torch.minimum(mass.argmax(-1), furthest).where(frame < frame_lengths[:, None] - 1, furthest)
    slope = frame * (width - 1)
    start = torch.minimum(start, slope).flip(1).cummin(1).values.flip(1)  # begins at 0, and none goes back
    return (start - slope).flip(1).cummax(1).values.flip(1) + slope  # none jumps over symbols


def band_symbols(starts: Tensor, width: int, symbols: int) -> Tensor:
    """starts (B, T) -> the symbols of each frame's band (B, T, R); the last one again where there are not so many."""
    return (starts[:, :, None] + torch.arange(width, device=starts.device)).clamp(max=symbols - 1)


def band_joint(logits: Tensor, starts: Tensor, labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Logits in the band (B, T, R, V), starts (B, T), labels (B, U) -> log-probability of a blank (B, T, U + 1) and of the next label
    (B, T, U) everywhere; -inf outside the band."""
    width, symbols = logits.size(2), labels.size(1) + 1
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    whole = exact.logsumexp(-1)
    following = F.pad(labels, (0, 1)).gather(1, band_symbols(starts, width, symbols).flatten(1)).view(whole.shape)
    label = exact.gather(3, following[..., None]).squeeze(3) - whole
    return spread(exact[..., blank] - whole, starts, symbols), spread(label, starts, symbols)[:, :, :-1]


def spread(x: Tensor, starts: Tensor, symbols: int) -> Tensor:
    """x (B, T, R), R symbols of each frame from its start (B, T) on -> (B, T, symbols), -inf outside the band."""
    place = torch.arange(symbols, device=x.device) - starts[:, :, None]
    outside = (place < 0) | (place >= x.size(2))
    return x.gather(2, place.clamp(0, x.size(2) - 1)).masked_fill(outside, NEVER)
