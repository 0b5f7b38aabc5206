"""FLOPs and kept bytes against counting by hand."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from weft.nn import attention
from weft.planning import scaling
from weft.planning.count import count
from weft.planning.fake_tensors import fake_tensors, one_kernel
from weft.planning.footprint import Footprint, measure, traced
from weft.planning.subject import Subject, subject


def small(layers: int = 3, **more: int) -> Subject:
    found = subject("gpt/tiny", batch=8, context=16, vocabulary=50)
    return dataclasses.replace(found, model=dataclasses.replace(found.model, layers=layers, **more))  # type: ignore[call-arg]


@cache
def deep_footprint() -> Footprint:
    return measure(small(layers=6))


def test_flops_are_those_of_the_products() -> None:
    counts = count(small())
    width, context, vocabulary, layers = 32, 16, 50, 3
    assert counts.forward["attention"] == layers * (2 * 4 * width**2 + 4 * context * width)
    assert counts.forward["feedforward"] == layers * 2 * 8 * width**2
    assert counts.forward["rest"] == 2 * width * vocabulary
    products = sum(counts.forward.values()) - layers * 4 * context * width
    assert counts.backward == 2 * products + layers * 10 * context * width  # the backward pass of attention has five products


def test_a_deep_model_is_counted_from_shallow_ones() -> None:
    deep = small(layers=7)
    ours, whole = measure(deep, compiled=False).counts, count(deep)
    assert ours.parameters == whole.parameters
    assert ours.total == pytest.approx(whole.total)
    assert ours.kept == pytest.approx(whole.kept)
    assert ours.estimate == pytest.approx(whole.estimate)


def test_traces_grow_with_layers_and_examples() -> None:
    """Extrapolated from small traces, and traced whole."""
    whole = traced(small(), 3, 48)
    footprint = dataclasses.replace(deep_footprint(), layers=3)
    assert footprint.compiled and whole is not None
    guess = footprint.work(48)
    for name in ("saved", "products", "operands", "forward_attention", "backward_attention", "traffic"):
        assert getattr(guess, name) == pytest.approx(getattr(whole, name), rel=0.02), name
    assert guess.peak == pytest.approx(whole.peak, rel=0.05)


def test_what_is_kept_is_near_a_count_by_hand() -> None:
    """Per token and layer: input of the attention, of its products, q k v, heads, input of the second branch and of its products,
    and the inner layer before and after its activation, in bf16."""
    footprint = deep_footprint()
    by_hand = 2 * 16 * 32 * (1 + 1 + 3 + 1 + 1 + 1 + 4 + 4)
    assert footprint.growth["saved"].per_both == pytest.approx(by_hand, rel=0.06)


def test_pretending_leaves_no_trace() -> None:
    mask = attention._causal_mask(5, 5, torch.device("cpu"))
    with fake_tensors():
        attention._causal_mask(7, 7, torch.device("cpu"))
    assert int(attention._causal_mask(7, 7, torch.device("cpu")).sum()) == 21
    assert int(mask.sum()) == 10


@pytest.mark.parametrize("name", ["smollm2-135m", "bert/base", "t5/small", "b16", "mlp/mnist", "transformer/base"])
def test_other_families_are_counted(name: str) -> None:
    counts = measure(subject(name), compiled=False).counts
    assert counts.parameters == scaling.parameters(subject(name).model)
    assert 1.0 <= counts.backward / sum(counts.forward.values()) < 2.5


@pytest.mark.parametrize("name", ["gan/digits", "rbm/digits"])
def test_recipes_with_data_of_their_own_are_traced(name: str) -> None:
    pytest.importorskip("sklearn")
    found = measure(subject(name))
    assert found.work(8).peak > 0
    assert found.counts.total > 0


def test_pretending_leaves_alone_what_layers_keep() -> None:
    """A captured graph may still use it, and a mask without numbers must not be among it."""
    kept = attention._cached_causal_mask(3, 3, torch.device("cpu"))
    with fake_tensors():
        assert isinstance(attention._cached_causal_mask(3, 3, torch.device("cpu")), FakeTensor)
    assert attention._cached_causal_mask(3, 3, torch.device("cpu")) is kept


def test_other_threads_do_not_pretend() -> None:
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    mask = torch.tensor([True, True, False, True]).expand(1, 1, 4, 4)
    wanted = one_kernel(q, k, v, mask)
    with fake_tensors(), ThreadPoolExecutor(1) as other:
        found = other.submit(lambda: one_kernel(q, k, v, mask)).result()
    torch.testing.assert_close(found, wanted)
