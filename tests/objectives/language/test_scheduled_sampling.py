"""Scheduled sampling: the decays, how much is mixed, teacher forcing at ε = 1, and that several passes become token by token."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.encoder_decoders import MODELS, batch, many, recurrent, transformer
from weft.core.errors import ConfigError
from weft.data.tokenizers.special_tokens import END, START
from weft.objectives.language.scheduled_sampling import ScheduledSampling, ScheduledSamplingConfig
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig

every_model = pytest.mark.parametrize("kind", MODELS)


def objective(**settings: Any) -> ScheduledSampling:
    return ScheduledSampling(ScheduledSamplingConfig(start=START, end=END, **settings))


def at(made: ScheduledSampling, step: int) -> float:
    made.step.fill_(step)
    return float(made.epsilon())


def test_the_three_decays() -> None:
    linear, exponential, sigmoid = (
        objective(decay=d, decay_steps=50, min_epsilon=0.1) for d in ("linear", "exponential", "inverse_sigmoid")
    )
    for step in (0, 1, 20, 100, 1000, 100_000):
        assert at(linear, step) == pytest.approx(max(0.1, 1 - step / 50), abs=1e-6)
        assert at(exponential, step) == pytest.approx(max(0.1, math.exp(-1 / 50) ** step), abs=1e-6)
        assert at(sigmoid, step) == pytest.approx(max(0.1, 50 / (50 + math.exp(min(step / 50, 700)))), abs=1e-6)
    assert at(sigmoid, round(50 * math.log(50))) == pytest.approx(0.5, abs=0.01)


def test_each_update_and_nothing_else_moves_epsilon() -> None:
    made, network = objective(decay="linear", decay_steps=4), transformer().train()
    for expected in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0):
        assert float(made.epsilon()) == expected
        made(network, batch(), "")
        made(network.eval(), batch(), "")
        network.train()
        made.after_update(network, "")
    again = objective(decay="linear", decay_steps=4)
    again.load_state_dict(made.state_dict())
    assert float(again.step) == 6


@every_model
def test_at_one_it_is_teacher_forcing_to_the_bit_with_dropout_too(kind: str) -> None:
    network, plain = MODELS[kind]().train(), Seq2Seq(Seq2SeqConfig(start=START, end=END, r_drop=0.5))
    if kind == "transformer":
        network = transformer(dropout=0.3).train()
    found = []
    for made in (plain, objective(min_epsilon=1.0, r_drop=0.5), objective(min_epsilon=1.0, passes=3, r_drop=0.5)):
        network.zero_grad()
        torch.manual_seed(3)
        loss = made(network, batch(), "").sums["loss"]
        loss.backward()
        found.append((loss, *(p.grad.clone() for p in network.parameters() if p.grad is not None)))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


@every_model
def test_the_share_of_true_tokens_is_epsilon(kind: str) -> None:
    network, given = MODELS[kind]().train(), many(2000)
    for step, epsilon in ((0, 1.0), (3, 0.7), (8, 0.2), (10, 0.0)):
        made = objective(decay="linear", decay_steps=10)
        made.step.fill_(step)
        kept = made.kept(given)
        terms, counted = made(network, given, ""), made.counts(given)["teacher_forced"]
        assert float(counted) == 2000 * 6
        assert float(terms.metrics["teacher_forced"] / counted) == pytest.approx(epsilon, abs=0.015)
        read = made.inputs(network, given)
        assert kept[:, 0].all() and (read[:, 0] == START).all()
        assert torch.equal(read[kept], given["target"][:, :-1][kept])
        assert kept[:, 1:].float().mean(0).sub(epsilon).abs().max() < 0.04  # at each position alike


@every_model
def test_as_many_passes_as_tokens_are_token_by_token(kind: str) -> None:
    """What is drawn at a position depends on its key and what stands before it, so passes settle from left to right."""
    network, given = MODELS[kind](scale=3.0).train(), many(64)
    made = objective(min_epsilon=0.4, decay="linear", decay_steps=1e-9, passes=7)
    made.step += 1
    settled = made.inputs(network, given)
    true, kept = given["target"][:, :-1], made.kept(given)
    one_by_one = made._token_by_token(network, given, true, kept, key_of(made, given))
    assert torch.equal(settled, one_by_one)
    assert (settled != true).any()
    if kind == "transformer":
        once = objective(min_epsilon=0.4, decay="linear", decay_steps=1e-9)
        once.step += 1
        assert not torch.equal(once.inputs(network, given), settled)  # two passes draw behind true tokens


def key_of(made: ScheduledSampling, given: dict[str, torch.Tensor]) -> torch.Tensor:
    from weft.core import random

    return random.fold(given["key"], "scheduled sampling")


def test_a_recurrent_decoder_goes_token_by_token_and_a_transformer_makes_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = objective(min_epsilon=0.5, decay="linear", decay_steps=1e-9)
    made.step += 1
    calls: list[tuple[int, ...]] = []
    for network in (recurrent().train(), transformer().train()):
        decode = network.decode

        def counted(target: Any, *rest: Any, decode: Any = decode) -> Any:
            calls.append(tuple(target.shape))
            return decode(target, *rest)

        monkeypatch.setattr(network, "decode", counted)
        made(network, batch(), "")
    assert calls == [(4, 1)] * 4 + [(4, 5)] + [(4, 5)] * 2


@every_model
def test_cutting_a_batch_changes_nothing_and_padding_neither(kind: str) -> None:
    network, given = MODELS[kind](scale=3.0).train(), batch()
    made = objective(min_epsilon=0.3, decay="linear", decay_steps=1e-9)
    made.step += 1
    whole = made.inputs(network, given)
    parts = [made.inputs(network, {name: value[i : i + 1] for name, value in given.items()}) for i in range(4)]
    assert torch.equal(whole[:3], torch.cat(parts)[:3])
    wider = {**given, "target": torch.nn.functional.pad(given["target"], (0, 3))}
    assert torch.equal(made.inputs(network, wider)[0, :4], whole[0, :4])
    network.eval()
    assert torch.equal(made.inputs(network, given), given["target"][:, :-1])  # in validation it is teacher forcing


def test_the_likeliest_token_in_the_place_of_a_drawn_one() -> None:
    network, given = transformer(scale=3.0).train(), many(8)
    made = objective(decay="linear", decay_steps=1e-9, sampled="argmax")
    made.step += 1
    read = made.inputs(network, given)
    logits = network.head(network.hidden(given["source"], given["source_length"], given["target"][:, :-1]))
    assert torch.equal(read[:, 1:], logits.argmax(-1)[:, :-1])


def test_bf16_keeps_the_gradient() -> None:
    """The drawing pass has none; weights that autocast has rounded in it must not be taken for the other."""
    network, given = transformer().train(), batch()
    made = objective(decay="linear", decay_steps=1e-9)
    made.step += 1
    with torch.autocast("cpu", torch.bfloat16):
        made(network, given, "").sums["loss"].backward()
    assert all(
        p.grad is not None and p.grad.abs().sum() > 0 for name, p in network.named_parameters() if "encoder.0.attention.qkv.weight" in name
    )


@pytest.mark.parametrize(
    "settings",
    [{"decay_steps": 0.0}, {"decay_steps": 0.5}, {"min_epsilon": 1.5}, {"min_epsilon": -0.1}, {"passes": -1}, {"decay_steps": math.nan}],
)
def test_settings_that_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"--objective\.{next(iter(settings))} must be"):
        objective(**settings)
