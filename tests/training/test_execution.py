"""The choice of device, precision, compilation, graphs and attention, and its reasons."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from tests.training import toys
from weft.core.errors import ConfigError
from weft.kernels.attention import CORES
from weft.kernels.c import passes
from weft.models.language.gpt import GPT, GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution, execution_options
from weft.training.optimizer.settings import SGD, Adam, AdamW, Muon, OptimConfig
from weft.training.settings import Train

CPU = Train(device="cpu")


def large() -> nn.Module:
    return nn.Linear(400, 400)


def small_gpt(**settings: Any) -> GPT:
    return GPTConfig(vocabulary=5, context=4, layers=2, heads=2, width=8, **settings).build()


def test_everything_chosen_has_a_reason() -> None:
    plan = execution.choose(CPU, large(), toys.Regression())
    assert [line.partition(" ")[0] for line in plan.lines()] == [
        "device", "precision", "compile", "cuda_graphs", "cross_entropy", "activation_checkpointing", "fused_casts",
    ]  # fmt: skip
    assert all(line.partition(": ")[2] for line in plan.lines())


@pytest.mark.parametrize(
    ("instructions", "model", "expected"), [(True, large(), "bf16"), (False, large(), "fp32"), (True, nn.Linear(3, 3), "fp32")]
)
def test_precision_on_a_cpu(monkeypatch: pytest.MonkeyPatch, instructions: bool, model: nn.Module, expected: str) -> None:
    monkeypatch.setattr(execution, "cpu_has_bf16", lambda: instructions)
    assert execution.choose(CPU, model, toys.Regression()).precision == expected


@pytest.mark.parametrize(("precision", "tiles", "expected"), [("fp32", True, "fused"), ("bf16", False, "fused"), ("bf16", True, "plain")])
def test_blocks_on_a_cpu(monkeypatch: pytest.MonkeyPatch, precision: str, tiles: bool, expected: str) -> None:
    monkeypatch.setattr(execution, "cpu_has_tiles", lambda: tiles)
    settings = Train(device="cpu", precision=precision)  # type: ignore[arg-type]
    assert execution.choose(settings, large(), toys.Regression()).blocks == expected
    assert execution.choose(settings, large(), toys.Regression(), processes=2).blocks == "plain"


def test_an_objective_may_refuse_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "cpu_has_bf16", lambda: True)
    objective = toys.Regression()
    objective.autocast = False
    assert execution.choose(CPU, large(), objective).precision == "fp32"


def test_what_is_asked_for_is_done() -> None:
    settings = Train(device="cpu", precision="bf16", compile="on", attention="fused", deterministic=True)
    plan = execution.choose(settings, nn.Linear(3, 3), toys.Regression())
    assert (plan.precision, plan.compile, plan.attention, plan.deterministic) == ("bf16", True, "fused", True)
    assert plan.reasons["precision"] == "asked for"
    assert not execution.choose(Train(device="cpu", cuda_graphs="on"), large(), toys.Regression()).graphs


def test_a_cpu_neither_compiles_nor_captures_by_itself() -> None:
    plan = execution.choose(CPU, large(), toys.Regression())
    assert not plan.compile
    assert not plan.graphs


def test_what_a_cpu_cannot_do_is_said() -> None:
    plan = execution.choose(
        dataclasses.replace(CPU, cuda_graphs="on", attention="cudnn", block_kernels="plain"), small_gpt(), toys.Regression()
    )
    assert (plan.graphs, plan.attention) == (False, "fused")
    assert "cuda_graphs off: on was asked for, but only a GPU has them" in plan.lines()
    kind = "2 × SelfAttention(width 8, heads 2, causal)"
    assert f"attention {kind}: fused (cudnn was asked for, but it needs a GPU)" in plan.lines()


def test_a_wrong_device_is_named() -> None:
    with pytest.raises(ConfigError, match="'quantum' is not a device"):
        execution.select_device("quantum")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no usable GPU"):
            execution.select_device("cuda")


@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_layers_are_told_which_attention_to_use(attention: str) -> None:
    model = small_gpt()
    settings = Train(device="cpu", attention=attention)  # type: ignore[arg-type]
    execution.apply(execution.choose(settings, model, toys.Regression()), model)
    assert {block.attention.attention_fn for block in model.blocks} == {CORES[attention]}  # type: ignore[union-attr]


def test_a_model_without_a_transformer_says_nothing_of_blocks() -> None:
    plan = execution.choose(CPU, large(), toys.Regression())
    assert not [line for line in plan.lines() if line.startswith(("blocks", "attention"))]
    assert not plan.table()


@pytest.mark.skipif(not passes.passes_for(torch.float32), reason="no compiler")
def test_the_line_says_what_computes_the_blocks_and_why() -> None:
    settings, kind = Train(device="cpu", precision="fp32"), "2 × Block(width 8, heads 2, gelu)"

    def line(model: nn.Module, **changes: Any) -> str:
        plan = execution.choose(dataclasses.replace(settings, **changes), model, toys.Regression())
        execution.apply(plan, model)
        (line,) = (line for line in plan.lines() if line.startswith("blocks"))
        return line

    assert line(small_gpt()) == f"blocks {kind}: C block in training where no mask is given, else plain"
    assert line(small_gpt(residual_dropout=0.1)) == f"blocks {kind}: plain, as residual dropout 0.1 is on"
    assert line(small_gpt(), block_kernels="plain") == f"blocks {kind}: plain, as plain was asked for"


@pytest.mark.parametrize(
    ("refused", "expected"), [("compile", "compile off"), ("capture", "cuda_graphs off"), ("autocast", "precision fp32")]
)
def test_a_model_may_refuse_how_it_is_run(refused: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "cpu_has_bf16", lambda: True)
    model = type("Shy", (nn.Linear,), {refused: False})(400, 400)
    settings = Train(device="cpu")
    line = next(line for line in execution.choose(settings, model, toys.Regression()).lines() if line.startswith(expected))
    assert refused == "capture" or "Shy" in line or "CPU" in line
    assert execution_options.refused(nn.Sequential(model), toys.Regression(), refused).startswith("Shy "), "a part refuses for the whole"
    assert not execution_options.refused(large(), toys.Regression(), refused)
    setting, value = {"compile": ("compile", "on"), "capture": ("cuda_graphs", "on"), "autocast": ("precision", "bf16")}[refused]
    with pytest.raises(ConfigError, match=f"--train.{setting} {value} cannot be had: Shy"):
        execution.choose(dataclasses.replace(settings, **{setting: value}), model, toys.Regression())


def test_weights_stay_fp32_whatever_the_precision() -> None:
    trainer = toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), precision="bf16", batch=8)
    trainer.run_step()
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    with trainer.plan.autocast():
        assert trainer.model(torch.zeros(1, 4)).dtype == torch.bfloat16


def test_a_compiled_step_equals_an_eager_one() -> None:
    pytest.importorskip("torch._inductor")
    results = []
    for compile in (False, True):
        torch.manual_seed(0)
        trainer = toys.trainer(toys.Linear(), toys.HalfLabelled(), toys.regression(), batch=8, micro_batch=4)
        if compile:  # the backend that needs no C++ compiler
            trainer.functions[""] = torch.compile(trainer.functions[""], backend="aot_eager")
        for _ in range(3):
            trainer.run_step()
        results.append(toys.weights(trainer.model))
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("optim", "served"),
    [
        (Adam(), True),
        (AdamW(), True),
        (Adam(eps_inside_sqrt=True), False),
        (AdamW(l1=0.1), False),
        (AdamW(scale_parameter=True), False),
        (SGD(), False),
        (Muon(), False),
        (None, False),
    ],
)
def test_adam_alone_writes_copies(optim: OptimConfig | None, served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_options.importlib.util, "find_spec", lambda name: name)
    why = execution_options.never_fused(Train(), True, "bf16", toys.Regression(), optim, 1)
    assert (not why) if served else why.startswith("it is for Adam and AdamW")


def test_large_models_fuse_the_update() -> None:
    found = {
        (why, logits): execution_options.resolve("auto", execution_options.of_fused_casts(why, logits))[0]
        for why in ("", "no")
        for logits in ("whole", "chunked")
    }
    assert found == {("", "chunked"): "on", ("", "whole"): "off", ("no", "chunked"): "off", ("no", "whole"): "off"}


@pytest.mark.gpu
def test_a_gpu_fuses_the_update_of_a_language_model() -> None:
    model, objective = GPTConfig(vocabulary=5000, context=4, layers=1, heads=2, width=8).build(), NextTokenConfig().build()
    assert execution.choose(Train(), model, objective, AdamW()).fused_casts
    for settings, optim in (
        (Train(), SGD()),
        (Train(), None),
        (Train(batch=8, micro_batch=2), AdamW()),
        (Train(precision="fp32"), AdamW()),
    ):
        assert not execution.choose(settings, model, objective, optim).fused_casts


@pytest.mark.gpu
def test_a_gpu_uses_bf16_graphs_and_a_fused_kernel() -> None:
    plan = execution.choose(Train(steps=100), large(), toys.Regression())
    assert (plan.device.type, plan.precision, plan.graphs) == ("cuda", "bf16", True)
    assert plan.attention in ("fused", "cudnn")
    objective = toys.Regression()
    objective.capture = False
    assert not execution.choose(Train(steps=100), large(), objective).graphs
