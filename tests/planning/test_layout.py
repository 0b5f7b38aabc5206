"""Layouts: what a device holds, as PyTorch's own sharding has it; what fits, what is refused."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch

from weft.core.errors import ConfigError
from weft.kernels.chunked_cross_entropy import CHUNK
from weft.models.generative.dcgan import DCGANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.planning import devices, memory, plan, speed
from weft.planning.footprint import Footprint, measure
from weft.planning.layout import ANY, Layout, weights
from weft.planning.search import Search
from weft.planning.shards import bytes_on
from weft.planning.subject import Subject, subject
from weft.training.parallel.data_parallel import DistributedTeam
from weft.training.settings import Train


@cache
def gpt2() -> Subject:
    return subject("gpt2", batch=64)


@cache
def footprint() -> Footprint:
    return measure(gpt2())


@pytest.mark.parametrize(
    "grid", [(1, 1, 1, 1), (4, 1, 1, 1), (1, 3, 1, 1), (2, 4, 2, 2), (1, 1, 4, 3), (1, 5, 2, 1)], ids=lambda grid: "x".join(map(str, grid))
)
def test_a_device_holds_what_pytorch_puts_there(grid: tuple[int, int, int, int]) -> None:
    found = subject("gpt/tiny", batch=8, context=16, vocabulary=50)
    small = dataclasses.replace(found, model=dataclasses.replace(found.model, layers=6, heads=4))  # type: ignore[call-arg]
    layout = Layout(*grid)
    for stage in range(layout.pipeline):
        assert bytes_on(small, layout, stage) == 4 * weights(small).local(layout, stage)


def test_batches_can_be_shared_by_many_devices() -> None:
    assert [subject(name).batch for name in ("gpt2", "gpt2-xl", "gpt3-175b")] == [512, 1024, 1536]


def test_gpt3_is_planned_and_built_for_4096_devices() -> None:
    large, layout = subject("gpt3-175b"), Layout(64, 2, 4, 8)
    assert bytes_on(large, layout) == 4 * weights(large).local(layout)


@pytest.mark.parametrize("gpus", [64, 1024])
def test_gpt3_fits_many_devices_and_not_few(gpus: int, gpt3: Search) -> None:
    choice = gpt3.choose(gpus)
    assert choice.layout.devices == gpus
    assert choice.need.fits(gpt3.device)
    with pytest.raises(ConfigError, match=r"does not fit 8 x NVIDIA H200: at least \d+ GiB each .* the nearest that fits is 32 devices"):
        gpt3.choose(8)


@pytest.fixture(scope="module")
def gpt3() -> Search:
    large = subject("gpt3-175b")
    alike = dataclasses.replace(large, model=dataclasses.replace(large.model, sliding_window=0))  # type: ignore[call-arg]
    return Search(alike, measure(alike), weights(alike), devices.find("h200"), large.batch, ANY)


def test_a_layout_that_does_not_fit_names_one_that_does() -> None:
    search = Search(gpt2(), footprint(), weights(gpt2()), devices.find("h200"), 4096, Layout(1, 1, 1, 1), micro_batch=4096)
    with pytest.raises(ConfigError, match="the nearest that fits is"):
        search.choose(1)


@pytest.mark.parametrize(("gpus", "near"), [(67, 66), (258, 256), (100_000, 256)])
def test_a_number_of_devices_that_divides_nothing_has_neighbours_that_do(gpus: int, near: int) -> None:
    with pytest.raises(ConfigError, match=f"no such layout divides a batch of 64 .* the nearest that fits is {near} devices: "):
        search_of(64).choose(gpus)


def search_of(batch: int, asked: Layout = ANY, micro_batch: int = 0) -> Search:
    return Search(gpt2(), footprint(), weights(gpt2()), devices.find("h200"), batch, asked, micro_batch)


def test_devices_share_a_batch_that_they_do_not_divide() -> None:
    """As training does: the largest share decides, and more devices are not slower."""
    choices = [search_of(64).choose(gpus) for gpus in range(1, 9)]
    assert [choice.layout.micro_batch for choice in choices] == [64, 32, 22, 16, 13, 11, 10, 8]
    assert all(more.time.total < fewer.time.total for fewer, more in pairwise(choices))
    assert search_of(12).choose(1).layout.micro_batch == 12


@pytest.mark.parametrize(("batch", "data", "micro_batch"), [(32, 3, 4), (32, 3, 1), (7, 2, 3), (100, 7, 8), (5, 5, 9), (64, 8, 3)])
def test_micro_batches_are_those_of_training(batch: int, data: int, micro_batch: int) -> None:
    layout = next(search_of(batch, micro_batch=micro_batch).cut(Layout(replicate=data)))
    pieces = [cuts(batch, data, place, layout.micro_batch) for place in range(data)]
    assert {len(own) for own in pieces} == {layout.accumulation(batch)}
    assert max(map(max, pieces)) == layout.micro_batch


def cuts(batch: int, data: int, place: int, micro_batch: int) -> list[int]:
    """Sizes of the micro-batches of one process."""
    team = object.__new__(DistributedTeam)
    team.dp_size, team.dp_rank, team.stages = data, place, 1
    return [count for _, count in team.micro_batches(0, batch, micro_batch)]


@pytest.mark.parametrize(
    ("asked", "gpus", "batch", "said"),
    [
        (Layout(0, 0, 5, 0), 5, 64, "--parallel.tensor 5 must divide 12 KV heads and 3072 feed-forward units"),
        (Layout(0, 0, 0, 5), 5, 64, "--parallel.pipeline 5 must divide 12 blocks"),
        (Layout(64, 0, 0, 0), 64, 8, "a batch of 8 examples cannot be divided among 64 devices"),
    ],
)
def test_a_grid_that_cannot_be_says_why(asked: Layout, gpus: int, batch: int, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{said}.*; the nearest that fits is"):
        search_of(batch, asked).choose(gpus)


def test_the_first_batch_of_a_ramp_must_be_enough() -> None:
    ramp = dataclasses.replace(gpt2(), train=Train(batch_ramp=(4, 1000)))
    assert dataclasses.replace(search_of(64), subject=ramp).choose(8).layout.data <= 4


@pytest.mark.parametrize(
    ("settings", "wishes", "micro_batch", "activation_checkpointing"),
    [({"micro_batch": 8}, 0, 8, False), ({"micro_batch": 8}, 4, 4, False)],
)
def test_a_recipe_may_wish_for_micro_batches(
    settings: dict[str, int], wishes: int, micro_batch: int, activation_checkpointing: bool
) -> None:
    small = dataclasses.replace(tiny(), train=Train(**settings))  # type: ignore[arg-type]
    layout = plan.make(small, "cpu", plan.PlanRequest(micro_batch=wishes)).choice.layout
    assert (layout.micro_batch, layout.activation_checkpointing) == (micro_batch, activation_checkpointing)


@pytest.mark.parametrize(("kept", "asked", "again"), [("full", None, True), ("none", None, False), ("full", False, False)])
def test_a_recipe_may_wish_for_checkpoints(kept: str, asked: bool | None, again: bool) -> None:
    small = dataclasses.replace(tiny(), train=Train(activation_checkpointing=kept))  # type: ignore[arg-type]
    assert plan.make(small, "cpu", plan.PlanRequest(activation_checkpointing=asked)).choice.layout.activation_checkpointing is again


def tiny() -> Subject:
    return subject("gpt/tiny", batch=16, context=16, vocabulary=50)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"generator_norm": "batch"}, "normalises over the batch"),
        ({"generator_norm": "none", "minibatch_kernels": 4}, "DCGAN compares the examples"),
    ],
)
def test_what_compares_examples_is_planned_for_one_device(settings: dict[str, Any], said: str) -> None:
    model = DCGANConfig(image=(1, 8, 8), width=8, discriminator_norm="none", **settings)
    game = AdversarialConfig()
    images = Subject(
        "images", model, game, lambda n: {"pixels": torch.zeros(n, 1, 8, 8), "key": torch.zeros(n, dtype=torch.int64)}, 1, 8, 0.0
    )
    held = weights(images)
    assert said in held.indivisible
    search = Search(images, footprint(), held, devices.find("h200"), 8, ANY)
    assert [*search.layouts(2, ANY)] == [] and [*search.layouts(1, ANY)]
    with pytest.raises(ConfigError, match=f"{said}.*; use --gpus 1$"):
        search.choose(2)


def test_heads_of_keys_are_what_tensor_parallelism_divides() -> None:
    grouped = subject("llama/tiny", batch=8, context=16, vocabulary=50)
    grouped = dataclasses.replace(grouped, model=dataclasses.replace(grouped.model, heads=4, kv_heads=2))  # type: ignore[call-arg]
    assert weights(grouped).heads == 2
    assert not Search(grouped, footprint(), weights(grouped), devices.find("h200"), 8, ANY).divides(4, 1)


def test_the_command_counts_machines() -> None:
    assert Layout(replicate=4).command(8).startswith("torchrun --nproc-per-node 4 -m weft train")
    assert Layout(replicate=3, shard=4).command(8).startswith("torchrun --nnodes 2 --nproc-per-node 6 -m weft train")
    assert Layout(shard=64, tensor=2).command(8).startswith("torchrun --nnodes 16 --nproc-per-node 8 -m weft train")
    assert Layout().command(8) == ""
    assert Layout(replicate=2, micro_batch=4).command(8, 32).endswith("--parallel.replicate 2 --train.micro_batch 4")


def of(layout: Layout, batch: int = 64) -> memory.MemoryEstimate:
    return memory.need(gpt2(), footprint(), weights(gpt2()), layout, devices.find("h200"), batch)


def test_state_is_fp32_as_the_trainer_keeps_it() -> None:
    parts = of(Layout(micro_batch=64)).parts
    assert parts["weights"] == 4 * 124_439_808
    assert parts["optimiser state"] == 8 * 124_439_808
    sharded = of(Layout(shard=8, micro_batch=8)).parts
    assert sharded["weights"] == pytest.approx(parts["weights"] / 8, rel=1e-3)


def test_checkpointing_keeps_less_and_takes_longer() -> None:
    arguments = (gpt2(), footprint(), weights(gpt2()))
    plain, again = Layout(micro_batch=64), Layout(micro_batch=64, activation_checkpointing=True)
    assert of(again).parts["activations"] < 0.3 * of(plain).parts["activations"]
    times = [speed.step(*arguments, layout, devices.find("h200"), 64).total for layout in (plain, again)]
    assert 1.1 < times[1] / times[0] < 1.34


def test_memory_is_that_of_what_the_trainer_would_choose() -> None:
    """Logits in chunks on a GPU, so many at most; blocks of a model that fills an eighth of it keep products only."""
    chunk, whole = footprint(), measure(asking(cross_entropy="whole"))
    assert chunk.logits == 50257 * 1024 and not whole.logits
    one = Layout(micro_batch=64)
    some, all_ = (memory.of_loss(found, one) for found in (chunk, whole))
    assert 2 * CHUNK < some < 2 * CHUNK + 2**30 < 4 * 64 * 1024 * 50257 < 1.3 * all_
    assert chunk.work(64).products == pytest.approx(whole.work(64).products, rel=1e-3)
    h200, small = devices.find("h200"), dataclasses.replace(devices.find("h200"), memory=15e9)
    assert memory.keeps(gpt2(), chunk, h200) == "none"
    assert memory.keeps(gpt2(), chunk, small) == memory.keeps(asking(activation_checkpointing="selective"), chunk, h200) == "selective"
    parts = [memory.need(gpt2(), chunk, weights(gpt2()), one, device, 64).parts["activations"] for device in (h200, small)]
    assert parts[1] == pytest.approx(3 / 4 * parts[0])


def asking(**settings: str) -> Subject:
    return dataclasses.replace(gpt2(), train=Train(**settings))  # type: ignore[arg-type]


def test_the_step_time_is_near_what_was_measured_elsewhere() -> None:
    """nanoGPT takes 123 ms for 64 examples of GPT-2 on an H200; the plan must be of that order, at 64 examples and at 8."""
    for batch in (64, 8):
        found = speed.step(gpt2(), footprint(), weights(gpt2()), Layout(micro_batch=batch), devices.find("h200"), batch)
        assert found.total == pytest.approx(0.123 * batch / 64, rel=0.25)


def test_a_stated_mfu_decides_the_time() -> None:
    small = dataclasses.replace(gpt2(), batch=64)
    choice = Search(small, footprint(), weights(small), devices.find("h200"), 64, ANY).choose(1)
    found = plan.TrainingPlan(small, devices.find("h200"), plan.PlanRequest(mfu=0.5), footprint(), weights(small), choice)
    assert found.mfu == pytest.approx(0.5)
    assert found.rate == pytest.approx(0.5 * 989e12 / footprint().counts.estimate)
    power = found.energy()
    assert power["kwh"] == pytest.approx(found.days * 24 * 1.2)
    assert power["co2_kg"] == pytest.approx(0.4 * power["kwh"])
