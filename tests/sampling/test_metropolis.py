"""Metropolis-Hastings against known distributions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.models.energy.energy import every_state
from weft.models.energy.hopfield import Hopfield, HopfieldConfig
from weft.sampling.metropolis import log_acceptance, metropolis, random_walk

SIZE = 6
P = torch.tensor([0.05, 0.1, 0.15, 0.2, 0.2, 0.3], dtype=torch.float64)


@pytest.fixture
def proposal() -> Tensor:
    """Chances (from, to) of an asymmetric proposal, row by row."""
    generator = torch.Generator().manual_seed(0)
    q = torch.rand(SIZE, SIZE, generator=generator, dtype=torch.float64) + 0.05
    return q / q.sum(1, keepdim=True)


def keys(number: int) -> Tensor:
    return random.keys(3, torch.arange(number))


def test_detailed_balance_holds_and_p_is_stationary(proposal: Tensor) -> None:
    log_p, log_q = (5 * P).log(), proposal.log()
    chance = log_acceptance(log_p.unsqueeze(0), log_p.unsqueeze(1), log_q.mT - log_q).exp()  # (from, to)
    flow = P.unsqueeze(1) * proposal * chance
    torch.testing.assert_close(flow, flow.mT, atol=1e-15, rtol=0)
    moves = proposal * chance
    moves += torch.diag(1 - moves.sum(1))
    torch.testing.assert_close(P @ moves, P, atol=1e-14, rtol=0)
    wrong = proposal * log_acceptance(log_p.unsqueeze(0), log_p.unsqueeze(1), torch.zeros(())).exp()
    assert ((P.unsqueeze(1) * wrong) - (P.unsqueeze(1) * wrong).mT).abs().max() > 1e-3  # the ratio of proposals matters


def test_the_chain_ends_in_p(proposal: Tensor) -> None:
    def propose(state: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        new = (random.uniform(key).unsqueeze(1) > proposal[state].cumsum(1)).sum(1).clamp(max=SIZE - 1)
        return new, (proposal[new, state] / proposal[state, new]).log()

    found = metropolis(lambda x: (3 * P).log()[x], propose, torch.zeros(20_000, dtype=torch.int64), keys(20_000), 40)
    share = found.state.bincount(minlength=SIZE) / 20_000
    assert float((share - P).abs().sum() / 2) < 0.02
    assert 0.3 < float(found.accepted.mean()) < 1


def test_a_random_walk_finds_a_gaussian() -> None:
    start = torch.full((4000, 2), 3.0)
    found = metropolis(lambda x: -0.5 * (x / torch.tensor([1.0, 2.0])).square().sum(1), random_walk(1.5), start, keys(4000), 150)
    torch.testing.assert_close(found.state.mean(0), torch.zeros(2), atol=0.12, rtol=0)
    torch.testing.assert_close(found.state.std(0), torch.tensor([1.0, 2.0]), atol=0.1, rtol=0)
    assert 0.3 < float(found.accepted.mean()) < 0.8


def test_gibbs_is_the_special_case_that_never_refuses() -> None:
    torch.manual_seed(0)
    model = Hopfield(HopfieldConfig(features=5)).double()
    torch.nn.init.normal_(model.weight)
    chance = model.conditional()

    def propose(state: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Draw one spin, chosen at random, from its conditional."""
        chosen = random.integers(random.fold(key, "unit"), 5)
        up = torch.cat([chance(state, block) for block in model.blocks], dim=1).gather(1, chosen.unsqueeze(1))[:, 0]
        old, new = state.gather(1, chosen.unsqueeze(1))[:, 0], torch.where(random.uniform(random.fold(key, "value")) < up, 1.0, -1.0)
        forward, backward = (torch.where(x > 0, up, 1 - up).log() for x in (new, old))
        return state.scatter(1, chosen.unsqueeze(1), new.double().unsqueeze(1)), backward - forward

    with torch.no_grad():
        found = metropolis(lambda x: -model.energy(x), propose, torch.ones(8000, 5, dtype=torch.float64), keys(8000), 100)
    assert torch.equal(found.accepted, torch.ones(8000))
    p = (-model.energy(every_state(5, model.values, model.weight))).softmax(0).detach()
    share = ((found.state > 0) * 2 ** torch.arange(5)).sum(1).bincount(minlength=32) / 8000
    assert float((share - p).abs().sum() / 2) < 0.03


def test_the_path_is_kept_where_asked_and_chains_are_independent() -> None:
    start = torch.zeros(6, 1)
    found = metropolis(lambda x: -x.square().sum(1), random_walk(1.0), start, keys(6), 9, keep=True)
    assert found.path is not None
    assert found.path.shape == (9, 6, 1)
    assert torch.equal(found.path[-1], found.state)
    alone = metropolis(lambda x: -x.square().sum(1), random_walk(1.0), start[2:3], keys(6)[2:3], 9)
    assert torch.equal(alone.state, found.state[2:3])
    assert alone.path is None


def test_no_step_leaves_everything_where_it_is() -> None:
    state, key = torch.rand(3, 2), random.keys(0, torch.arange(3))
    chains = metropolis(lambda x: -x.square().sum(1), random_walk(1.0), state, key, 0, keep=True)
    assert torch.equal(chains.state, state)
    assert chains.accepted.tolist() == [0, 0, 0]
    assert chains.path is not None and chains.path.shape == (0, 3, 2)
