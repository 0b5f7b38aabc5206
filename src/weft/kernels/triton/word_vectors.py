"""Updates of word vectors by stochastic gradient descent on a GPU: the mathematics of kernels/c/word_vectors.py, the same bits each time.

What is drawn, and which rows of the tables each update changes, does not depend on the tables: it is found and sorted for all updates of a
step at once, by PyTorch. Then each update is three kernels: the gradients of its centres, a program each, and for either table the sums
over all that changes a row, a program some of the rows, added in the order of the text. Nothing is added atomically.

Shapes: N centres, M words that are read, O rows that predict, G updates, E = N / G * O rows of an update, V vocabulary, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 2048
"""That share the rows of a table in an update."""


@triton.jit(do_not_specialize=["first"])
def _gradients(
    first, inputs, codes, centre, context, hidden, gradient, by, losses, rate,
    M: tl.constexpr, OUT: tl.constexpr, D: tl.constexpr, READ: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One centre: its hidden vector, d loss / d hidden times -rate, and d loss / d score times -rate of every row that predicts."""
    own = tl.program_id(0)
    item = (first + own).to(tl.int64)
    d = tl.arange(0, WIDE)
    inside = d < D
    m = tl.arange(0, READ)
    words = tl.load(inputs + item * M + m, mask=m < M, other=-1).to(tl.int64)
    read = words >= 0
    number = tl.sum(read.to(tl.int32), 0)
    if number > 0:
        h = tl.sum(tl.load(centre + words[:, None] * D + d[None, :], mask=read[:, None] & inside[None, :], other=0.0), 0)
        h = h / number.to(tl.float32)
        total = tl.zeros([WIDE], tl.float32)
        loss = 0.0
        for begin in range(0, OUT, ROWS):
            place = begin + tl.arange(0, ROWS)
            code = tl.load(codes + item * OUT + place, mask=place < OUT, other=-1).to(tl.int64)
            real = code >= 0
            label = (code & 1).to(tl.float32)
            rows = tl.load(context + (code >> 1)[:, None] * D + d[None, :], mask=real[:, None] & inside[None, :], other=0.0)
            score = tl.sum(rows * h[None, :], 1)
            step = tl.where(real, rate * (label - 1 / (1 + tl.exp(-score))), 0.0)
            tl.store(by + own * OUT + place, step, mask=place < OUT)
            total += tl.sum(rows * step[:, None], 0)
            against = tl.where(label > 0, -score, score)
            softplus = tl.maximum(against, 0.0) + tl.log(1 + tl.exp(-tl.abs(against)))
            loss += tl.sum(tl.where(real, softplus, 0.0), 0)
        tl.store(hidden + own * D + d, h, mask=inside)
        tl.store(gradient + own * D + d, total / number.to(tl.float32), mask=inside)
        tl.store(losses + item, loss)


@triton.jit(do_not_specialize=["update"])
def _add(
    update, table, keys, order, starts, numbers, by, vectors, limit, entries, stride,
    WEIGHTED: tl.constexpr, OUT: tl.constexpr, D: tl.constexpr, TOGETHER: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Some rows of a table, each with the sum of by * vector over its entries, which stand side by side."""
    base = update.to(tl.int64) * entries
    d = tl.arange(0, WIDE)
    inside = d < D
    for number in range(tl.program_id(0), tl.load(numbers + update), tl.num_programs(0)):
        begin = tl.load(starts + update.to(tl.int64) * (entries + 1) + number)
        end = tl.load(starts + update.to(tl.int64) * (entries + 1) + number + 1)
        total = tl.zeros([WIDE], tl.float32)
        for at in range(begin, end, TOGETHER):
            e = at + tl.arange(0, TOGETHER)
            entry = tl.load(order + base + e, mask=e < end, other=base) - base
            some = tl.load(vectors + (entry // OUT)[:, None] * D + d[None, :], mask=(e < end)[:, None] & inside[None, :], other=0.0)
            if WEIGHTED:
                some = some * tl.load(by + entry, mask=e < end, other=0.0)[:, None]
            total += tl.sum(some, 0)
        row = tl.load(keys + base + begin).to(tl.int64) - update.to(tl.int64) * stride
        scale = tl.minimum(1.0, limit / (end - begin).to(tl.float32))
        place = table + row * D + d
        tl.store(place, tl.load(place, mask=inside, other=0.0) + scale * total, mask=inside)


def serves(*tables: Tensor) -> bool:
    """Whether tables (V, D) can be updated."""
    return all(t.is_cuda and t.dtype == torch.float32 and t.is_contiguous() and t.size(1) <= 1024 for t in tables)


class Segments:
    """The entries of each update, sorted by their rows: keys and order (G * E,), where each row begins (G, E + 1), and rows in all (G,).

    A key is a row and its update in one number, so that one sort is enough: update * (V + 1) + row, V where there is no row."""

    def __init__(self, rows: Tensor, vocabulary: int):
        """rows (G, E), negative where there is none."""
        size, self.entries = rows.shape
        self.stride = vocabulary + 1
        updates = torch.arange(size, device=rows.device).unsqueeze(1)
        keys = torch.where(rows < 0, vocabulary, rows) + updates * self.stride
        small = size * self.stride <= torch.iinfo(torch.int32).max
        self.keys, self.order = keys.to(torch.int32 if small else torch.int64).flatten().sort(stable=True)
        new = self.keys.diff(prepend=self.keys[:1] - 1) != 0  # as no update has the key of another, each begins with a new one
        number = new.view(rows.shape).cumsum(1, dtype=torch.int32)
        place = torch.arange(self.entries, device=rows.device, dtype=torch.int32).expand(size, -1)
        last = torch.where(new.view(rows.shape), number - 1, self.entries)
        self.starts = place.new_full((size, self.entries + 1), self.entries)
        self.starts.scatter_(1, last.long(), torch.where(new.view(rows.shape), place, self.entries))
        self.numbers = number[:, -1] - (rows < 0).any(1).int()  # without that of no row, which is the last

    def add(self, update: int, table: Tensor, vectors: Tensor, by: Tensor | None, per_item: int, limit: float) -> None:
        """table (V, D) += by (N / G, per_item) * vectors (N / G, D), summed over what changes each row."""
        width = table.size(1)
        wide = triton.next_power_of_2(width)
        found = (self.keys, self.order, self.starts, self.numbers)
        given = (update, table, *found, vectors if by is None else by, vectors, limit, self.entries, self.stride)
        settings: dict[str, Any] = {"WEIGHTED": by is not None, "OUT": per_item, "D": width, "TOGETHER": max(2, 4096 // wide), "WIDE": wide}
        _add[(min(PROGRAMS, self.entries),)](*given, **settings, num_warps=4)


def update(centre: Tensor, context: Tensor, inputs: Tensor, codes: Tensor, updates: int, rate: float, limit: int = 0) -> Tensor:
    """Update both tables (V, D) in place: inputs (N, M) are the words read, codes (N, O) twice the row that predicts and its label, both
    negative where there is none, in so many updates one after the other; the losses of the centres before them (N,).
    A rate of 0 writes nothing. limit: entries of a row that count in full in an update, see `row_limit`."""
    (number, read), (_, out), width = inputs.shape, codes.shape, centre.size(1)
    each, most = number // updates, float(limit) if limit else float("inf")
    inputs, codes = inputs.to(torch.int32).contiguous(), codes.to(torch.int32).contiguous()
    inputs = inputs.masked_fill((codes < 0).all(1, keepdim=True), -1)  # what predicts nothing changes nothing that it reads
    into = Segments(inputs.view(updates, each * read), len(centre))
    out_of = Segments((codes >> 1).view(updates, each * out), len(context))
    hidden, gradient = (torch.zeros(each, width, device=centre.device) for _ in range(2))
    by, losses = torch.zeros(each, out, device=centre.device), torch.zeros(number, device=centre.device)
    wide = triton.next_power_of_2(width)
    rows = max(2, min(2048 // wide, triton.next_power_of_2(out)))
    sizes: dict[str, Any] = {"M": read, "OUT": out, "D": width, "READ": max(2, triton.next_power_of_2(read)), "ROWS": rows, "WIDE": wide}
    for n in range(updates):
        given = (n * each, inputs, codes, centre, context, hidden, gradient, by, losses, rate)
        _gradients[(each,)](*given, **sizes, num_warps=4)
        if rate:
            out_of.add(n, context, hidden, by, out, most)
            into.add(n, centre, gradient, None, read, most)
    return losses
