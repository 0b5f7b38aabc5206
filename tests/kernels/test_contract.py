"""Every implementation against the plain mathematics, for every description that it claims: forward, backward and decoding."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.gpt_configs import gpt_config
from weft.inference.quantize import quantize_model
from weft.inference.runner import ModelRunner
from weft.kernels import mathematics, select
from weft.kernels.c import passes
from weft.kernels.describe import describe_block, describe_recurrent, describe_stack
from weft.kernels.implementation import uninstall
from weft.kernels.known import described
from weft.kernels.select import choose_decoder, install_chosen
from weft.kernels.spec import BlockSpec, StackSpec
from weft.kernels.usage import Machine, UsageSpec
from weft.models.language.llama import LlamaConfig
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.feed_forward import FeedForward, GatedFeedForward
from weft.nn.norm import LayerNorm, RMSNorm
from weft.nn.position import rope_table
from weft.nn.recurrent import CELLS, WITH_CELL, RecurrentLayer

HOPPER = Machine(device="cuda", capability=(9, 0), triton=True, processors=132, shared_memory=232_448)
CPU = Machine()
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]
BASE: dict[str, Any] = {
    "width": 128, "heads": 2, "kv_heads": 0, "causal": True, "qk_norm": False, "ffn_width": 512, "gated": False, "activation": "gelu",
    "order": "pre", "norm": "layer", "eps": 1e-5, "bias": True, "norm_bias": True, "dropout": 0.0,
    "attention_dropout": 0.0, "drop_path": 0.0,
}  # fmt: skip
OTHERS: dict[str, list[Any]] = {
    "width": [64, 256, 96],
    "heads": [1, 8],
    "kv_heads": [1],
    "causal": [False],
    "qk_norm": [True],
    "ffn_width": [128, 200],
    "gated": [True],
    "activation": ["gelu_tanh", "relu", "squared_relu", "silu"],
    "order": ["post"],
    "norm": ["rms", "torch", "none"],
    "eps": [1e-6],
    "bias": [False],
    "norm_bias": [False],
    "dropout": [0.1],
    "attention_dropout": [0.1],
    "drop_path": [0.1],
}
ONE = [{name: value} for name, values in OTHERS.items() for value in values]
TWO = [one | other for one, other in itertools.combinations([{name: values[0]} for name, values in OTHERS.items()], 2)]
GRID: list[dict[str, Any]] = [{}, *ONE, *TWO]


def built(**settings: Any) -> Block:
    torch.manual_seed(0)
    s = BASE | settings
    norms = {
        "layer": partial(LayerNorm, s["width"], eps=s["eps"], bias=s["norm_bias"]),
        "torch": partial(nn.LayerNorm, s["width"], eps=s["eps"], bias=s["norm_bias"]),
        "rms": partial(RMSNorm, s["width"], eps=s["eps"]),
        "none": nn.Identity,
    }
    more = {"dropout": s["attention_dropout"], "bias": s["bias"], "kv_heads": s["kv_heads"], "qk_norm": s["qk_norm"]}
    attention = SelfAttention(s["width"], s["heads"], causal=s["causal"], **more)
    network = GatedFeedForward if s["gated"] else FeedForward
    feed = network(s["width"], s["ffn_width"], activation=s["activation"], bias=s["bias"])
    block = Block(attention, feed, norms[s["norm"]], order=s["order"], dropout=s["dropout"], drop_path=s["drop_path"])
    for name, parameter in block.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm" in name and "weight" in name else 0.0, 0.05)
    return block


@cache
def specs() -> list[BlockSpec]:
    return [describe_block(built(**settings), UsageSpec()) for settings in GRID]


def dropped(spec: BlockSpec) -> float:
    return spec.dropout + spec.drop_path + spec.attention.dropout


SERVED: dict[str, Any] = {
    "C block": lambda s: (
        s.order == "pre" and s.attention.causal and s.attention.kv_heads == s.attention.heads and not s.attention.qk_norm and not dropped(s)
        and not s.gated and s.activation in ("gelu", "gelu_tanh") and s.norm == "layer"
    ),
    "CUDA block": lambda s: (
        s.order == "pre" and not s.drop_path and not s.gated and s.activation in ("gelu", "gelu_tanh") and s.norm == "layer"
        and s.bias == "all" and s.norm_weights == "all" and s.attention.width % 64 == s.ffn_width % 64 == 0
    ),
    "narrow blocks": lambda s: (
        s.order == "pre" and s.attention.causal and s.attention.kv_heads == s.attention.heads and not s.attention.qk_norm and not s.gated
        and not s.drop_path and s.activation == "gelu" and s.norm == "layer" and s.bias == "all" and s.norm_weights == "all"
        and s.eps == (1e-5, 1e-5) and s.attention.width in (128, 256) and s.ffn_width % 256 == 0
        and s.attention.head_dim in (16, 32, 64, 128)
    ),
}  # fmt: skip
"""Which of the grid each computes, said a second time."""


@pytest.mark.parametrize("one", [*select.BLOCKS, *select.STACKS], ids=lambda one: one.name)
def test_each_claims_what_it_computes_and_nothing_else(one: Any) -> None:
    use = UsageSpec(precision="bf16", machine=HOPPER) if one.name != "C block" else UsageSpec()
    claimed = 0
    for spec in specs():
        given = (spec, spec) if one in select.STACKS else spec
        why = one.refuses(given, use)
        if "compiler" not in why:
            assert bool(why) != SERVED[one.name](spec), f"{spec}: {why}"
        claimed += not why
        for changes in ({"mode": "evaluate"}, {"mode": "decode"}, {"machine": CPU if use.machine is HOPPER else HOPPER}):
            assert one.refuses(given, dataclasses.replace(use, **changes))  # type: ignore[arg-type]
    assert claimed > 1 or (one.name == "C block" and not passes.passes_for(torch.float32))


def test_what_is_true_of_a_run_is_asked_as_well() -> None:
    spec, bf16 = specs()[0], UsageSpec(machine=HOPPER, precision="bf16")
    cuda, narrow, cpu = select.BLOCKS[0], select.STACKS[0], select.BLOCKS[1]
    for changes in ({"precision": "fp32"}, {"machine": dataclasses.replace(HOPPER, triton=False)}, {"parts": frozenset()}):
        assert cuda.refuses(spec, dataclasses.replace(bf16, **changes))  # type: ignore[arg-type]
    assert narrow.refuses((spec,), dataclasses.replace(bf16, checkpointing="selective"))
    assert narrow.refuses((spec, dataclasses.replace(spec, dropout=0.5)), bf16)
    assert cpu.refuses(spec, UsageSpec(checkpointing="full"))
    assert cpu.refuses(dataclasses.replace(spec, window=4), UsageSpec())
    assert cpu.refuses(dataclasses.replace(spec, plain_tensors=False), UsageSpec())


def masks_and_tables(device: str, settings: dict[str, Any], length: int) -> list[tuple[Any, Tensor | None]]:
    head = (BASE | settings)["width"] // (BASE | settings)["heads"]
    mask = torch.rand(3, 1, length, length, device=device) < 0.7
    return [(None, None), (mask, None), (None, rope_table(length, head).to(device)), (mask, rope_table(length, head).to(device))]


def learned(model: nn.Module, x: Tensor, bf16: bool, *given: Any) -> dict[str, Tensor]:
    """The output, and the gradients of a fixed sum of it."""
    x = x.detach().requires_grad_()
    torch.manual_seed(3)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16):
        out = model(x, *given)
    wanted = {"x": x, **dict(model.named_parameters())}
    found = torch.autograd.grad((out.float() * torch.linspace(-1, 1, out.size(-1), device=x.device)).sum(), [*wanted.values()])
    return {"out": out.detach(), **dict(zip(wanted, found, strict=True))}


def agree(model: nn.Module, use: UsageSpec, x: Tensor, *given: Any) -> None:
    """What is chosen is as near to the plain layers in fp32 as the plain layers in the run's precision, but for chance."""
    bf16 = use.precision == "bf16"
    exact = learned(model, x.float(), False, *given)
    plain = learned(model, x, bf16, *given)
    install_chosen(model, use)
    found = learned(model, x, bf16, *given)
    uninstall(model)
    for name, value in exact.items():
        error, usual = ((one[name].float() - value).norm() / (value.norm() + 1e-6) for one in (found, plain))
        assert error <= (1.3 * usual + 3e-3 if bf16 else 1e-5), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", [{}, *ONE], ids=str)
def test_blocks_are_the_plain_blocks(settings: dict[str, Any], device: str, precision: str) -> None:
    """Whatever is chosen, with and without masks and rotary positions; what is dropped is another test's."""
    use = UsageSpec(machine=Machine.of(torch.device(device)), precision=precision, attention="cudnn" if device == "cuda" else "fused")
    kept = {name: value for name, value in settings.items() if name not in ("dropout", "attention_dropout", "drop_path")}
    if device == "cpu" and not install_chosen(built(**kept), use)[0].chosen:
        pytest.skip("plain")
    for length in (5, 150) if device == "cuda" else (5,):
        stream = torch.bfloat16 if device == "cuda" and precision == "bf16" else torch.float32
        x = torch.randn(3, length, (BASE | kept)["width"], device=device).to(stream)
        for mask, table in masks_and_tables(device, kept, length):
            agree(built(**kept).to(device), use, x, mask, table)
        agree(Blocks([built(**kept), built(**kept)]).to(device), use, x)


@pytest.mark.parametrize("name", ["explicit", "fused", "cudnn"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", [{}, {"kv_heads": 1}, {"causal": False}, {"qk_norm": True}, {"heads": 8}], ids=str)
def test_attention_is_the_plain_attention(settings: dict[str, Any], device: str, name: str) -> None:
    for asked, precision in itertools.product((True, False), ("fp32", "bf16")):
        use = UsageSpec(machine=Machine.of(torch.device(device)), precision=precision, attention=name, attention_asked=asked)
        for length in (5, 70, 150):
            stream = torch.bfloat16 if device == "cuda" and precision == "bf16" else torch.float32
            x = torch.randn(3, length, BASE["width"], device=device).to(stream)
            for mask, table in masks_and_tables(device, settings, length):
                agree(built(**settings).attention.to(device), use, x, mask, table)


def test_what_is_asked_for_by_name_is_used_alone() -> None:
    """Short sequences have a kernel of their own, unless attention was asked for by name."""
    attention = built().attention
    for asked, expected in ((False, ("short attention", "cudnn")), (True, ("cudnn",))):
        (choice,) = select.choose(attention, UsageSpec(machine=HOPPER, precision="bf16", attention="cudnn", attention_asked=asked))
        assert choice.chosen == expected


# -- decoding ----------------------------------------------------------------------------------------------------------

SIZES: dict[str, Any] = {"vocabulary": 60, "context": 40, "layers": 3, "heads": 4, "width": 64}
DECODERS: dict[str, Any] = {
    **{str(more): gpt_config(**SIZES | more) for more in (
        {}, {"norm": "post"}, {"position_embedding": "rotary"}, {"position_embedding": "sinusoidal"}, {"sliding_window": 4},
        {"bias": False}, {"tie_embeddings": False},
        {"embedding_norm": True}, {"activation": "relu"}, {"activation": "silu", "ffn_width": 128}, {"qk_norm": True},
        {"embedding_skips": True}, {"heads": 1}, {"position_embedding": "rotary", "sliding_window": 3, "norm": "post"},
    )},
    "llama": LlamaConfig(**SIZES),
    "llama in groups": LlamaConfig(**SIZES | {"kv_heads": 2, "tie_embeddings": False}),
}  # fmt: skip
REFUSED = {str({"qk_norm": True}), str({"embedding_skips": True})}


def decoder(name: str) -> Any:
    torch.manual_seed(0)
    model = DECODERS[name].build().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, 0.2)
    return model


@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DECODERS)
def test_decoding_gives_what_the_model_gives(name: str, device: str, weights: Any) -> None:
    if device == "cuda" and weights == "int8":
        pytest.skip("rounded weights are for a CPU")
    model = decoder(name).to(device)
    exact = copy.deepcopy(model)
    quantize_model(model, weights)
    asked = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2], [7]]
    for rows in ([asked[0]], asked):
        runner = ModelRunner(model)
        assert bool(runner.decode_step) != (name in REFUSED), choose_decoder(model)
        runner.add_rows(len(rows))
        runner.prefill(rows)
        read = [list(ids) for ids in rows]
        for token in (11, 12):
            logits = runner.decode(torch.full((len(rows),), token, device=device)).float()
            for row, ids in enumerate(read):
                ids.append(token)
                with torch.inference_mode():
                    given = torch.tensor([ids], device=device)
                    wanted, rounded = exact(given)[0, -1].float(), model(given)[0, -1].float()
                error, usual = ((found - wanted).norm() / wanted.norm() for found in (logits[row], rounded))
                assert error <= 1.5 * usual + 0.03


def test_one_row_is_served_where_every_row_is() -> None:
    use = UsageSpec(machine=HOPPER, mode="decode")
    claims = {}
    for name in DECODERS:
        spec = described(describe_stack, decoder(name).bfloat16(), use)
        assert isinstance(spec, StackSpec)
        claims[name] = [not one.refuses(spec, use) for one in (select.DECODERS[0], select.SINGLE_ROW[0])]
        assert claims[name][0] == (name not in REFUSED)
        assert all(one.refuses(spec, use) for one in (select.DECODERS[1], select.SINGLE_ROW[1]))
    assert {name for name, (_, alone) in claims.items() if alone} == {
        str(more)
        for more in (
            {},
            {"bias": False},
            {"tie_embeddings": False},
            {"activation": "relu"},
            {"activation": "silu", "ffn_width": 128},
            {"heads": 1},
        )
    }


# -- recurrent layers ----------------------------------------------------------------------------------------------------

RECURRENT_SIZES: list[dict[str, Any]] = [
    {"inputs": 5, "width": 9},
    {"inputs": 33, "width": 40, "rows": 29, "time": 4},
    {"inputs": 7, "width": 21, "rows": 1, "time": 1},
    {"inputs": 6, "width": 17, "projection": 6},
    {"inputs": 6, "width": 35, "cell_clip": 0.3},
    {"inputs": 6, "width": 35, "projection": 12, "cell_clip": 0.5, "projection_clip": 0.2},
]
RECURRENT_SERVED: dict[str, Any] = {
    "C recurrence": lambda s: s.cell not in ("layer_norm", "mogrifier"),
    "CUDA recurrence": lambda s: False,  # on a CPU; see tests/kernels/cuda/test_recurrent.py
    "library recurrence": lambda s: s.cell in ("rnn", "lstm", "gru") and not s.clipped,
}
"""Which each computes, said a second time."""


def recurrent(cell: str, settings: dict[str, Any]) -> RecurrentLayer | None:
    torch.manual_seed(0)
    more = {name: value for name, value in settings.items() if name not in ("rows", "time")}
    if cell not in WITH_CELL and more.keys() - {"inputs", "width"}:
        return None
    layer = RecurrentLayer(cell, **more)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, 0.0, 0.3)
    return layer


def run_recurrent(layer: RecurrentLayer, settings: dict[str, Any], bf16: bool, lengths: bool, dropped: bool) -> dict[str, Tensor]:
    """Outputs, states and gradients, with a state given; dropped: with a weight_hh that is not the layer's own."""
    rows, time = settings.get("rows", 3), settings.get("time", 7)
    noise = torch.Generator().manual_seed(2)
    given = {"x": torch.randn(rows, time, layer.inputs, generator=noise)}
    given |= {name: torch.randn(rows, *shape, generator=noise) for name, shape in layer.state_shapes.items()}
    given = {name: tensor.requires_grad_() for name, tensor in given.items()} | dict(layer.named_parameters())
    weight = (layer.weight_hh * 0.5).detach().requires_grad_()
    given |= {"weight_hh": weight} if dropped else {}
    ends = torch.randint(0, time + 1, (rows,), generator=noise) if lengths else None
    state = {name: given[name] for name in layer.state_shapes}
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        out, last = layer(given["x"], ends, state, weight_hh=weight if dropped else None)
    found = {"out": out, **{f"last {name}": tensor for name, tensor in last.items()}}
    total = sum((tensor * torch.randn(tensor.shape, generator=noise)).sum() for tensor in found.values())
    grads = torch.autograd.grad(total, [*given.values()])  # type: ignore[arg-type]
    return {**{name: tensor.detach() for name, tensor in found.items()}, **dict(zip(given, grads, strict=True))}


@pytest.mark.parametrize("one", select.RECURRENT, ids=lambda one: one.name)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_layers_are_the_plain_ones(cell: str, precision: str, one: Any) -> None:
    """All that each claims: forward and backward, with lengths, of none too, states in and out, and another weight_hh."""
    use, bf16 = UsageSpec(precision=precision), precision == "bf16"
    for settings in RECURRENT_SIZES:
        if (layer := recurrent(cell, settings)) is None:
            continue
        spec = describe_recurrent(layer, use)
        why = one.refuses(spec, use)
        if "compiler" in why:
            pytest.skip(why)
        assert bool(why) != RECURRENT_SERVED[one.name](spec), why
        for lengths, dropped in ((False, False), (True, False), (True, True)):
            if why or (bf16 and spec.clipped):  # what is rounded may be clipped where the other is not
                continue
            exact, usual = (run_recurrent(layer, settings, how, lengths, dropped) for how in (False, bf16))
            one.install(layer, use)
            found = run_recurrent(layer, settings, bf16, lengths, dropped)
            uninstall(layer)
            for name, value in exact.items():
                assert found[name].dtype == torch.float32
                error, rounded = ((out[name] - value).norm() / (value.norm() + 1e-3) for out in (found, usual))
                assert error <= (1.5 * rounded + 5e-3 if bf16 else 1e-5), (settings, name)


@pytest.mark.parametrize("one", select.RECURRENT, ids=lambda one: one.name)
@pytest.mark.parametrize("cell", CELLS)
def test_one_step_of_decoding_is_the_plain_one(cell: str, one: Any) -> None:
    for settings in RECURRENT_SIZES:
        layer, use = recurrent(cell, settings), UsageSpec(mode="decode")
        if layer is None or one.refuses(describe_recurrent(layer, use), use):
            continue
        for rows in (1, 6):
            x, state = torch.randn(rows, 1, layer.inputs), {name: torch.randn(rows, *shape) for name, shape in layer.state_shapes.items()}
            with torch.no_grad():
                expected = layer(x, None, state)
                one.install(layer, use)
                torch.testing.assert_close(layer(x, None, state), expected, rtol=1e-5, atol=1e-5)
                uninstall(layer)


def test_what_is_true_of_weights_and_of_a_run_is_asked_of_recurrent_layers() -> None:
    layer = RecurrentLayer("peephole", 4, 4)
    spec, one = describe_recurrent(layer, UsageSpec()), select.RECURRENT[0]
    changes: list[dict[str, Any]] = [{"dtypes": frozenset({"float64"})}, {"contiguous": False}, {"plain_tensors": False}, {"cell": "new"}]
    assert all(one.refuses(dataclasses.replace(spec, **change), UsageSpec()) for change in changes)
    assert all(one.refuses(spec, use) for use in (UsageSpec(machine=HOPPER), UsageSpec(compiled=True), UsageSpec(precision="fp16")))


# -- what the kernels were checked against -------------------------------------------------------------------------------


def test_kernels_were_checked_against_the_layers_as_they_are() -> None:
    """Once the tests above pass: python -m weft.kernels.mathematics"""
    now = mathematics.fingerprints()
    assert all(fingerprint for functions in now.values() for fingerprint in functions.values())
    assert now == mathematics.recorded()
