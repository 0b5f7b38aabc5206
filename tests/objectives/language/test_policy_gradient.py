"""Policy gradient and minimum risk against sums over all answers of a tiny vocabulary, with every baseline; rewards; controls."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.encoder_decoders import MODELS, batch, many, recurrent, transformer
from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import IGNORE, Batch
from weft.data.tokenizers.special_tokens import END, START
from weft.metrics.ngrams import sentence_bleu
from weft.models.base import need
from weft.objectives.language.minimum_risk import MinimumRisk, MinimumRiskConfig
from weft.objectives.language.policy_gradient import PolicyGradient, PolicyGradientConfig

SMALL = 5
BASELINES: dict[str, dict[str, Any]] = {
    "none": {"baseline": "constant"},
    "constant": {"baseline": "constant", "baseline_value": 0.4},
    "greedy": {"baseline": "greedy"},
    "leave_one_out": {"baseline": "leave_one_out"},
}
every_model = pytest.mark.parametrize("kind", MODELS)


def policy(**settings: Any) -> PolicyGradient:
    return PolicyGradient(PolicyGradientConfig(start=START, end=END, **settings))


def risk(**settings: Any) -> MinimumRisk:
    return MinimumRisk(MinimumRiskConfig(start=START, end=END, **settings))


def tiny_batch(rows: int) -> Batch:
    """Equal pairs whose target is one token, so that answers have at most two."""
    target = torch.tensor([[START, 3, END]]).expand(rows, -1)
    length = torch.full((rows,), 3)
    source = torch.tensor([[3, 4, END]]).expand(rows, -1)
    return {"source": source, "source_length": length, "target": target, "target_length": length, "key": random.keys(1, torch.arange(rows))}


def all_answers() -> Tensor:
    """Every answer of at most two tokens (21, 2)."""
    rows = [(END, IGNORE), *((one, two) for one, two in product(range(SMALL), range(SMALL)) if one != END)]
    return torch.tensor(rows)


def gradients(model: Any, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=False, retain_graph=True))


def exact(model: Any, made: PolicyGradient | MinimumRisk) -> tuple[Tensor, list[Tensor]]:
    """Probabilities of all answers (21,), and the gradient of the expected risk."""
    answers, given = all_answers()[None], tiny_batch(1)
    logs = made.log_probs(model, given, answers)
    expected = (logs.exp() * (1 - made.rewards(answers, given))).sum()
    return logs[0].exp().detach(), gradients(model, expected)


@every_model
@pytest.mark.parametrize("baseline", BASELINES)
def test_the_policy_gradient_is_without_bias(kind: str, baseline: str) -> None:
    """Over all pairs of answers that can be drawn, weighed by how likely they are: the gradient of the expected risk."""
    model = MODELS[kind](SMALL).eval()
    made = policy(samples=2, extra_tokens=0, **BASELINES[baseline])
    chances, expected = exact(model, made)
    assert float(chances.sum()) == pytest.approx(1.0, abs=1e-5)
    every, n = all_answers(), len(all_answers())
    pairs = torch.stack([every.repeat_interleave(n, 0), every.repeat(n, 1)], 1)  # (441, 2, 2)
    given = tiny_batch(n * n)
    found = made.risk(model, given, pairs, made.rewards(pairs, given))
    weighed = (found * (chances[:, None] * chances).flatten()).sum()
    for one, other in zip(gradients(model, weighed), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)
    assert max(float(gradient.abs().max()) for gradient in expected) > 1e-2


def test_a_baseline_makes_the_variance_smaller() -> None:
    """Where even the worst answer has some reward, as translations have."""
    model = recurrent(SMALL).eval()
    every, n = all_answers(), len(all_answers())
    pairs = torch.stack([every.repeat_interleave(n, 0), every.repeat(n, 1)], 1)
    given, spread = tiny_batch(n * n), {}
    for name in ("none", "constant", "leave_one_out"):
        made = policy(samples=2, extra_tokens=0, **BASELINES[name])
        chances, rewards = exact(model, made)[0], 0.5 + made.rewards(pairs, given) / 2
        found, weights = made.risk(model, given, pairs, rewards), (chances[:, None] * chances).flatten()
        each = torch.stack([torch.autograd.grad(one, model.head.bias, retain_graph=True)[0] for one in found])
        mean = (weights[:, None] * each).sum(0)
        spread[name] = float((weights * (each - mean).square().sum(1)).sum())
    assert spread["constant"] < 0.5 * spread["none"]
    assert spread["leave_one_out"] < 0.5 * spread["none"]


@every_model
@pytest.mark.parametrize("baseline", ["greedy", "leave_one_out"])
def test_a_constant_reward_teaches_nothing_at_all(kind: str, baseline: str) -> None:
    model = MODELS[kind]().train()
    made = policy(samples=3, reward="constant", baseline=baseline)
    terms = made(model, batch(), "")
    assert all(not gradient.any() for gradient in gradients(model, terms.sums["risk"]))
    terms = risk(samples=3, reward="constant")(model, batch(), "")
    assert all(not gradient.any() for gradient in gradients(model, terms.sums["risk"]))
    terms = policy(samples=3, reward="constant", baseline="constant")(model, batch(), "")
    assert any(gradient.any() for gradient in gradients(model, terms.sums["risk"]))


@every_model
def test_minimum_risk_over_all_answers_is_the_expected_risk(kind: str) -> None:
    model = MODELS[kind](SMALL).eval()
    made = risk(alpha=1.0, include_reference=False, extra_tokens=0)
    _, expected = exact(model, made)
    given, answers = tiny_batch(1), all_answers()[None]
    for drawn in (answers, torch.cat([answers, answers[:, 3:9]], 1)):  # what was drawn twice counts once
        found = made.risk(model, given, drawn, made.rewards(drawn, given))
        for one, other in zip(gradients(model, found.sum()), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)


def test_minimum_risk_by_hand() -> None:
    model, given = transformer(scale=3.0).eval(), batch()
    first = {name: value[:1] for name, value in given.items()}
    answers = torch.tensor([[[5, 6, 7, END, IGNORE], [5, END, IGNORE, IGNORE, IGNORE], [5, END, IGNORE, IGNORE, IGNORE]]])
    made = risk(alpha=0.3, include_reference=False)
    rewards = made.rewards(answers, first)
    assert rewards[0].tolist() == pytest.approx([1.0, sentence_bleu([5], [5, 6, 7]) / 100, sentence_bleu([5], [5, 6, 7]) / 100])
    logs = made.log_probs(model, first, answers)[0]
    steps = model(first["source"], first["source_length"], torch.tensor([[START, 5]])).log_softmax(-1)[0]
    assert float(logs[1].detach()) == pytest.approx(float((steps[0, 5] + steps[1, END]).detach()), rel=1e-5)
    share = (0.3 * logs[:2]).softmax(0)
    torch.testing.assert_close(made.risk(model, first, answers, rewards)[0], share[1] * (1 - rewards[0, 1]))
    beside = risk(alpha=0.3)  # the true target is one of the answers already
    torch.testing.assert_close(beside.risk(model, first, answers[:, 1:], rewards[:, 1:]), made.risk(model, first, answers, rewards))


def test_rewards() -> None:
    given = batch()
    answers = torch.full((4, 2, 7), IGNORE)
    answers[0, 0, :4], answers[0, 1, :3] = torch.tensor([5, 6, 7, END]), torch.tensor([5, 6, 7])  # the second was cut
    answers[1, 0, :1], answers[1, 1, :3] = torch.tensor([END]), torch.tensor([7, 7, END])
    answers[2, 0, :5], answers[2, 1, :5] = torch.tensor([5, 8, 9, 5, END]), torch.tensor([9, 5, 8, 9, END])
    assert policy(reward="exact_match").rewards(answers, given)[:3].tolist() == [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    wanted = [[5, 6, 7], [7], [5, 8, 9, 5]]
    said = [[[5, 6, 7], [5, 6, 7]], [[], [7, 7]], [[5, 8, 9, 5], [9, 5, 8, 9]]]
    expected = [[sentence_bleu(one, true) / 100 for one in two] for two, true in zip(said, wanted, strict=True)]
    torch.testing.assert_close(policy().rewards(answers, given)[:3], torch.tensor(expected))
    assert policy(reward="constant").rewards(answers, given).eq(1).all()


@every_model
@pytest.mark.parametrize("make", [policy, risk])
def test_sums_do_not_depend_on_how_a_batch_is_cut(kind: str, make: Any) -> None:
    model, given = MODELS[kind](scale=3.0).train(), batch()
    made = make(samples=4, cross_entropy_weight=0.5)
    whole = made(model, given, "")
    parts = [made(model, {name: value[i : i + 1] for name, value in given.items()}, "") for i in range(4)]
    for name in ("risk", "token"):
        torch.testing.assert_close(whole.sums[name], torch.stack([part.sums[name] for part in parts]).sum(), rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients(model, whole.sums["risk"]), gradients(model, sum(part.sums["risk"] for part in parts)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert float(made.counts(given)["risk"]) == 3 and float(made.counts(given)["token"]) == 4 + 2 + 5
    alone = make(samples=4)(model, given, "")
    assert list(alone.sums) == ["risk"] and list(alone.metrics) == ["reward"]  # the cross-entropy is not computed for nothing


@pytest.mark.parametrize("make", [policy, risk])
def test_rewards_rise(make: Any) -> None:
    """A hundred steps of plain gradient ascent on one pair, answered at random before."""
    model, given = recurrent(scale=0.1).train(), many(16, tokens=3)
    made = make(samples=8, extra_tokens=1, **({"alpha": 0.5} if make is risk else {}))
    optim, rewards = torch.optim.Adam(model.parameters(), lr=0.02), []
    for step in range(100):
        given["key"] = random.keys(step, torch.arange(16))
        terms = made(model, given, "")
        rewards.append(float(terms.metrics["reward"]) / 16)
        optim.zero_grad()
        terms.sums["risk"].backward()
        optim.step()
    assert sum(rewards[:5]) / 5 < 0.25
    assert sum(rewards[-5:]) / 5 > 0.75


def test_dropout_is_off_while_answers_are_drawn_and_on_in_the_gradient() -> None:
    model, given, made = transformer(dropout=0.5, scale=3.0).train(), batch(), policy(samples=2)
    first, second = made.sample(model, given), made.sample(model, given)
    assert torch.equal(first, second)
    assert not torch.equal(made.log_probs(model, given, first), made.log_probs(model, given, first))


def test_settings_that_cannot_work() -> None:
    for name, value in (("samples", 0), ("extra_tokens", -1), ("cross_entropy_weight", -1.0), ("baseline_value", float("nan"))):
        with pytest.raises(ConfigError, match=rf"--objective\.{name} must be"):
            policy(**{name: value})
    with pytest.raises(ConfigError, match="at least 2 for the baseline leave_one_out"):
        policy(samples=1)
    with pytest.raises(ConfigError, match=r"--objective\.alpha must be"):
        risk(alpha=0.0)
    with pytest.raises(ConfigError, match="has nothing beside it"):
        risk(samples=1, include_reference=False)
    with pytest.raises(CapabilityError, match="does not offer EncoderDecoder"):
        need(torch.nn.Linear(2, 2), policy().needs)
