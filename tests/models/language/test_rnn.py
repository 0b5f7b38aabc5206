"""Recurrent language models: states carried as if all had been read at once, dropout that stays for a window, sizes of the papers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.inference.test_engine import PROMPTS, SETTINGS, Letters, plain
from tests.inference.test_runner import V
from weft.core.errors import CapabilityError, ConfigError
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request
from weft.models.language.rnn import PRESETS, RNNLM, RNNLMConfig
from weft.nn.recurrent import CELLS
from weft.nn.state import RecurrentState
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig


def built(**settings: Any) -> RNNLM:
    torch.manual_seed(0)
    return RNNLMConfig(**{"vocabulary": 11, "width": 12, "embedding_width": 8} | settings).build().eval()


def ids(b: int = 3, t: int = 9) -> torch.Tensor:
    return torch.randint(11, (b, t), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("cell", CELLS)
def test_a_text_read_in_parts_gives_the_states_of_the_whole(cell: str) -> None:
    model, text = built(cell=cell, layers=3), ids()
    whole = model.hidden(text)
    state = model.new_state()
    state.add_rows(3)
    with torch.no_grad():
        parts = [model.hidden(text[:, :4], state), model.hidden(text[:, 4:], state)]
    torch.testing.assert_close(torch.cat(parts, 1), whole)


@pytest.mark.parametrize("cell", CELLS)
def test_the_probabilities_of_all_texts_of_a_length_sum_to_1(cell: str) -> None:
    """H12, behind a first token: the product of the conditionals is a distribution, and perplexity is the exponential of its mean log."""
    model = built(cell=cell, vocabulary=3, layers=2)
    texts = torch.tensor([(0, *text) for text in itertools.product(range(3), repeat=4)])
    with torch.no_grad():
        logs = model(texts[:, :-1]).log_softmax(-1).gather(2, texts[:, 1:, None]).squeeze(-1)  # (81, 4)
    assert logs.sum(1).exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    objective = TruncatedBPTTConfig(lanes=81).build()
    found = objective(model, {"ids": texts[:, :-1], "targets": texts[:, 1:]}, "").sums["loss"] / logs.numel()
    assert found.exp().item() == pytest.approx((-logs.mean()).exp().item(), rel=1e-5)


def test_padding_is_not_read() -> None:
    model, text = built(), ids()
    lengths = torch.tensor([9, 4, 1])
    state = model.new_state()
    state.add_rows(3)
    with torch.no_grad():
        padded = model.hidden(text, state, lengths)
        for row, length in enumerate(lengths.tolist()):
            alone = model.new_state()
            alone.add_rows(1)
            torch.testing.assert_close(padded[row, :length], model.hidden(text[row : row + 1, :length], alone)[0])
            for name, tensor in state.tensors.items():
                torch.testing.assert_close(tensor[row], alone.tensors[name][0])


def test_masks_of_variational_dropout_stay_for_a_window() -> None:
    model = built(output_dropout=0.5, layers=1).train()
    raw, dropped = model.outputs(ids())
    ratio = (dropped / raw).detach()
    assert torch.equal(ratio.isclose(torch.tensor(0.0)), ~ratio.isclose(torch.tensor(2.0)))
    assert all(torch.equal(ratio[:, 0].bool(), now.bool()) for now in ratio.unbind(1))
    assert not torch.equal(ratio[0, 0].bool(), ratio[1, 0].bool())


def test_embedding_dropout_drops_a_token_wherever_it_stands() -> None:
    model = built(embedding_dropout=0.5).train()
    text = torch.arange(11).repeat(2, 2)
    x = model._embedded(text)
    assert torch.equal(x[0, :11], x[0, 11:]) and torch.equal(x[0], x[1])
    kept = x[0, :11].abs().sum(-1) > 0
    assert 0 < kept.sum() < 11
    torch.testing.assert_close(x[0, :11][kept], 2 * model.embed.weight[kept])


def test_weight_drop_zeroes_weights_and_evaluation_drops_nothing() -> None:
    model = built(weight_dropout=0.5, layers=1)
    weight = model._layers()[0].weight_hh
    assert model._dropped(weight) is None
    dropped = model.train()._dropped(weight)
    assert dropped is not None
    share = (dropped == 0).float().mean().item()
    assert 0.2 < share < 0.8
    torch.testing.assert_close(dropped[dropped != 0], 2 * weight[dropped != 0])
    model.hidden(ids()).sum().backward()
    grad = weight.grad
    assert grad is not None and 0 < (grad == 0).float().mean().item() < 1


def test_tied_models_share_the_embedding_and_end_in_its_width() -> None:
    model = built(layers=2)
    assert model.head.weight is model.embed.weight
    assert [layer.width for layer in model._layers()] == [12, 8]
    assert [layer.width for layer in built(layers=2, tie_embeddings=False)._layers()] == [12, 12]


def test_sizes_are_those_of_the_papers() -> None:
    with torch.device("meta"):
        sizes = {name: sum(p.numel() for p in PRESETS[name].build().parameters()) for name in ("zaremba-medium", "awd-lstm")}
    assert sizes == {"zaremba-medium": 19_780_400, "awd-lstm": 24_221_600}


@pytest.mark.parametrize("cell", ["lstm", "cho_gru"])
def test_the_engine_continues_texts_as_reading_them_again_would(cell: str) -> None:
    model = built(cell=cell, vocabulary=V, layers=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # so that what was read long ago counts
    requests = [Request(ids, sampling) for ids, sampling in itertools.product(PROMPTS[:3], SETTINGS[:3])]
    expected = plain(generate_all(Engine(model, Letters(), slots=1, cached=False), requests))
    assert len({ids for _, ids, _ in expected}) > 2
    assert plain(generate_all(Engine(model, Letters(), slots=4, prefill_chunk=3), requests)) == expected


def test_activation_regularisation_is_counted_in_tokens() -> None:
    model = built(layers=1, output_dropout=0.5).train()
    objective = TruncatedBPTTConfig(lanes=3, activation=2.0, temporal_activation=1.0).build()
    objective.bind(model)
    batch = {"ids": ids(), "targets": ids(), "lane": torch.arange(3), "begins": torch.ones(3, dtype=torch.bool)}
    torch.manual_seed(1)
    raw, dropped = model.outputs(batch["ids"], RecurrentState.of({name: torch.zeros(3, 8) for name in ("h0", "c0")}))
    torch.manual_seed(1)
    terms, counts = objective(model, batch, ""), objective.counts(batch)
    means = {name: total / counts[name] for name, total in terms.sums.items()}
    torch.testing.assert_close(means["activation"], dropped.square().mean())
    torch.testing.assert_close(means["temporal_activation"], (raw[:, 1:] - raw[:, :-1]).square().mean())
    assert objective.weights == {"activation": 2.0, "temporal_activation": 1.0}
    assert set(objective(model.eval(), batch, "").sums) == {"loss"}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--model\.weight_dropout must be at least 0 and below 1, not 1"):
        built(weight_dropout=1.0)
    with pytest.raises(ConfigError, match=r"--objective\.activation must be at least 0"):
        TruncatedBPTTConfig(lanes=1, activation=-1.0).build()
    with pytest.raises(CapabilityError, match="Linear does not offer TellsActivations"):
        TruncatedBPTTConfig(lanes=1, activation=1.0).build().bind(torch.nn.Linear(1, 1))
