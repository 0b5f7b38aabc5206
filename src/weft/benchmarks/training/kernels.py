"""Where the time of a step goes on a GPU: its kernels, by group and one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

GROUPS = {
    "attention": r"flash|fmha|sdpa|attention|cudnn",
    "products": r"gemm|cutlass|nvjet|xmma|cublas|splitK",
    "loss": r"^_row|nll|cross_entropy|log_softmax",
    "optimiser": r"multi_tensor|adam|^_update|^_advance|lpnorm",
    "passes of our own": r"^norm_forward|^norm_backward|^gelu_|^sum_rows|^add_up",
    "fused reductions": r"triton_red|triton_per|triton_for|triton_mix",
    "fused elementwise": r"triton_",
    "copies": r"memcpy|memset|copy|fill",
}
"""What the names of a group's kernels hold; the first that fits."""


def group_of(kernel: str) -> str:
    return next((name for name, pattern in GROUPS.items() if re.search(pattern, kernel, re.IGNORECASE)), "other")


def idle(events: Iterable[Any]) -> float:
    """Microseconds between the first kernel and the last in which none ran."""
    spans = sorted((event.time_range.start, event.time_range.end) for event in events if event.device_time_total)
    waited, until = 0.0, spans[0][1] if spans else 0.0
    for start, end in spans:
        waited += max(0.0, start - until)
        until = max(until, end)
    return waited


def table(step: Callable[[], object], steps: int = 3, rows: int = 25) -> str:
    """Milliseconds a step of each group, of waiting between kernels, and of the kernels that take longest."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as result:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    found = [(event.key, event.device_time_total / steps / 1e3, event.count / steps) for event in result.key_averages()]
    found.sort(key=lambda entry: -entry[1])
    groups: dict[str, float] = {}
    for name, ms, _ in found:
        groups[group_of(name)] = groups.get(group_of(name), 0.0) + ms
    lines = [f"{'all kernels':24}{sum(groups.values()):9.3f} ms", f"{'between them':24}{idle(result.events()) / steps / 1e3:9.3f} ms"]
    lines += [f"{name:24}{ms:9.3f} ms" for name, ms in sorted(groups.items(), key=lambda entry: -entry[1])]
    lines += [f"{ms:9.3f} ms {number:6.1f} x  {group_of(name):18} {name[:110]}" for name, ms, number in found[:rows]]
    return "\n".join(lines)
