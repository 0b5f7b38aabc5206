"""The likeliest way to lay labels on frames, under CTC: forced alignment, and when each label was said.

Shapes: B batch, T frames, S labels, L = 2 S + 1 states, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.alignment.ctc import NEVER, may_skip, states_of


def forced_alignment(log_probs: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int = 0) -> Tensor:
    """log_probs (B, T, V), labels (B, S), lengths (B,) twice -> the state of each frame (B, T) on the likeliest path.

    State 2 s + 1 is label s, even ones are blanks; -1 behind a row's last frame, and everywhere where no path exists.
    """
    rows, frames, _ = log_probs.shape
    states = states_of(labels, blank)
    size, row = states.size(1), torch.arange(rows, device=labels.device)
    emitted = log_probs.gather(2, states[:, None].expand(-1, frames, -1)).double()
    jump = torch.zeros_like(emitted[:, 0]).masked_fill(~may_skip(states, blank), NEVER)
    best = emitted.new_full((frames, rows, size + 2), NEVER)
    steps = torch.zeros(frames, rows, size, dtype=torch.int64, device=labels.device)
    best[:1, :, 2:4] = emitted.transpose(0, 1)[:1, :, :2]
    for time in range(1, frames):
        before = best[time - 1]
        ways = torch.stack([before[:, 2:], before[:, 1:-1], before[:, :-2] + jump])
        found, steps[time] = ways.max(0)
        best[time, :, 2:] = found + emitted[:, time]
    last = (frame_lengths - 1).clamp(min=0)
    ends = torch.stack([2 * label_lengths, (2 * label_lengths - 1).clamp(min=0)])  # (2, B)
    scores = best[last, row, ends + 2]
    state = ends[scores.argmax(0), row]
    possible = (scores.max(0).values > NEVER) & (frame_lengths > 0)
    path = torch.full((rows, frames), -1, dtype=torch.int64, device=labels.device)
    for time in range(frames - 1, -1, -1):
        there = possible & (time < frame_lengths)
        path[:, time] = torch.where(there, state, -1)
        state = torch.where(there, state - steps[time, row, state], state)
    return path


def spans(path: list[int], labels: int) -> list[tuple[int, int]]:
    """The states of one row's frames -> first frame of each label, and the one behind its last."""
    frames: list[list[int]] = [[] for _ in range(labels)]
    for time, state in enumerate(path):
        if state % 2 == 1 and state > 0:
            frames[state // 2].append(time)
    return [(each[0], each[-1] + 1) for each in frames if each]
