"""The recurrent kernel: its source, run by an emulated GPU, against the plain layers; what it serves; and on a GPU itself."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.kernels import select
from weft.kernels.cuda import recurrent, recurrent_launch
from weft.kernels.cuda.recurrent import CUDARecurrent, over_steps
from weft.kernels.cuda.recurrent_launch import CELLS, MOST_ROWS, cut
from weft.kernels.describe import describe_recurrent
from weft.kernels.implementation import uninstall
from weft.kernels.usage import Machine, UsageSpec
from weft.models.language.rnn import RNNLMConfig
from weft.nn.recurrent import RecurrentLayer
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig
from weft.training import execution_options

SHARED = 232_448
HOPPER = Machine(device="cuda", capability=(9, 0), triton=True, processors=132, shared_memory=SHARED)
USE = UsageSpec(machine=HOPPER, precision="bf16")
HERE = Path(__file__).parent
SOURCE = """
#include "emulator.h"
#include "NAME.cu"
extern "C" void start(const Args* a, int blocks, int threads, int shared) { gpu::launch(blocks, threads, shared, [=] { NAME(*a); }); }
"""


@pytest.fixture
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run on a GPU of three processors, thread by thread."""
    if not (compiler := shutil.which("g++") or shutil.which("c++")):
        pytest.skip("no C++ compiler is found")

    def kernel(name: str, defines: tuple[tuple[str, Any], ...], device: torch.device, threads: int, shared: int) -> Callable[..., None]:
        program = tmp_path / f"{abs(hash(defines))}.so"
        (tmp_path / "source.cpp").write_text(SOURCE.replace("NAME", name))
        folders = [f"-I{HERE}", f"-I{Path(recurrent.__file__).parent}"]
        options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", *folders, *(f"-D{key}={value}" for key, value in defines)]
        subprocess.run([compiler, *options, str(tmp_path / "source.cpp"), "-o", str(program)], check=True)
        start = ctypes.CDLL(str(program)).start
        return lambda given, blocks: start(ctypes.byref(given), blocks, threads, shared)

    recurrent_launch.machine_of.cache_clear()
    monkeypatch.setattr(recurrent_launch, "kernel", kernel)
    monkeypatch.setattr(Machine, "of", lambda device: Machine(device="cuda", capability=(9, 0), processors=3, shared_memory=SHARED))


def built(cell: str, inputs: int, width: int) -> RecurrentLayer:
    torch.manual_seed(0)
    layer = RecurrentLayer(cell, inputs, width)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.3)
    return layer


def given(layer: RecurrentLayer, rows: int, time: int, dropped: bool, device: str = "cpu") -> dict[str, Tensor]:
    noise = torch.Generator().manual_seed(1)
    found = {"x": torch.randn(rows, time, layer.inputs, generator=noise)}
    found |= {name: torch.randn(rows, *shape, generator=noise) for name, shape in layer.state_shapes.items()}
    found = {name: tensor.to(device).requires_grad_() for name, tensor in found.items()} | dict(layer.named_parameters())
    return found | ({"weight_hh": (layer.weight_hh * 0.5).detach().requires_grad_()} if dropped else {})


def results(layer: RecurrentLayer, tensors: dict[str, Tensor], lengths: Tensor | None, by: Callable[..., Any] | None) -> dict[str, Tensor]:
    """Outputs, states and gradients."""
    state = {name: tensors[name] for name in layer.state_shapes}
    if by:
        out, last = by(layer, tensors["x"], lengths, tuple(state.values()), tensors["weight_hh"])
        last = dict(zip(state, last, strict=True))
    else:
        out, last = layer(tensors["x"], lengths, state, weight_hh=tensors["weight_hh"])
    found = {"out": out, **{f"last {name}": tensor for name, tensor in last.items()}}
    noise = torch.Generator().manual_seed(2)
    total = sum((one * torch.randn(one.shape, generator=noise).to(one.device)).sum() for one in found.values())
    grads = torch.autograd.grad(total, [*tensors.values()])  # type: ignore[arg-type]
    return {name: tensor.detach() for name, tensor in found.items()} | dict(zip(tensors, grads, strict=True))


def compare(exact: dict[str, Tensor], usual: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """As far from fp32 as autocast is, at most."""
    for name, value in exact.items():
        assert found[name].dtype == torch.float32 and found[name].shape == value.shape
        error, rounded = ((one[name] - value).norm() / (value.norm() + 1e-3) for one in (found, usual))
        assert error <= 1.5 * rounded + 5e-3, (name, float(error), float(rounded))


@pytest.mark.parametrize(("width", "rows", "time", "lengths", "dropped"), [(40, 3, 4, False, False), (9, 35, 3, True, True)])
@pytest.mark.parametrize("cell", CELLS)
def test_the_kernel_s_source_computes_the_plain_layer(
    cell: str, width: int, rows: int, time: int, lengths: bool, dropped: bool, emulated: None
) -> None:
    layer = built(cell, 6, width)
    tensors = given(layer, rows, time, dropped)
    ends = torch.randint(0, time + 1, (rows,), generator=torch.Generator().manual_seed(3)) if lengths else None
    exact = results(layer, tensors, ends, None)
    with torch.autocast("cpu", torch.bfloat16):
        usual = results(layer, tensors, ends, None)
    compare(exact, usual, results(layer, tensors, ends, over_steps))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", [False, True])
def test_every_width_up_to_1500_is_cut_so_that_all_blocks_run_at_once(cell: str, backward: bool) -> None:
    for width in (1, 7, 8, 64, 200, 400, 650, 1000, 1150, *([1500] if cell != "layer_norm" else [])):
        found = cut(cell, width, backward, MOST_ROWS, HOPPER)
        assert found is not None, width
        assert found.blocks <= HOPPER.processors and found.shared(MOST_ROWS) <= SHARED
        assert (found.blocks - 1) * found.units < width <= found.blocks * found.units
    assert cut(cell, 8000, backward, MOST_ROWS, HOPPER) is None


def test_the_source_has_the_arguments_that_it_is_given() -> None:
    source = Path(recurrent.__file__).with_name("recurrent_steps.h").read_text()
    fields = source[source.index("struct Args {") : source.index("};", source.index("struct Args {"))]
    lines = [line.split("//")[0].strip() for line in fields.splitlines()[1:]]
    names = [part.split()[-1].lstrip("*") for line in lines if line for part in line.rstrip(";").split(",")]
    assert names == [name for name, _ in recurrent_launch.Arguments._fields_]


def test_what_it_does_not_compute_is_refused() -> None:
    one = CUDARecurrent()
    assert not one.cannot(describe_recurrent(RecurrentLayer("lstm", 4, 40), USE), USE)
    assert "not yet tested" in one.refuses(describe_recurrent(RecurrentLayer("lstm", 4, 40), USE), USE)
    with torch.device("meta"):
        wide = RecurrentLayer("lstm", 4, 8000)
    assert "does not fit" in one.cannot(describe_recurrent(wide, USE), USE)
    for layer in (
        RecurrentLayer("lstm", 4, 40, projection=4),
        RecurrentLayer("lstm", 4, 40, cell_clip=1.0),
        RecurrentLayer("lstm", 4, 40).double(),
        RecurrentLayer("mogrifier", 4, 40),
    ):
        assert one.cannot(describe_recurrent(layer, USE), USE)
    layer = RecurrentLayer("peephole", 4, 40)
    for use in (
        UsageSpec(precision="bf16"),
        UsageSpec(machine=HOPPER),
        UsageSpec(machine=HOPPER, precision="bf16", mode="decode"),
        UsageSpec(machine=Machine(device="cuda", capability=(8, 0), processors=108, shared_memory=SHARED), precision="bf16"),
    ):
        assert one.cannot(describe_recurrent(layer, use), use)


def test_where_it_serves_a_step_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model, objective = RNNLMConfig(vocabulary=9, width=16).build(), TruncatedBPTTConfig(lanes=1).build()
    assert not select.traced(model, USE) and "RecurrentLayer refuses" in execution_options.refused(model, objective, "compile")
    monkeypatch.setattr(recurrent, "PROVEN", frozenset({"lstm"}))
    layers = select.traced(model, USE)
    assert layers == {id(layer) for layer in model.layers}
    assert not execution_options.refused(model, objective, "compile", layers)
    assert not select.traced(model, dataclasses.replace(USE, precision="fp32"))
    assert not select.traced(RNNLMConfig(vocabulary=9, width=16, cell="gru").build(), USE)


def test_a_call_that_it_does_not_serve_is_computed_as_before() -> None:
    for cell in ("lstm", "peephole"):
        layer = built(cell, 6, 8)
        x, lengths = torch.randn(2, 3, 6), torch.tensor([3, 1])
        expected = layer(x, lengths)
        CUDARecurrent().install(layer, USE)
        torch.testing.assert_close(layer(x, lengths), expected)
        uninstall(layer)


# -- on a GPU -------------------------------------------------------------------------------------------------------------

ON_GPU = [(200, 20, 20), (650, 20, 35), (1150, 20, 70), (1150, 128, 12), (37, 5, 9)]


def on_gpu(cell: str, width: int) -> RecurrentLayer:
    layer = built(cell, 48, width).cuda()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(width**-0.5 / 0.3)
    return layer


@pytest.mark.gpu
@pytest.mark.parametrize(("width", "rows", "time"), ON_GPU)
@pytest.mark.parametrize("cell", CELLS)
def test_a_gpu_computes_the_plain_layer(cell: str, width: int, rows: int, time: int) -> None:
    layer = on_gpu(cell, width)
    for lengths, dropped in ((False, False), (True, True)):
        tensors = given(layer, rows, time, dropped, "cuda")
        ends = torch.randint(0, time + 1, (rows,), generator=torch.Generator().manual_seed(3)).cuda() if lengths else None
        exact = results(layer, tensors, ends, None)
        with torch.autocast("cuda", torch.bfloat16):
            usual = results(layer, tensors, ends, None)
            CUDARecurrent().install(layer, UsageSpec())
            found = results(layer, tensors, ends, None)
            again = results(layer, tensors, ends, None)
        uninstall(layer)
        compare(exact, usual, found)
        assert all(torch.equal(one, again[name]) for name, one in found.items())


@pytest.mark.gpu
@pytest.mark.parametrize("cell", CELLS)
def test_a_graph_captures_it_and_a_compiled_step_has_it_whole(cell: str) -> None:
    layer = on_gpu(cell, 200)
    CUDARecurrent().install(layer, UsageSpec())
    x = torch.randn(20, 20, 48, device="cuda")

    def step() -> tuple[Tensor, ...]:
        with torch.autocast("cuda", torch.bfloat16):
            out = layer(x)[0]
        return torch.autograd.grad(out.square().sum(), [layer.weight_hh, layer.weight_ih])

    expected = step()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(one, other) for one, other in zip(expected, captured, strict=True))
    compiled = torch.compile(lambda given: layer(given)[0], fullgraph=True)
    with torch.autocast("cuda", torch.bfloat16):
        torch.testing.assert_close(compiled(x), layer(x)[0], rtol=1e-2, atol=1e-2)  # products of the inputs may be of another kernel


def test_it_is_asked_before_pytorch_s_own() -> None:
    names = [one.name for one in select.RECURRENT]
    assert names.index("CUDA recurrence") < names.index("library recurrence")
