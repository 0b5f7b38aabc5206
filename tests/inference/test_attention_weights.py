"""Recorded weights are those the layers used: with the layer's own values they give the layer's own output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft
from tests.serving.small import small_gpt, small_translator
from weft.core.errors import CapabilityError
from weft.inference.attention_weights import Recorder
from weft.kernels.select import use_attention
from weft.models.language import bert, llama, t5
from weft.nn.attention import SelfAttention, repeat_kv
from weft.nn.cross_attention import CrossAttention
from weft.serving.inspection import attention_of_text, attention_of_translation

IDS = [5, 9, 200, 31, 31, 7, 90, 12, 5, 101]


def build(config: Any, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = weft.core.config.override(config, {"vocabulary": 256, **settings}).build().eval()
    return model


READERS = {
    "gpt": lambda: small_gpt(),
    "gpt in bands": lambda: small_gpt(sliding_window=3),
    "gpt with rotary positions": lambda: small_gpt(position_embedding="rotary"),
    "llama in groups": lambda: build(llama.TINY, context=64),
    "bert": lambda: build(bert.TINY, context=64),
}
TRANSLATORS = {
    "transformer": lambda: small_translator(),
    "transformer, layer by layer": lambda: small_translator(encoder_output="layerwise", norm="pre"),
    "t5": lambda: build(t5.TINY),
}


def values_of(layer: Any, inputs: tuple[Any, ...]) -> Tensor:
    """What a layer multiplies its weights by: (B, H, S, K)."""
    if isinstance(layer, SelfAttention):
        packed = layer.qkv(inputs[0]).unflatten(-1, (-1, layer.head_dim))
        return repeat_kv(packed[:, :, layer.heads + layer.kv_heads :].transpose(1, 2), layer.heads // layer.kv_heads)
    value: Tensor = (layer.project(inputs[1]) if isinstance(layer, CrossAttention) else inputs[1])[1]
    return value


@pytest.mark.parametrize("name", [*READERS, *TRANSLATORS])
def test_weights_and_values_give_the_layers_output(name: str) -> None:
    model: Any = (READERS | TRANSLATORS)[name]()
    seen: dict[str, tuple[Any, Tensor]] = {}

    def note(layer_name: str) -> Any:
        return lambda layer, inputs, output: seen.__setitem__(layer_name, (inputs, output))

    with torch.inference_mode(), Recorder(model) as recorder:
        for layer_name, layer in recorder.layers.items():
            layer.register_forward_hook(note(layer_name))
        if name in READERS:
            model.hidden(torch.tensor([IDS]))
        else:
            model.hidden(torch.tensor([IDS]), torch.tensor([len(IDS)]), torch.tensor([IDS[:6]]))
        assert set(recorder.weights) == set(recorder.layers) == set(seen)
        for layer_name, weights in recorder.weights.items():
            layer, (inputs, output) = recorder.layers[layer_name], seen[layer_name]
            assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
            mixed = weights @ values_of(layer, inputs)
            assert torch.allclose(layer.out(mixed.transpose(1, 2).flatten(2)), output, atol=1e-5)  # type: ignore[operator]


def test_nothing_is_left_behind() -> None:
    model = small_gpt()
    before = model(torch.tensor([IDS]))
    with Recorder(model) as recorder:
        inside = model(torch.tensor([IDS]))
    recorder.weights.clear()
    assert torch.equal(model(torch.tensor([IDS])), before)
    assert torch.equal(inside, before)
    assert not recorder.weights
    assert not any(layer._forward_pre_hooks for layer in recorder.layers.values())


def test_a_text_is_looked_at_backwards_only_and_within_the_band() -> None:
    [view] = attention_of_text(small_gpt(sliding_window=3), IDS)
    assert (view.rows, len(view.layers)) == (IDS, 2)
    offset = torch.arange(len(IDS))[:, None] - torch.arange(len(IDS))
    for number, weights in enumerate(view.layers):
        unseen = (offset < 0) | ((offset >= 3) if number % 2 else False)
        assert weights.shape == (2, len(IDS), len(IDS))
        assert not weights[:, unseen].any()
        assert (weights[:, ~unseen] > 0).all()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translation_is_read_as_it_was_written(name: str) -> None:
    source = [*IDS, 2]
    cross, encoder, decoder = attention_of_translation(TRANSLATORS[name](), source)
    assert (cross.columns, encoder.rows, encoder.columns) == (source, source, source)
    assert decoder.rows == decoder.columns == [1, *cross.rows[:-1]]
    for view in (cross, encoder, decoder):
        assert all(weights.shape[1:] == (len(view.rows), len(view.columns)) for weights in view.layers)
    assert not any(weights.triu(1).any() for weights in decoder.layers)


def test_a_layer_that_nobody_heard_is_an_error() -> None:
    model: Any = small_gpt()
    use_attention(model.blocks[1].attention, "explicit")
    with pytest.raises(CapabilityError, match=r"blocks\.1\.attention"):
        attention_of_text(model, IDS)
    with pytest.raises(CapabilityError, match="no attention"):
        attention_of_text(Averages(), IDS)


class Averages(nn.Module):
    """A model without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(256, 4))

    def hidden(self, ids: Tensor) -> Tensor:
        return self.table[ids]
