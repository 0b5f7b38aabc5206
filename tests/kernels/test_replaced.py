"""What is replaced while the program runs, in weft or in PyTorch, or changed on a layer: no kernel serves as if nothing had been."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.kernels.test_contract import HOPPER
from tests.kernels.test_hostile import IDS, each, learned, model
from weft.inference.quantize import quantize_model
from weft.inference.runner import ModelRunner
from weft.kernels import mathematics, replaced, select
from weft.kernels.describe import describe_stack
from weft.kernels.known import described
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import GPT
from weft.models.language.word2vec import Word2Vec, Word2VecConfig
from weft.nn import attention, feed_forward, norm
from weft.nn.attention import SelfAttention, explicit_attention
from weft.nn.block import Block
from weft.nn.recurrent import RecurrentLayer
from weft.nn.state import KVCache, LayerKV
from weft.objectives.language.negative_sampling import NegativeSampling, NegativeSamplingConfig

Patch = pytest.MonkeyPatch
Change = Callable[[Any, Patch], Any]
BLOCKS: dict[str, Change] = {}
"""Changes of what a block computes."""
DECODING: dict[str, Change] = {}
"""Changes around the blocks, or that only decoding knows."""


def of_blocks(change: Change) -> Change:
    BLOCKS[change.__name__] = change
    return change


def of_decoding(change: Change) -> Change:
    DECODING[change.__name__] = change
    return change


def more(plain: Callable[..., Any], factor: float = 1.25) -> Callable[..., Any]:
    """The same, times something, as a well-made wrapper."""

    @functools.wraps(plain)
    def wrapped(*given: Any, **named: Any) -> Any:
        return plain(*given, **named) * factor

    return wrapped


@of_blocks
def forward_of_linear(network: Any, patch: Patch) -> None:
    patch.setattr(nn.Linear, "forward", more(nn.Linear.forward))


@of_blocks
def forward_of_torch_layer_norm(network: Any, patch: Patch) -> None:
    patch.setattr(nn.LayerNorm, "forward", more(nn.LayerNorm.forward))


@of_blocks
def forward_of_another_norm(network: Any, patch: Patch) -> None:
    patch.setattr(norm.LayerNorm, "forward", norm.RMSNorm.forward)


@of_blocks
def forward_is_a_descriptor(network: Any, patch: Patch) -> None:
    plain = feed_forward.FeedForward.forward

    class Doubled:
        def __get__(self, layer: Any, kind: Any = None) -> Any:
            return lambda x: plain(layer, x) * 2

    patch.setattr(feed_forward.FeedForward, "forward", Doubled())


@of_blocks
def call_of_every_module(network: Any, patch: Patch) -> None:
    plain = nn.Module.__call__
    patch.setattr(nn.Module, "__call__", lambda self, *given, **named: plain(self, *given, **named) * (1 + isinstance(self, nn.Linear)))


@of_blocks
def call_of_linear(network: Any, patch: Patch) -> None:
    patch.setattr(nn.Linear, "__call__", more(nn.Module.__call__), raising=False)


@of_blocks
def weight_is_a_property(network: Any, patch: Patch) -> None:
    patch.setattr(nn.Linear, "weight", property(lambda self: self._parameters["weight"] * 2), raising=False)


@of_blocks
def attributes_of_every_module(network: Any, patch: Patch) -> None:
    plain = nn.Module.__getattr__

    def doubled(self: Any, name: str) -> Any:
        return plain(self, name) * 2 if name == "weight" else plain(self, name)

    patch.setattr(nn.Module, "__getattr__", doubled)


@of_blocks
def scaled_dot_product_attention(network: Any, patch: Patch) -> None:
    patch.setattr(F, "scaled_dot_product_attention", more(F.scaled_dot_product_attention))


@of_blocks
def layer_norm(network: Any, patch: Patch) -> None:
    patch.setattr(F, "layer_norm", more(F.layer_norm))


@of_blocks
def linear(network: Any, patch: Patch) -> None:
    patch.setattr(F, "linear", more(F.linear))


@of_blocks
def functional_within_attention(network: Any, patch: Patch) -> None:
    patch.setattr(attention, "F", SimpleNamespace(**{**vars(F), "scaled_dot_product_attention": more(F.scaled_dot_product_attention)}))


@of_blocks
def functional_within_torch(network: Any, patch: Patch) -> None:
    patch.setattr("torch.nn.modules.linear.F", SimpleNamespace(linear=more(F.linear)))


@of_blocks
def a_method_of_tensors(network: Any, patch: Patch) -> None:
    plain = Tensor.split
    patch.setattr(Tensor, "split", lambda *given, **named: [part * 1.5 for part in plain(*given, **named)])


@of_blocks
def default_arguments(network: Any, patch: Patch) -> None:
    patch.setattr(attention.fused_attention, "__defaults__", (None, False, 0.0, None, 3.0, False))


@of_blocks
def the_code_of_a_function(network: Any, patch: Patch) -> None:
    def twice(self: Any, x: Tensor, mask: Any = None, rotary: Any = None, layer_kv: Any = None) -> Tensor:
        return self.out(self.attend(x * 2, mask, rotary, layer_kv))  # type: ignore[no-any-return]

    patch.setattr(SelfAttention.forward, "__code__", twice.__code__)


@of_blocks
def a_helper_of_a_helper(network: Any, patch: Patch) -> None:
    patch.setattr(attention, "zero_masked_kv", lambda k, v, *_: (k, v * 2))


@of_blocks
def an_activation_and_its_function(network: Any, patch: Patch) -> None:
    """As where both were replaced before anything of weft was imported."""
    patch.setitem(feed_forward.ACTIVATIONS, "gelu", F.relu)
    patch.setattr(F, "gelu", F.relu)


@of_blocks
def fewer_units(network: Any, patch: Patch) -> None:
    """Structured pruning: the layers say the sizes that they were made with."""

    def prune(block: Any) -> None:
        up, down = block.feedforward.up, block.feedforward.down
        up.weight, up.bias, down.weight = (nn.Parameter(w.detach().clone()) for w in (up.weight[:300], up.bias[:300], down.weight[:, :300]))

    each(network, prune)


@of_blocks
def one_bias_for_all_units(network: Any, patch: Patch) -> None:
    each(network, lambda block: setattr(block.feedforward.up, "bias", nn.Parameter(block.feedforward.up.bias[:1].detach().clone())))


@of_blocks
def a_weight_is_the_opposite_of_what_lies_there(network: Any, patch: Patch) -> None:
    each(network, lambda block: setattr(block.attention.out, "weight", nn.Parameter(torch._neg_view(block.attention.out.weight.detach()))))


@of_blocks
def another_core_where_one_was_installed(network: Any, patch: Patch) -> None:
    select.install_chosen(network, UsageSpec(attention="explicit", attention_asked=True))
    core = staticmethod(lambda q, k, v, mask=None, causal=False, dropout=0.0: explicit_attention(q * 3, k, v, mask, causal)).__func__
    each(network, lambda block: setattr(block.attention, "attention_fn", core))


@of_blocks
def another_forward_where_one_was_installed(network: Any, patch: Patch) -> None:
    select.install_chosen(network, UsageSpec())
    each(network, lambda block: setattr(block, "forward", functools.partial(lambda own, *given: Block.forward(own, *given) * 0.5, block)))


@of_decoding
def forward_of_embedding(network: Any, patch: Patch) -> None:
    patch.setattr(nn.Embedding, "forward", more(nn.Embedding.forward))


@of_decoding
def what_the_cache_gives(network: Any, patch: Patch) -> None:
    plain = LayerKV.update
    patch.setattr(LayerKV, "update", lambda *given: (plain(*given)[0], plain(*given)[1] * 2))


@of_decoding
def a_cache_that_forgets(network: Any, patch: Patch) -> None:
    class Forgetful(KVCache):
        def extend(self, t: int) -> Any:
            told = super().extend(t)
            told.mask[..., :4] = False
            return told

    def new_state(self: Any) -> KVCache:
        c = self.config
        return Forgetful(c.layers, c.heads, c.width // c.heads, c.context, self.embed.weight)

    patch.setattr(GPT, "new_state", new_state)


@of_decoding
def a_class_that_says_it_is_a_decoder_stack(network: Any, patch: Patch) -> None:
    """As a copy of a model's file in which something was changed says, too."""

    class Scaled(GPT):
        def hidden(self, *given: Any, **named: Any) -> Tensor:
            return super().hidden(*given, **named) * 1.5

        def decoder_stack(self) -> Any:
            return super().decoder_stack()

    network.__class__ = Scaled


@of_decoding
def embeddings_of_a_largest_norm(network: Any, patch: Patch) -> None:
    network.embed.max_norm = 1.0


def is_served(network: Any) -> list[str]:
    """Kernels that would compute blocks in training, here or on a GPU."""
    uses = (UsageSpec(), UsageSpec(precision="bf16"), UsageSpec(machine=HOPPER, precision="bf16", attention="cudnn"))
    chosen = [choice for use in uses for choice in select.choose(network, use)]
    return [name for choice in chosen if choice.what == "blocks" for name in choice.chosen]


@pytest.mark.parametrize("name", BLOCKS)
def test_changed_blocks_are_trained_as_they_are(name: str, monkeypatch: Patch) -> None:
    network = model()
    BLOCKS[name](network, monkeypatch)
    plain = learned(network)
    assert is_served(network) == []
    if not name.endswith("was_installed"):
        select.install_chosen(network, UsageSpec())
    assert all(map(torch.equal, learned(network), plain))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("name", [*BLOCKS, *DECODING])
def test_changed_models_are_decoded_as_they_are(name: str, precision: Any, monkeypatch: Patch) -> None:
    change = (BLOCKS | DECODING)[name]
    with monkeypatch.context() as patch:
        network = model().eval()
        change(network, patch)
        spec = described(describe_stack, network, UsageSpec(machine=HOPPER, mode="decode"))
        assert isinstance(spec, str), "no description, so no kernel of a GPU either"
    network = model().eval()
    quantize_model(network, precision)
    try:
        change(network, monkeypatch)
    except AttributeError:  # about the weight of a layer of 8 bits
        return
    ids, runner, state = IDS[:1], ModelRunner(network), network.new_state()
    runner.add_rows(1)
    runner.prefill([ids[0, :-1].tolist()])
    with torch.inference_mode():
        state.add_rows(1)
        network.hidden(ids[:, :-1], state)
        state.count([ids.size(1) - 1])
        expected = network.head(network.hidden(ids[:, -1:], state))[0, -1].float()
    found = runner.decode(ids[0, -1:])[0].float()
    if name != "embeddings_of_a_largest_norm":  # which change as they are read
        within = 0 if runner.decode_step is None else 0.01 * float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=within)


def test_dropout_that_is_left_on_is_no_business_of_a_kernel() -> None:
    """Monte Carlo dropout: the model is evaluated, its dropout is not."""
    for part, share in (("dropout", "share"), ("attention", "dropout")):
        network = model().eval()
        for block in network.blocks:
            setattr(getattr(block, part), share, 0.5)
            getattr(block, part).train()
        assert is_served(network) == []
        assert not select.choose_decoder(network.bfloat16()).chosen


def test_a_hook_behind_the_choice_is_called() -> None:
    network, seen = model(), []
    select.install_chosen(network, UsageSpec())
    network.blocks[0].feedforward.up.register_forward_hook(lambda *_: seen.append(1))
    network(IDS)
    assert seen == [1]


def test_settings_changed_after_the_model_was_made_are_followed() -> None:
    """Those that a kernel knows: it computes what the model has become."""
    changes: list[Callable[[Any], Any]] = [
        lambda network: each(network, lambda block: setattr(block, "order", "post")),
        lambda network: each(network, lambda block: setattr(block.attention, "causal", False)),
        lambda network: each(network, lambda block: setattr(block.feedforward, "activation", "relu")),
        lambda network: setattr(network, "config", dataclasses.replace(network.config, sliding_window=3)),
        lambda network: setattr(network, "blocks", network.blocks[:1]),
        lambda network: network.blocks.__setitem__(1, network.blocks[0]),
        lambda network: setattr(network.blocks[1].norm1, "eps", 0.5),
        lambda network: each(network, lambda block: vars(block.attention).update(heads=4, kv_heads=4, head_dim=32)),
    ]
    for change in changes:
        network = model()
        change(network)
        plain = learned(network)
        select.install_chosen(network, UsageSpec())
        for found, expected in zip(learned(network), plain, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize("what", ["forward", "function", "size"])
def test_changed_recurrent_layers_are_computed_as_they_are(what: str, monkeypatch: Patch) -> None:
    layer = RecurrentLayer("lstm", 8, 8)
    assert [choice.chosen for choice in select.choose(layer, UsageSpec())] != [()]
    if what == "forward":
        monkeypatch.setattr(RecurrentLayer, "recurrence", more(RecurrentLayer.recurrence))
    elif what == "function":
        monkeypatch.setattr(torch, "tanh", more(torch.tanh))
    else:
        layer.bias_hh = nn.Parameter(torch.zeros(1))
    assert [choice.chosen for choice in select.choose(layer, UsageSpec())] == [()]


def test_changed_word_vectors_are_updated_as_they_are() -> None:
    class Doubled(Word2Vec):
        def scores(self, hidden: Tensor, words: Tensor) -> Tensor:
            return super().scores(hidden, words) * 2

    class Weighed(NegativeSampling):
        def losses(self, *given: Any) -> Any:
            return super().losses(*given)

    def parts() -> tuple[Any, Any]:
        objective = NegativeSamplingConfig(frequencies=(3, 2, 1), centres=2, window=2).build()
        return Word2VecConfig(vocabulary=3, width=4).build(), objective

    def change(what: str, words: Any, objective: Any) -> None:
        if what == "model":
            words.__class__ = Doubled
        elif what == "objective":
            objective.__class__ = Weighed
        elif what == "hook":
            words.centre.register_forward_hook(lambda *_: None)
        elif what == "norm":
            words.context.max_norm = 1.0
        elif what == "instance":
            objective.losses = lambda *given: None

    for what in ("nothing", "model", "objective", "hook", "norm", "instance"):
        words, objective = parts()
        change(what, words, objective)
        assert objective.is_known(words) == (what == "nothing"), what


def test_what_others_add_to_every_module_is_no_change(monkeypatch: Patch) -> None:
    """torch.compile replaces the constructor of modules, and other packages give them methods more: neither runs when a layer does."""
    from torch._dynamo.mutation_guard import install_generation_tagging_init

    install_generation_tagging_init()
    monkeypatch.setattr(nn.Module, "smart_apply", more(nn.Module.apply), raising=False)
    assert nn.Module.__init__.__qualname__ != "Module.__init__"
    assert not mathematics.changed(nn.Linear)


def test_nothing_is_said_to_be_replaced_where_nothing_is() -> None:
    kinds = {mathematics.owner(name) for name in mathematics.CHECKED}
    assert {mathematics.changed(kind) for kind in (*kinds, nn.Linear, nn.Embedding, nn.ModuleList)} == {""} == {replaced.of_torch()}
