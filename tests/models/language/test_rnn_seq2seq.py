"""The recurrent encoder and decoder: padding, state and attention as whole targets have them, and decoding through what exists."""

from __future__ import annotations

from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from weft.core.errors import ConfigError
from weft.inference.attention_weights import Recorder
from weft.inference.beam_models import translate
from weft.kernels.library_recurrent import ROUTINES, library_forward
from weft.models.base import Decodes, EncoderDecoder, Subsamples, offers
from weft.models.language.rnn_seq2seq import RNNSeq2Seq, RNNSeq2SeqConfig
from weft.nn.recurrent import RecurrentLayer
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.serving.inspection import attention_of_translation

SETTINGS: dict[str, dict[str, Any]] = {
    "additive": {},
    "two layers, fed": {"layers": 2, "input_feeding": True, "attention": "bilinear", "encoder_width": 12},
    "none": {"attention": "none", "bidirectional": False, "layers": 2},
    "none, fed": {"attention": "none", "input_feeding": True, "cell": "gru"},
    "gru, dot": {"cell": "gru", "attention": "dot", "tie_embeddings": True, "embedding_width": 6},
    "peephole, scaled dot": {"cell": "peephole", "attention": "scaled_dot", "bidirectional": False},
    "more decoder than encoder": {"cell": "cho_gru", "decoder_layers": 3, "attention_width": 5},
    "more encoder than decoder": {"cell": "coupled", "layers": 3, "decoder_layers": 1, "attention": "none"},
}
every = pytest.mark.parametrize("name", list(SETTINGS))
START, END = 1, 2
SOURCE = torch.tensor([[5, 6, 7, 8, 2, 0, 0], [9, 10, 2, 0, 0, 0, 0], [4, 4, 5, 6, 7, 8, 2]])
LENGTHS = torch.tensor([5, 3, 7])
TARGET = torch.tensor([[1, 5, 9, 10], [1, 7, 7, 3], [1, 11, 4, 6]])


def built(name: str, scale: float = 2.0) -> Any:
    torch.manual_seed(1)
    model = RNNSeq2SeqConfig(**({"vocabulary": 14, "width": 8} | SETTINGS[name])).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


@every
def test_it_offers_what_encoders_and_decoders_do(name: str) -> None:
    assert all(offers(built(name), capability) for capability in (EncoderDecoder, Decodes, Subsamples))


@every
@torch.no_grad()
def test_padding_of_sources_changes_nothing(name: str) -> None:
    model = built(name)
    whole = model(SOURCE, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(SOURCE[row : row + 1, :length], None, TARGET[row : row + 1])
        torch.testing.assert_close(alone[0], whole[row], atol=1e-5, rtol=1e-5)
    other = SOURCE.masked_fill(torch.arange(7) >= LENGTHS[:, None], 13)
    torch.testing.assert_close(model(other, LENGTHS, TARGET), whole)
    memory = model.encode(SOURCE, LENGTHS)
    assert memory.size(1) == int(model.encoded_lengths(LENGTHS).max())


@every
@torch.no_grad()
def test_reading_token_by_token_is_reading_the_whole_target(name: str) -> None:
    model = built(name)
    memory, lengths = model.encode(SOURCE, LENGTHS), model.encoded_lengths(LENGTHS)
    whole = model.decode(TARGET, memory, lengths)
    torch.testing.assert_close(model.head(whole), model(SOURCE, LENGTHS, TARGET))
    state = model.new_state()
    state.add_sources(memory, lengths)
    for first, last in ((0, 1), (1, 3), (3, 4)):
        part = model.decode(TARGET[:, first:last], state.encoder.states, state.encoder.lengths, state)
        torch.testing.assert_close(part, whole[:, first:last], atol=1e-6, rtol=1e-5)
        state.count([last - first] * 3)
    state.select([2, 0])  # further rows beside those that are under way
    state.add_sources(model.encode(SOURCE[1:2], LENGTHS[1:2]), model.encoded_lengths(LENGTHS[1:2]))
    joined = model.decode(torch.tensor([[6], [10], [1]]), state.encoder.states, state.encoder.lengths, state)
    torch.testing.assert_close(joined[2, 0], whole[1, 0], atol=1e-6, rtol=1e-5)
    longer = torch.cat([TARGET[[2, 0]], torch.tensor([[6], [10]])], 1)
    again = model.decode(longer, memory[[2, 0]], lengths[[2, 0]])
    torch.testing.assert_close(joined[:2, 0], again[:, -1], atol=1e-6, rtol=1e-5)


@every
@torch.no_grad()
def test_a_decoder_sees_no_later_target(name: str) -> None:
    model = built(name)
    changed = TARGET.clone()
    changed[:, 2:] = 12
    torch.testing.assert_close(model(SOURCE, LENGTHS, changed)[:, :2], model(SOURCE, LENGTHS, TARGET)[:, :2])


@every
def test_beam_scores_are_the_log_probabilities_of_what_was_found(name: str) -> None:
    model = built(name)
    plain = [translate(model, SOURCE, LENGTHS, START, END, beams=3, longest=6, cached=cached) for cached in (True, False)]
    assert [[one.ids for one in best] for best in plain[0]] == [[one.ids for one in best] for best in plain[1]]
    for row, best in enumerate(plain[0]):
        for one in best:
            with torch.no_grad():
                logits = model(SOURCE[row : row + 1], LENGTHS[row : row + 1], torch.tensor([[START, *one.ids[:-1]]]))
            chosen = logits.log_softmax(-1)[0].gather(1, torch.tensor(one.ids)[:, None])
            assert one.logprob == pytest.approx(float(chosen.sum()), abs=1e-4)
        alone = translate(model, SOURCE[row : row + 1], LENGTHS[row : row + 1], START, END, beams=3, longest=6)[0]
        assert [one.ids for one in alone] == [one.ids for one in best], "no answer depends on the rows beside it"


@pytest.mark.parametrize("name", [name for name in SETTINGS if "none" not in name and SETTINGS[name].get("attention") != "none"])
def test_recorded_weights_are_those_of_whole_targets(name: str) -> None:
    model = built(name)
    with torch.no_grad(), Recorder(model) as recorder:
        model.hidden(SOURCE, LENGTHS, TARGET)
    (weights,) = recorder.of(["decoder.cross"])
    assert weights.shape == (3, 1, 4, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 4))
    assert not weights[1, :, :, 3:].any()
    (view,) = attention_of_translation(model, SOURCE[0, :5].tolist(), START, END)
    assert view.name == "cross"
    assert view.layers[0].shape == (1, len(view.rows), 5)


def test_coverage_looks_at_the_source_alone() -> None:
    model = built("two layers, fed")
    found = translate(model, SOURCE, LENGTHS, START, END, beams=2, longest=5, length_penalty=0.0, coverage_penalty=0.3)
    for row, best in enumerate(found):
        for one in best:
            with torch.no_grad(), Recorder(model) as recorder:
                model.hidden(SOURCE[row : row + 1], LENGTHS[row : row + 1], torch.tensor([[START, *one.ids[:-1]]]))
            seen = recorder.weights["decoder.cross"][0, 0].sum(0)[: int(LENGTHS[row])].clamp(1e-9, 1.0)
            assert one.logprob is not None
            assert one.score == pytest.approx(one.logprob + 0.3 * float(seen.log().sum()), abs=1e-4)


def test_a_model_that_copies_its_last_state_begins_in_it() -> None:
    """Without attention and bridge, one direction: the memory is h and c of every layer, and the decoder's first state."""
    model = built("none")
    outputs, last = model.encoder(model.embed(SOURCE), LENGTHS)
    memory = model.encode(SOURCE, LENGTHS)
    assert torch.equal(memory, torch.cat([last["h"], last["c"]], 1))
    assert torch.equal(memory[:, 1], torch.stack([row[length - 1] for row, length in zip(outputs, LENGTHS, strict=True)]))
    hidden, _ = model.decoder.recurrent(model.target_embed(TARGET), None, last)
    torch.testing.assert_close(model.decode(TARGET, memory), hidden)


def test_input_feeding_by_its_equations() -> None:
    """The input of a step is the last target with tanh(C [found; state]) of the step before, zeros at first."""
    model = built("two layers, fed")
    decoder, memory = model.decoder, model.encode(SOURCE, None)
    values = memory[:, model.rows :]
    state = model._begin(memory)
    fed: Tensor = torch.zeros(3, 8)
    for time in range(4):
        step = torch.cat([model.target_embed(TARGET[:, time]), fed], 1)
        top, state = decoder.recurrent(step[:, None], None, {name: state[name] for name in ("h", "c")})
        found, _ = decoder.cross(top, decoder.cross.project(values), values)
        fed = torch.tanh(torch.cat([found, top], -1) @ decoder.combine.weight.T)[:, 0]
        torch.testing.assert_close(fed, model.decode(TARGET, memory)[:, time])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 7}, "--model.width 7 is odd"),
        ({"encoder_width": 9}, "--model.encoder_width 9 is odd"),
        ({"attention": "dot", "encoder_width": 6}, "attention 'dot' needs queries as wide as keys, not 8 and 6"),
        ({"cell": "lstmm"}, "--model.cell is 'lstmm'"),
        ({"layers": 0}, "--model.layers must be at least 1"),
        ({"dropout": 1.0}, "--model.dropout"),
    ],
)
def test_settings_that_make_no_model_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RNNSeq2Seq(RNNSeq2SeqConfig(**({"vocabulary": 14, "width": 8} | changes)))


class FromTheHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations that send numbers to a device or bring one back, none of which a captured graph may have."""

    NAMES = ("lift_fresh", "_local_scalar_dense", "nonzero")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found += [name for name in self.NAMES if name in str(function)]
        return function(*args, **(kwargs or {}))


@every
@pytest.mark.parametrize("library", [False, True])
def test_a_training_step_takes_nothing_from_the_host(name: str, library: bool) -> None:
    model, objective = built(name).train(), Seq2SeqConfig(start=START, end=END, r_drop=1.0).build()
    for layer in model.modules():
        if library and isinstance(layer, RecurrentLayer) and layer.cell in ROUTINES:
            layer.forward = MethodType(library_forward, layer)  # type: ignore[method-assign]  # as a GPU computes it
    target = torch.cat([TARGET, torch.full((3, 1), END)], 1)
    batch = {"source": SOURCE, "source_length": LENGTHS, "target": target, "target_length": torch.tensor([5, 5, 5])}
    with FromTheHost() as sent:
        objective(model, batch, "").sums["loss"].backward()
    assert not sent.found
