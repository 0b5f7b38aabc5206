"""Changed models: none is served by a kernel that does not compute the change, neither in training nor in decoding."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import weft
from tests.kernels.test_contract import HOPPER
from weft.core.errors import ConfigError
from weft.inference.quantize import quantize_model
from weft.inference.runner import ModelRunner
from weft.kernels import select
from weft.kernels.attention import explicit_attention
from weft.kernels.implementation import uninstall
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import GPT, GPTConfig
from weft.models.language.t5 import T5Config
from weft.nn import attention as attention_module
from weft.nn import feed_forward
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.settings import Train

CONFIG = GPTConfig(vocabulary=60, context=32, layers=2, heads=2, width=128)
Change = Callable[[Any], Any]
CHANGES: dict[str, Change] = {}
MODEL_CHANGES: dict[str, Change] = {}
"""Of what is around the blocks, which themselves are as they were."""


def grad_out(function: Change) -> Change:
    CHANGES[function.__name__] = function
    return function


def model_change(function: Change) -> Change:
    MODEL_CHANGES[function.__name__] = function
    return function


def capped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0) -> Tensor:
    """Attention whose scores are at most 0.05."""
    scores = 0.05 * torch.tanh(q @ k.mT)
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


class SoftCapped(SelfAttention):
    def attend(self, x: Tensor, mask: Any, rotary: Tensor | None, layer_kv: Any = None) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (part.transpose(1, 2) for part in self.qkv(x).view(b, t, 3, self.heads, self.head_dim).unbind(2))
        if layer_kv is not None:
            k, v = (part.to(q.dtype) for part in layer_kv.update(k, v))
        return capped(q, k, v, mask, self.causal and layer_kv is None).transpose(1, 2).flatten(2)


class OtherLook(SelfAttention):
    def cached_attention(self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return super().cached_attention(q * 2, keys, values, mask)

    def attend(self, x: Tensor, mask: Any, rotary: Tensor | None, layer_kv: Any = None) -> Tensor:
        return super().attend(x, mask, rotary, layer_kv) * (1 if layer_kv else 2)


class ALiBi(SoftCapped):
    """Positions as a slope of the scores."""

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self.register_buffer("slope", torch.tensor(0.5))


class OtherCore(SelfAttention):
    attention_fn = staticmethod(lambda q, k, v, mask=None, causal=False, dropout=0.0: explicit_attention(q * 3, k, v, mask, causal))


def as_kind(kind: type, module: nn.Module, **more: Any) -> Any:
    """The same module as an instance of another class."""
    module.__class__ = kind
    vars(module).update(more)
    return module


def each(model: Any, function: Callable[[Any], Any]) -> Any:
    for block in model.blocks:
        function(block)
    return model


@grad_out
def attention_is_a_subclass(model: Any) -> Any:
    return each(model, lambda block: as_kind(SoftCapped, block.attention))


@grad_out
def a_helper_of_attention_is_overridden(model: Any) -> Any:
    return each(model, lambda block: as_kind(OtherLook, block.attention))


@grad_out
def attention_has_positions_of_its_own(model: Any) -> Any:
    return each(model, lambda block: as_kind(ALiBi, block.attention).register_buffer("slope", torch.tensor(0.5)))


@grad_out
def attention_has_a_core_of_its_own(model: Any) -> Any:
    return each(model, lambda block: as_kind(OtherCore, block.attention))


@grad_out
def a_core_is_put_into_attention(model: Any) -> Any:
    return each(model, lambda block: setattr(block.attention, "attention_fn", OtherCore.attention_fn))


@grad_out
def attention_has_an_attribute_more(model: Any) -> Any:
    return each(model, lambda block: setattr(block.attention, "soft_cap", 30.0))


@grad_out
def attention_has_a_parameter_more(model: Any) -> Any:
    return each(model, lambda block: block.attention.register_parameter("slope", nn.Parameter(torch.zeros(2))))


@grad_out
def attention_has_a_buffer_more(model: Any) -> Any:
    return each(model, lambda block: block.attention.register_buffer("bias_table", torch.zeros(2)))


@grad_out
def a_method_of_attention_is_replaced(model: Any) -> Any:
    return each(model, lambda block: setattr(block.attention, "attend", MethodType(SoftCapped.attend, block.attention)))


@grad_out
def a_block_is_a_subclass(model: Any) -> Any:
    class Parallel(Block):
        def forward(self, x: Tensor, mask: Any = None, rotary: Tensor | None = None, layer_kv: Any = None) -> Tensor:
            normed = self.norm1(x)
            out: Tensor = x + self.attention(normed, mask, rotary, layer_kv) + self.feedforward(normed)
            return out

    return each(model, lambda block: as_kind(Parallel, block))


@grad_out
def the_forward_pass_of_a_block_is_replaced(model: Any) -> Any:
    def forward(self: Any, x: Tensor, *given: Any) -> Tensor:
        return Block.forward(self, x, *given) * 0.5

    return each(model, lambda block: setattr(block, "forward", MethodType(forward, block)))


@grad_out
def a_block_has_an_adapter(model: Any) -> Any:
    return each(model, lambda block: block.add_module("adapter", nn.Linear(128, 128)))


@grad_out
def a_linear_layer_has_an_adapter(model: Any) -> Any:
    return each(model, lambda block: block.attention.qkv.add_module("lora", nn.Linear(128, 4)))


@grad_out
def feed_forward_is_a_subclass(model: Any) -> Any:
    class Halved(FeedForward):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) / 2

    return each(model, lambda block: as_kind(Halved, block.feedforward))


@grad_out
def a_norm_is_a_subclass(model: Any) -> Any:
    class Shifted(LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    return each(model, lambda block: as_kind(Shifted, block.norm2))


@grad_out
def a_linear_layer_is_a_subclass(model: Any) -> Any:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    return each(model, lambda block: as_kind(Doubled, block.feedforward.up))


@grad_out
def dropout_is_a_subclass(model: Any) -> Any:
    class Noise(type(model.dropout)):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            return x * 1.5

    return each(model, lambda block: as_kind(Noise, block.dropout))


@grad_out
def a_layer_has_a_forward_hook(model: Any) -> Any:
    return each(model, lambda block: block.attention.out.register_forward_hook(lambda module, given, out: out * 2))


@grad_out
def a_layer_has_a_pre_hook(model: Any) -> Any:
    return each(model, lambda block: block.feedforward.register_forward_pre_hook(lambda module, given: (given[0] * 2,)))


@grad_out
def a_layer_has_a_backward_hook(model: Any) -> Any:
    return each(model, lambda block: block.norm1.register_full_backward_hook(lambda module, ins, outs: (ins[0] * 2,)))


@grad_out
def a_weight_is_parametrized(model: Any) -> Any:
    return each(model, lambda block: parametrizations.weight_norm(block.attention.qkv))


@grad_out
def a_weight_is_spectral(model: Any) -> Any:
    return each(model, lambda block: parametrizations.spectral_norm(block.feedforward.up))


@grad_out
def a_layer_is_wrapped(model: Any) -> Any:
    return each(model, lambda block: setattr(block.attention, "out", nn.Sequential(block.attention.out, nn.Tanh())))


@grad_out
def heads_are_said_otherwise(model: Any) -> Any:
    return each(model, lambda block: setattr(block.attention, "kv_heads", 1))


class OtherHidden(GPT):
    def hidden(self, ids: Tensor, *given: Any, **named: Any) -> Tensor:
        return super().hidden(ids, *given, **named) * 2


class OtherEmbedded(GPT):
    def embedded(self, ids: Tensor, place: Tensor | None = None) -> Tensor:
        return super().embedded(ids, place) * 2


class OtherHead(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 30 * torch.tanh(super().forward(x) / 30)


@model_change
def hidden_is_overridden(model: Any) -> Any:
    return as_kind(OtherHidden, model)


@model_change
def embedded_is_overridden(model: Any) -> Any:
    return as_kind(OtherEmbedded, model)


@model_change
def the_head_is_capped(model: Any) -> Any:
    as_kind(OtherHead, model.head)
    return model


@model_change
def hidden_is_replaced(model: Any) -> Any:
    model.hidden = MethodType(doubled_hidden, model)
    return model


def doubled_hidden(self: Any, ids: Tensor, *given: Any, **named: Any) -> Tensor:
    return GPT.hidden(self, ids, *given, **named) * 2


@model_change
def the_model_has_a_hook(model: Any) -> Any:
    model.norm.register_forward_hook(lambda module, given, out: out * 2)
    return model


@model_change
def the_embedding_has_a_hook(model: Any) -> Any:
    model.embed.register_forward_hook(lambda module, given, out: out * 2)
    return model


@model_change
def the_model_has_a_parameter_more(model: Any) -> Any:
    model.temperature = nn.Parameter(torch.ones(()))
    return model


@model_change
def the_model_has_a_layer_more(model: Any) -> Any:
    model.adapter = nn.Linear(128, 128)
    return model


@model_change
def the_last_norm_is_another(model: Any) -> Any:
    model.norm = nn.GroupNorm(1, 128)
    return model


@model_change
def blocks_are_run_in_another_order(model: Any) -> Any:
    class Backwards(Blocks):
        def forward(self, x: Tensor, masks: Any = None, rotary: Any = None, layer_kvs: Any = None) -> Tensor:
            for number in reversed(range(len(self))):
                x = self[number](x, masks[number] if masks else None, rotary, layer_kvs[number] if layer_kvs else None)
            return x

    return as_kind(Backwards, model.blocks) and model


def model() -> Any:
    torch.manual_seed(0)
    made = CONFIG.build()
    for name, parameter in made.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm" in name and parameter.ndim == 1 else 0.0, 0.2)
    return made


DIFFER_WITH_A_CACHE = {"a_helper_of_attention_is_overridden"}
"""Changes that are made to differ with a cache and without one."""
IDS = torch.arange(24).view(2, 12) * 7 % 60


def learned(network: Any) -> list[Tensor]:
    network.zero_grad()
    out = network(IDS)
    F.cross_entropy(out.flatten(0, 1), IDS.flatten()).backward()  # type: ignore[no-untyped-call]
    return [out.detach(), *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


def uses() -> list[UsageSpec]:
    return [UsageSpec(precision="fp32"), UsageSpec(precision="bf16"), UsageSpec(machine=HOPPER, precision="bf16", attention="cudnn")]


@pytest.mark.parametrize("name", CHANGES)
def test_changed_blocks_are_trained_as_they_are(name: str) -> None:
    changed = CHANGES[name](model())
    for use in uses():
        for choice in select.choose(changed, use):
            assert choice.what != "blocks" or not choice.chosen, choice.line()
            assert choice.what != "blocks" or choice.line().partition(": ")[2].startswith("plain, as ")
    if name in ("heads_are_said_otherwise", "a_weight_is_spectral"):  # the first runs in no way, and the second changes as it runs
        return
    select.install_chosen(changed, uses()[0])
    assert not any("forward" in vars(block).get("implementations", ()) for block in changed.blocks)
    found = learned(changed)
    uninstall(changed)
    assert all(map(torch.equal, found, learned(changed)))


@pytest.mark.parametrize("name", [*CHANGES, *MODEL_CHANGES])
def test_changed_models_are_decoded_as_they_are(name: str) -> None:
    changed = (CHANGES | MODEL_CHANGES)[name](model()).eval()
    assert not select.choose_decoder(changed.bfloat16()).chosen
    spec = select.described(select.describe_stack, changed, UsageSpec(machine=HOPPER, mode="decode"))
    assert isinstance(spec, str) and spec, "no description, so no kernel of a GPU either"
    if name in ("heads_are_said_otherwise", "the_last_norm_is_another"):
        return
    runner, ids = ModelRunner(changed.float()), IDS[0].tolist()
    assert runner.decode_step is None
    runner.add_rows(1)
    runner.prefill([ids[:-1]])
    with torch.inference_mode():
        expected = changed.head(changed.hidden(IDS[:1]))[0, -1]
    if name not in DIFFER_WITH_A_CACHE:
        torch.testing.assert_close(runner.decode(IDS[0, -1:])[0], expected, rtol=1e-3, atol=1e-3)


class CappedHead(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * torch.tanh(super().forward(x) / 3)


def strange_head(kind: str) -> Any:
    changed = model()
    if kind == "subclass":
        as_kind(CappedHead, changed.head)
    elif kind == "hook":
        changed.head.register_forward_hook(lambda module, given, out: out * 0)
    elif kind == "parametrization":
        parametrizations.weight_norm(changed.head)
    return changed


@pytest.mark.parametrize("logits", ["auto", "chunked"])
@pytest.mark.parametrize("kind", ["subclass", "hook", "parametrization"])
def test_a_loss_asks_a_strange_head_itself(kind: str, logits: Any) -> None:
    """The chunked loss reads the head's matrix, so it serves only a head that is nothing else."""
    settings, objective = Train(device="cpu", cross_entropy=logits), NextTokenConfig().build()
    plan = execution.choose(settings, strange_head(kind), objective)
    assert plan.cross_entropy == "whole"
    assert logits == "auto" or plan.reasons["cross_entropy"].startswith("chunked was asked for, but the head")
    assert execution.choose(Train(device="cpu", cross_entropy="chunked"), model(), objective).cross_entropy == "chunked"


@pytest.mark.parametrize("kind", ["subclass", "hook", "parametrization"])
def test_strange_layers_are_not_made_int8(kind: str) -> None:
    with pytest.raises(ConfigError, match="--precision int8 is for plain linear layers, and head"):
        quantize_model(strange_head(kind), "int8")


def test_changed_attention_is_not_replaced_in_any_model(monkeypatch: pytest.MonkeyPatch) -> None:
    network = T5Config(vocabulary=30, layers=1, heads=2, width=16).build()
    use = UsageSpec(attention="explicit")
    assert all(choice.chosen == ("explicit",) for choice in select.choose(network, use) if choice.what == "attention")
    monkeypatch.setattr(attention_module, "fused_attention", capped)
    monkeypatch.setattr(select, "fused_attention", capped)
    for module in network.modules():
        if "attention_fn" in vars(type(module)):
            monkeypatch.setattr(type(module), "attention_fn", staticmethod(capped))
    assert not any(choice.chosen for choice in select.choose(network, use))


@pytest.mark.parametrize("what", ["method", "helper", "activation", "block", "hook", "model"])
def test_classes_that_are_changed_as_they_run(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "method":
        monkeypatch.setattr(SelfAttention, "attend", SoftCapped.attend)
    elif what == "helper":
        monkeypatch.setattr(attention_module, "apply_rope", lambda x, table: -x)
    elif what == "activation":
        monkeypatch.setitem(feed_forward.ACTIVATIONS, "gelu", F.relu)
    elif what == "block":
        plain = Block.forward
        monkeypatch.setattr(Block, "forward", lambda *given: plain(*given) * 2)
    elif what == "model":
        monkeypatch.setattr(GPT, "hidden", doubled_hidden)
    else:
        handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        choices = [choice for use in uses() for choice in select.choose(model(), use) if choice.what == "blocks"]
        assert what == "model" or not any(choice.chosen for choice in choices)
        assert not select.choose_decoder(model().bfloat16().eval()).chosen
    finally:
        if what == "hook":
            handle.remove()


def test_the_model_as_it_is_would_be_served() -> None:
    """Else nothing above says anything."""
    cuda = select.choose(model(), uses()[2])
    assert cuda[0].chosen == ("narrow blocks", "CUDA block")
    assert select.choose_decoder(model().bfloat16().eval()).chosen
    if "no C compiler is found" not in dict(select.choose(model(), uses()[0])[0].reasons).values():
        assert select.choose(model(), uses()[0])[0].chosen == ("C block",)


def test_what_was_installed_is_copied_with_the_model() -> None:
    one = model()
    select.install_chosen(one, UsageSpec(attention="explicit"))
    other = copy.deepcopy(one)
    assert other.blocks[0].attention.attend.__self__ is other.blocks[0].attention
    assert one.state_dict().keys() == other.state_dict().keys() == model().state_dict().keys()
    assert torch.equal(one(IDS), other(IDS))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_installed_can_be_compiled(backend: str) -> None:
    one = model()
    for use in (
        UsageSpec(machine=HOPPER, precision="bf16", no_blocks="plain"),
        UsageSpec(no_blocks="plain", checkpointing="full"),
        uses()[2],
    ):
        uninstall(one)
        plain = learned(one)
        select.install_chosen(one, use)
        torch.compiler.reset()
        compiled = torch.compile(lambda ids: one(ids), backend=backend, fullgraph=use.checkpointing == "none")
        torch.testing.assert_close(compiled(IDS), plain[0], rtol=1e-4, atol=1e-4)


CAPPED = """
def capped(q, k, v, mask=None, causal=False, dropout=0.0):
    scores = 0.05 * torch.tanh(q @ k.mT)
    if causal:
        scores = scores.masked_fill(_causal_mask(q.size(-2), k.size(-2), q.device), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v
"""
PROGRAM = """
import torch
from weft.core.errors import ConfigError
from weft.inference.quantize import quantize_model
from weft.inference.runner import ModelRunner
from weft.kernels import select
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import GPTConfig

torch.manual_seed(0)
model = GPTConfig(vocabulary=60, context=32, layers=2, heads=2, width=128).build()
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, 0.0, 0.3)
print(select.install_chosen(model, UsageSpec())[0].line())
ids = torch.arange(12)[None]
print(model(ids).sum().item())
model = model.eval().bfloat16()
runner = ModelRunner(model)
runner.add_rows(1)
runner.prefill([ids[0, :-1].tolist()])
print(runner.decode_step, (runner.decode(ids[0, -1:])[0].float() - model(ids)[0, -1].float()).abs().max().item() < 0.3)
"""


def test_changing_attention_touches_one_file(tmp_path: Path) -> None:
    """A logit soft-cap written into `nn.attention.fused_attention`: it trains and decodes at once, and a line says why no kernel serves."""
    shutil.copytree(Path(weft.__file__).parent, tmp_path / "weft")
    file = tmp_path / "weft" / "nn" / "attention.py"
    text = file.read_text(encoding="utf-8")
    changed = text.replace("    if clean:", "    return capped(q, k, v, mask, causal)\n    if clean:")
    assert changed != text
    file.write_text(changed + CAPPED, encoding="utf-8")
    paths = (tmp_path, Path(weft.__file__).parent.parent)
    start = [sys.executable, "-c", PROGRAM]
    runs = [subprocess.Popen(start, env={**os.environ, "PYTHONPATH": str(path)}, stdout=subprocess.PIPE, text=True) for path in paths]
    outs = [run.communicate()[0].splitlines() for run in runs]
    assert not any(run.returncode for run in runs)
    (line, total, decoded), (_, plain_total, plain_decoded) = outs
    assert line.endswith("plain, as attention.fused_attention has changed since the kernels were checked against it")
    assert decoded == "None True"
    assert plain_decoded.endswith("True") and "CPUDecodeStep" in plain_decoded
    assert total != plain_total
