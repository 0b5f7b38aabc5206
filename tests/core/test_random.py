"""Randomness without state: bijections, streams that do not depend on the cut, and distributions."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from weft.core import random
from weft.data.base import DataLoader, TensorDataset, order

sizes = st.one_of(st.integers(1, 70), st.integers(1, 3000))


@given(size=sizes, seed=st.integers(0, 2**63 - 1))
def test_permute_is_a_bijection(size: int, seed: int) -> None:
    shuffled = random.permute(np.arange(size), size, seed)
    assert np.array_equal(np.sort(shuffled), np.arange(size))


@given(size=sizes, seed=st.integers(0, 2**63 - 1), data=st.data())
def test_permute_of_one_position_does_not_depend_on_the_others(size: int, seed: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, size - 1))
    assert random.permute(np.arange(size), size, seed)[position] == random.permute(np.array([position]), size, seed)[0]


def test_permute_mixes_well() -> None:
    """Over many seeds each position receives each example about equally often."""
    table = np.zeros((10, 10))
    for seed in range(3000):
        table[np.arange(10), random.permute(np.arange(10), 10, random.seed_of(seed))] += 1
    assert np.abs(table - 300).max() < 5 * 300**0.5


def test_permute_of_a_large_range_is_cheap_anywhere() -> None:
    size = 10**12
    some = random.permute(np.array([0, 1, size - 1]), size, 7)
    assert len(set(some.tolist())) == 3
    assert (some >= 0).all()
    assert (some < size).all()


@given(size=st.integers(1, 400), first=st.integers(0, 1000), seed=st.integers(0, 10**6), cut=st.integers(1, 400))
def test_every_epoch_holds_every_example_once(size: int, first: int, seed: int, cut: int) -> None:
    start = first - first % size
    whole = order(start, 2 * size, size, seed)
    assert Counter(whole[:size].tolist()) == Counter(range(size))
    assert Counter(whole[size:].tolist()) == Counter(range(size))
    pieces = [order(start + i, min(cut, 2 * size - i), size, seed) for i in range(0, 2 * size, cut)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_epochs_and_seeds_have_different_orders() -> None:
    first, second = order(0, 50, 50, 1), order(50, 50, 50, 1)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, order(0, 50, 50, 2))
    assert np.array_equal(order(0, 100, 50, 1, shuffle=False), np.tile(np.arange(50), 2))


def test_a_source_seeks_for_free(device: torch.device) -> None:
    """The batch at a position is the same whether one came there by reading or by jumping, and however it is cut."""
    tensors = {"number": torch.arange(23)}
    reading, jumping = (DataLoader(TensorDataset(tensors), 5, device) for _ in range(2))
    read = [reading.batch(first, 4) for first in range(0, 200, 4)]
    for position in (160, 40, 196, 0):
        batch = jumping.batch(position, 4)
        for name, value in read[position // 4].items():
            assert torch.equal(value, batch[name])
    whole = jumping.batch(17, 30)
    parts = [jumping.batch(17, 11), jumping.batch(28, 19)]
    for name, value in whole.items():
        assert torch.equal(value, torch.cat([part[name] for part in parts]))


@pytest.mark.parametrize("draw", [lambda k: random.uniform(k, 3, 2), lambda k: random.normal(k, 6), lambda k: random.integers(k, 9, 4)])
def test_noise_does_not_depend_on_how_a_batch_is_cut(draw: object, device: torch.device) -> None:
    key = random.keys(3, torch.arange(100)).to(device)
    whole = draw(key)  # type: ignore[operator]
    parts = [draw(part) for part in key.split([1, 7, 30, 62])]  # type: ignore[operator]
    assert torch.equal(whole, torch.cat(parts))
    assert torch.equal(whole.cpu(), draw(key.cpu())) or whole.is_floating_point()  # type: ignore[operator]


def test_streams_are_independent() -> None:
    key = random.keys(3, torch.arange(4000))
    streams = [
        random.uniform(key),
        random.uniform(random.fold(key, "a")),
        random.uniform(random.fold(key, "b")),
        random.uniform(random.fold(key, 0)),
    ]
    streams += [random.uniform(random.keys(4, torch.arange(4000))), random.uniform(key, 2)[:, 1]]
    correlation = torch.corrcoef(torch.stack(streams)) - torch.eye(6)
    assert correlation.abs().max() < 5 / 4000**0.5


def test_distributions() -> None:
    key = random.keys(1, torch.arange(2000))
    u, z, n = random.uniform(key, 100), random.normal(key, 100), random.integers(key, 7, 100)
    assert 0 <= u.min() <= u.max() < 1
    assert float(u.mean()) == pytest.approx(0.5, abs=3e-3)
    assert float(u.var()) == pytest.approx(1 / 12, rel=1e-2)
    assert float(z.mean()) == pytest.approx(0, abs=1e-2)
    assert float(z.std()) == pytest.approx(1, rel=1e-2)
    assert float((z**4).mean()) == pytest.approx(3, rel=3e-2)
    assert torch.isfinite(z).all()
    share = torch.bincount(n.flatten(), minlength=7) / n.numel()
    assert len(share) == 7
    assert (share - 1 / 7).abs().max() < 5e-3
    assert random.uniform(key).shape == key.shape


def test_seeds_are_made_of_all_their_parts() -> None:
    seeds = {random.seed_of(*parts) for parts in [(1,), (2,), (1, 2), (2, 1), (1, "a"), (1, "b"), ("a", 1), (0,), (0, 0), (-1,)]}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert random.seed_of(1, "dropout", 3) == random.seed_of(1, "dropout", 3)


def test_the_tensor_hash_is_the_integer_hash() -> None:
    values = [0, 1, 2**62, -5]
    hashed = random._mix(torch.tensor(values)).tolist()
    assert hashed == [random._signed(random.mix(v & random.MASK)) for v in values]
    assert random.mix(0) == 0xE220A8397B1DCDAF  # the published first output of splitmix64 with seed 0


def test_keys_can_be_compiled_whole() -> None:
    def draw(key: torch.Tensor) -> torch.Tensor:
        return random.uniform(random.fold(random.fold(key, "latents"), 3), 5)

    key = random.keys(1, torch.arange(4))
    compiled = torch.compile(draw, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(key), draw(key))


def test_the_compiler_is_not_imported_before_it_is_used() -> None:
    """It takes seconds, which nobody should wait for who only wants a sample."""
    imports = "import sys, weft.runs.assemble, weft.recipes.language.gpt"
    code = f"{imports}; print(*(name in sys.modules for name in ('torch._dynamo', 'torch._inductor')))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


@pytest.mark.gpu
def test_compiled_for_a_gpu_the_bits_are_the_same() -> None:
    key = random.keys(1, torch.arange(7))
    compiled = torch.compile(random.bits, dynamic=False)(key.cuda(), 130)
    assert torch.equal(compiled.cpu(), random.bits(key, 130))
