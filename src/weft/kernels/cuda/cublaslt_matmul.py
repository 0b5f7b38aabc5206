"""Large matrix products on a GPU, each by the fastest way that its shape has.

PyTorch takes the kernel that cuBLAS's rule names first, which is not always the fastest. So when a shape first comes, the kernels that
cuBLAS proposes for it and others of their kind, of which it holds some to be slower and forgets some where a product also adds, take
turns, and the fastest serves from then on. Where results must be the same in every run (deterministic), and for products that are small
or that cuBLAS refuses, PyTorch's own serves. Shapes: M rows, K inputs, N outputs.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import WeftError
from weft.kernels.cuda.compiler import library

log = logging.getLogger("weft")
LARGE = 1 << 34
"""Multiplications from which on a product is worth a race: they take a twentieth of a millisecond."""
PROPOSED = 8
"""Kernels that are asked for; cuBLAS has hardly more."""
TILES = (19, 20, 23, 24, 28, 29, 30, 31, 32, 197, 201, 208, 209, 247, 248, 495)
"""Others have these tiles: 64x256, 128x128, 128x256, 256x128, 96x128, 128x160, 160x128, 192x128, 128x192, 168x128, 176x128, 192x64,
192x192, 320x64, 320x128, 256x96,"""
CLUSTERS, MANNERS = (2, 3, 5), 8
"""clusters of 1x1, 2x1 or 1x2 of them, and go over a matrix in so many ways."""
FINALISTS, ROUNDS, MILLISECONDS = 12, 5, 3.0
"""Of a race: how many are left after a first look, turns of each, and how long one takes, about."""
COPIES, COPIED = 16, 1 << 26
"""Copies of so many bytes before each call in a race. Of products alone a GPU grows so hot that its clock falls and other kernels win than
in training, where passes over memory stand between products."""
SPACE = 64 << 20
"""Bytes that a kernel may use for itself; PyTorch allows half as much on Hopper."""
ALIGNED = 16
KINDS = {torch.bfloat16: 14, torch.float32: 0}
"""Numbers of these in CUDA, and so on below in cublasLt."""
COMPUTE_FP32, TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_AT, AUX_AT, AUX_LINE = 68, 3, 4, 7, 8, 11, 12
PLAIN, BIAS, GELU_AUX_BIAS = 1, 4, 164
MOST_SPACE, ALIGNMENTS = 1, (5, 6, 7, 8)
TILE, MANNER, CLUSTER = 1, 5, 8
CHOSEN: dict[Any, int] = {}
"""Which of its ways each shape takes."""
LOCK = threading.Lock()


def multiply(a: Tensor, b: Tensor, bias: Tensor | None = None, *, plus: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """a (M, K) b (K, N) + bias (N,) + plus (M, N) -> (M, N), into `out` where it is given. Any of a and b may be transposed."""
    out = a.new_empty(len(a), b.size(1)) if out is None else out
    fastest(a, b, out, partial(_multiply, a, b, bias, plus, out), bias=bias, plus=plus)
    return out


def _multiply(a: Tensor, b: Tensor, bias: Tensor | None, plus: Tensor | None, out: Tensor) -> None:
    torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)
    if plus is not None:
        out += plus


def add_product(total: Tensor, a: Tensor, b: Tensor, usual: Callable[[], Any], *, first: bool) -> None:
    """total (M, N) += a b; the first is no sum. A race is only run for the first, as it may write often but not add often."""
    fastest(a, b, total, usual, plus=None if first else total)


def multiply_gelu(a: Tensor, b: Tensor, bias: Tensor, usual: Callable[[Tensor, Tensor], Any]) -> tuple[Tensor, Tensor]:
    """GELU (by tanh) of a b + bias, and that sum, both (M, N). usual: writes both another way."""
    found, before = (a.new_empty(len(a), b.size(1)) for _ in range(2))
    fastest(a, b, found, partial(usual, found, before), bias=bias, before=before)
    return found, before


def fastest(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    usual: Callable[[], Any],
    bias: Tensor | None = None,
    before: Tensor | None = None,
    plus: Tensor | None = None,
) -> None:
    """Make out of a, b and the rest, the usual way or a faster one."""
    adds = plus is not None and plus is not out
    plan = plan_of(a, b, out, bias, before, adds) if is_worth_it(a, b, out, *((plus,) if plus is not None else ())) else None
    if plan is None:
        usual()
        return

    def way(number: int) -> Callable[[], Any]:
        return partial(plan, plan.proposals[number - 1], a, b, out, bias, before, plus) if number else usual

    if plan.key not in CHOSEN and plus is not out and not torch.cuda.is_current_stream_capturing():
        CHOSEN[plan.key] = winner([way(number) for number in range(1 + len(plan.proposals))])
    way(CHOSEN.get(plan.key, 0))()


def is_worth_it(a: Tensor, b: Tensor, *made: Tensor) -> bool:
    """made: the result, and what is added to it."""
    aligned = all(1 in part.stride() and (part.data_ptr() | line(part) * part.element_size()) % ALIGNED == 0 for part in (a, b, *made))
    kind = made[0].dtype
    alike = a.dtype == b.dtype == torch.bfloat16 and kind in KINDS and all(part.dtype == kind and part.is_contiguous() for part in made)
    large = a.size(0) * a.size(1) * b.size(1) >= LARGE
    return a.is_cuda and large and alike and aligned and not torch.are_deterministic_algorithms_enabled()


def winner(ways: Sequence[Callable[[], Any]]) -> int:
    """The number of the fastest, in turns after a first look at each; of those that fail none."""
    looks = {}
    for number, way in enumerate(ways):
        try:
            way()
            looks[number] = milliseconds(way, 2, copies=0)
        except WeftError:
            continue
    able = sorted(looks, key=lambda number: looks[number])[:FINALISTS]
    taken = dict.fromkeys(able, 0.0)
    for number in able * ROUNDS:
        taken[number] += milliseconds(ways[number], max(2, round(MILLISECONDS / looks[number])), COPIES)
    return min(able, key=lambda number: taken[number])


def milliseconds(way: Callable[[], Any], repeats: int, copies: int) -> float:
    """Of one call, on the average, with so many copies before each."""
    one, other = torch.empty(2, COPIED, dtype=torch.uint8, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]  # type: ignore[no-untyped-call]
    for begin, end in events:
        for _ in range(copies):
            one.copy_(other)
        begin.record()
        way()
        end.record()
    torch.cuda.synchronize()
    return sum(float(begin.elapsed_time(end)) for begin, end in events) / repeats


# -- cublasLt, to which matrices are columns ------------------------------------------------------------------------------


class Proposal(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("space", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float)]
    _fields_ += [("reserved", ctypes.c_int * 4)]


def given(value: Any) -> tuple[Any, ctypes.c_size_t]:
    """A value as cublasLt takes one: where it is, and its size."""
    return ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))


def line(matrix: Tensor) -> int:
    """Numbers from one of its rows to the next, or from one column to the next."""
    return matrix.stride(0) if matrix.stride(1) == 1 else matrix.stride(1)


class MatmulPlan:
    """The kernels that cublasLt has for a product of some shape."""

    def __init__(self, key: Any, a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None, before: Tensor | None):
        self.key, self.lt, self.handle, self.description = key, cublas(), handle(a.device), ctypes.c_void_p()
        self.check(self.lt.cublasLtMatmulDescCreate(ctypes.byref(self.description), COMPUTE_FP32, KINDS[torch.float32]))
        self.set(TRANSPOSE_A, ctypes.c_int(b.stride(1) != 1))
        self.set(TRANSPOSE_B, ctypes.c_int(a.stride(1) != 1))
        self.set(EPILOGUE, ctypes.c_int(GELU_AUX_BIAS if before is not None else BIAS if bias is not None else PLAIN))
        self.point(bias, before)
        self.layouts = [self.layout(part) for part in (b, a, out)]  # row by row is column by column of the transposed
        self.proposals = self.proposed()
        self.proposals += self.alike(self.proposals)

    def layout(self, matrix: Tensor) -> ctypes.c_void_p:
        found, (rows, columns) = ctypes.c_void_p(), matrix.shape if matrix.stride(1) == 1 else matrix.t().shape
        sizes = (ctypes.c_uint64(columns), ctypes.c_uint64(rows), ctypes.c_int64(line(matrix)))
        self.check(self.lt.cublasLtMatrixLayoutCreate(ctypes.byref(found), KINDS[matrix.dtype], *sizes))
        return found

    def proposed(self) -> list[Proposal]:
        """What cublasLt holds to be the fastest."""
        wishes, count, proposals = ctypes.c_void_p(), ctypes.c_int(), (Proposal * PROPOSED)()
        self.check(self.lt.cublasLtMatmulPreferenceCreate(ctypes.byref(wishes)))
        numbers = {MOST_SPACE: ctypes.c_size_t(SPACE), **{name: ctypes.c_uint32(ALIGNED) for name in ALIGNMENTS}}
        for name, number in numbers.items():
            self.check(self.lt.cublasLtMatmulPreferenceSetAttribute(wishes, name, *given(number)))
        b, a, out = self.layouts
        found = (wishes, PROPOSED, proposals, ctypes.byref(count))
        failed = self.lt.cublasLtMatmulAlgoGetHeuristic(self.handle, self.description, b, a, out, out, *found)
        self.lt.cublasLtMatmulPreferenceDestroy(wishes)
        return [] if failed else proposals[: count.value]

    def alike(self, proposals: list[Proposal]) -> list[Proposal]:
        """Those that differ from the first proposal in tile, cluster or manner and can make this product too."""
        known, found = {bytes(proposal.algorithm) for proposal in proposals}, []
        for tile, cluster, manner in itertools.product(TILES, CLUSTERS, range(MANNERS)) if proposals else ():
            other, checked = Proposal.from_buffer_copy(proposals[0]), Proposal()
            values = ((TILE, ctypes.c_uint32(tile)), (MANNER, ctypes.c_uint32(manner)), (CLUSTER, ctypes.c_uint16(cluster)))
            statuses = [self.lt.cublasLtMatmulAlgoConfigSetAttribute(ctypes.byref(other), name, *given(value)) for name, value in values]
            b, a, out = self.layouts
            asked = (self.handle, self.description, b, a, out, out, ctypes.byref(other), ctypes.byref(checked))
            if any(statuses) or self.lt.cublasLtMatmulAlgoCheck(*asked) or checked.state or checked.space > SPACE:
                continue
            if bytes(checked.algorithm) not in known:
                found.append(checked)
        return found

    def set(self, what: int, value: Any) -> None:
        self.check(self.lt.cublasLtMatmulDescSetAttribute(self.description, what, *given(value)))

    def point(self, bias: Tensor | None, before: Tensor | None) -> None:
        if bias is not None:
            self.set(BIAS_AT, ctypes.c_void_p(bias.data_ptr()))
        if before is not None:
            self.set(AUX_AT, ctypes.c_void_p(before.data_ptr()))
            self.set(AUX_LINE, ctypes.c_int64(before.size(1)))

    def __call__(
        self, proposal: Proposal, a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None, before: Tensor | None, plus: Tensor | None
    ) -> None:
        """By that kernel, behind what PyTorch started before."""
        space = torch.empty(SPACE, dtype=torch.uint8, device=a.device)
        at = [ctypes.c_void_p(part.data_ptr()) for part in (b, a, out if plus is None else plus, out)]
        one, times = ctypes.byref(ctypes.c_float(1.0)), ctypes.byref(ctypes.c_float(float(plus is not None)))
        stream = ctypes.c_void_p(torch.cuda.current_stream(a.device).cuda_stream)
        with LOCK:  # where a bias lies is noted in the description
            self.point(bias, before)
            left, right, made = self.layouts
            matrices = (one, at[0], left, at[1], right, times, at[2], made, at[3], made)
            rest = (ctypes.byref(proposal), ctypes.c_void_p(space.data_ptr()), ctypes.c_size_t(SPACE), stream)
            self.check(self.lt.cublasLtMatmul(self.handle, self.description, *matrices, *rest))

    def check(self, failed: int) -> None:
        if failed:
            raise WeftError(f"cuBLAS refused a product of {self.key}: error {failed}")


PLANS: dict[Any, MatmulPlan | None] = {}


def plan_of(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None, before: Tensor | None, adds: bool = False) -> MatmulPlan | None:
    """None where cublasLt is not there or has nothing to propose. adds: something else than what `out` holds."""
    shapes = tuple((tuple(part.shape), part.stride(1) == 1, line(part)) for part in (a, b))
    key = (a.device, shapes, out.dtype, bias is not None, before is not None, adds)
    if key not in PLANS:
        try:
            plan = MatmulPlan(key, a, b, out, bias, before)
            PLANS[key] = plan if plan.proposals else None
        except (WeftError, OSError) as error:
            log.warning("products are made by PyTorch's choice of kernels, which may take longer: %s", error)
            PLANS[key] = None
    return PLANS[key]


@cache
def cublas() -> ctypes.CDLL:
    major = (torch.version.cuda or "13").split(".")[0]
    return library(f"libcublasLt.so.{major}", "libcublasLt.so")


@cache
def handle(device: torch.device) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    with torch.cuda.device(device):
        if failed := cublas().cublasLtCreate(ctypes.byref(found)):
            raise WeftError(f"cuBLAS could not begin: error {failed}")
    return found
