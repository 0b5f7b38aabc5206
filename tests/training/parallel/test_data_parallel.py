"""Several processes train as one does: gradients, weights, metrics, averages, refusals and stops."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import toys
from tests.training.parallel.processes import together
from weft.core.errors import ConfigError, ProcessError
from weft.data.base import Batch, DataLoader, TensorDataset
from weft.models.language.gpt import GPTConfig
from weft.models.language.llama import LlamaConfig
from weft.objectives.base import Objective
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.hooks import EMA, Hook, Signals, SignalSync, Validation
from weft.training.optimizer.settings import SGD, Adam, AdamW, Momentum, Muon, OptimConfig
from weft.training.parallel import processes
from weft.training.parallel.team import Team
from weft.training.settings import Parallel, Train
from weft.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
LAYOUTS = {"two copies": (2, 1), "two parts": (1, 2), "two copies of two parts": (2, 2)}
FP32: dict[str, Any] = {"precision": "fp32", "compile": "off", "cuda_graphs": "off", "device": "cpu"}


class Clipped(toys.Rivals):
    """Changes the weights after the update, as a critic that must stay Lipschitz."""

    def after_update(self, model: nn.Module, turn: str) -> None:
        super().after_update(model, turn)
        for parameter in model.parameters():
            parameter.clamp_(-0.3, 0.3)


class Poisoned(toys.Regression):
    """One example of the data has no finite loss."""

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Any:
        terms = super().forward(model, batch, turn)
        return type(terms)({"loss": terms.sums["loss"] * torch.where(batch["number"] == 5, torch.inf, 1.0).prod()})


class Numbered(toys.Linear):
    """Has a parameter that is a single number, which cannot be divided."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * super().forward(x)


KINDS: dict[str, tuple[type[nn.Module], type[Objective]]] = {
    "numbered": (Numbered, toys.Regression),
    "half labelled": (toys.Linear, toys.HalfLabelled),
    "rivals": (toys.Pair, toys.Rivals),
    "clipped": (toys.Pair, Clipped),
    "poisoned": (toys.Linear, Poisoned),
}


def trained(team: Team | None, kind: str, optim: OptimConfig, hooks: Sequence[Hook] = (), **settings: Any) -> dict[str, Any]:
    """A few steps of a small model: its weights, its means, and what the hooks found."""
    torch.manual_seed(0)
    model, objective = (make() for make in KINDS[kind])
    train = Train(**FP32, **{"steps": 5, "batch": 7, **settings})
    plan = execution.choose(train, model, objective)
    source = DataLoader(TensorDataset(toys.regression()), 1, plan.device)
    trainer = Trainer(model, objective, source, train, optim, plan, hooks, 1, team)
    trainer.fit()
    means = trainer.means.read(trainer.team.all_reduce)
    refused = sum(float(updater.refused) for updater in trainer.updaters.values())
    return {"weights": toys.weights(model) if team is None else wholes(trainer), "means": means, "refused": refused, "step": trainer.step}


def wholes(trainer: Trainer) -> dict[str, Tensor]:
    team = trainer.team
    return {name: team.full_tensor(team.to_local(value), value).clone() for name, value in trainer.model.state_dict().items()}


def team(layout: tuple[int, ...]) -> Team:
    from weft.training.parallel.data_parallel import DistributedTeam

    return DistributedTeam(Parallel(**dict(zip(processes.LAYOUT, layout))), torch.device("cpu"))


def assert_same(one: dict[str, Any], many: list[dict[str, Any]], tolerance: float = 1e-6) -> None:
    for found in many:
        for name, value in one["weights"].items():
            torch.testing.assert_close(found["weights"][name], value, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")
        assert found["means"] == pytest.approx(one["means"], rel=1e-5)
        assert found["refused"] == one["refused"]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", ["half labelled", "clipped", "numbered"])
def test_ragged_batches_give_the_weights_of_one_process(kind: str, layout: tuple[int, int], tmp_path: Path) -> None:
    """Two terms with counts of their own, or two turns; accumulation, a growing batch, clipping by the norm of all gradients."""
    optim = AdamW(lr=0.05, clip_norm=0.1)
    settings: dict[str, Any] = {"micro_batch": 3, "batch_ramp": (4, 20), "batch": 9}
    one = trained(None, kind, optim, **settings)
    many = together(layout[0] * layout[1], tmp_path, lambda: trained(team(layout), kind, optim, **settings))
    assert_same(one, many)


@pytest.mark.parametrize(
    "optim",
    [Muon(lr=0.05), Momentum(lr=0.1, clip_value=0.05), Adam(lr=0.05, l1=0.01, l2=0.01), AdamW(lr=0.05, scale_parameter=True)],
    ids=lambda o: type(o).__name__,
)
@pytest.mark.parametrize("layout", [(2, 1), (1, 2)], ids=["copies", "parts"])
def test_every_kind_of_optimiser(optim: OptimConfig, layout: tuple[int, int], tmp_path: Path) -> None:
    assert_same(trained(None, "rivals", optim), together(2, tmp_path, lambda: trained(team(layout), "rivals", optim)))


MODELS: dict[str, Any] = {
    "gpt": GPTConfig(vocabulary=11, context=8, layers=2, heads=4, width=16),
    "llama": LlamaConfig(vocabulary=11, context=8, layers=2, heads=4, kv_heads=2, width=16),
}


def language_model(
    team: Team | None, name: str, optim: OptimConfig, steps: int, settings: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """A few steps of a language model on batches of 5: the change of its weights, and how many numbers this process holds."""
    torch.manual_seed(0)
    model: nn.Module = dataclasses.replace(MODELS[name], **changes).build()
    objective = NextTokenConfig().build()
    before = toys.weights(model)
    train = Train(**FP32, steps=steps, batch=5, **settings or {})
    ids = torch.randint(0, 11, (16, 9), generator=torch.Generator().manual_seed(1))
    data = TensorDataset({"ids": ids[:, :-1], "targets": ids[:, 1:]})
    plan = execution.choose(train, model, objective)
    trainer = Trainer(model, objective, DataLoader(data, 1, plan.device), train, optim, plan, (), 8, team)
    trainer.fit()
    after = toys.weights(model) if team is None else wholes(trainer)
    held = sum(trainer.team.to_local(p).numel() for p in model.blocks.parameters())
    change = {name: before[name] - value for name, value in after.items()}
    loss = trainer.means.read(trainer.team.all_reduce)["loss"]
    return {"change": change, "held": held, "norm": float(trainer.updaters[""].norm), "loss": loss}


@pytest.mark.parametrize("layouts", [[(2, 1, 1), (1, 2, 1), (1, 1, 2)], [(2, 1, 2), (1, 2, 2)]], ids=["two", "four"])
def test_gradients_of_a_language_model(layouts: list[tuple[int, ...]], tmp_path: Path) -> None:
    """One step at rate 1, so that the change of the weights is the gradient; also with chunks of logits and less that is kept, where
    the backward pass gathers again what it computes with again."""
    optim, little = SGD(lr=1.0), [{"cross_entropy": "chunked", "activation_checkpointing": kept} for kept in ("selective", "full")]
    cases = [(name, layout, settings) for name in MODELS for layout in layouts for settings in ({}, *(little if name == "gpt" else []))]
    one = {name: language_model(None, name, optim, 1) for name in MODELS}
    many = together(math.prod(layouts[0]), tmp_path, lambda: [language_model(team(at), name, optim, 1, how) for name, at, how in cases])
    for found, (name, layout, _) in ((found, case) for process in many for found, case in zip(process, cases, strict=True)):
        for key, gradient in one[name]["change"].items():
            torch.testing.assert_close(
                found["change"][key], gradient, rtol=0, atol=1e-6, msg=lambda text, at=(layout, key): f"{at}: {text}"
            )
        assert found["norm"] == pytest.approx(one[name]["norm"], rel=1e-6)
        assert found["held"] == pytest.approx(one[name]["held"] / (layout[1] * layout[2]), rel=0.1)


@pytest.mark.parametrize(
    ("optim", "steps", "tolerance"),
    [(Muon(lr=0.01, clip_norm=0.1), 1, 0.1), (AdamW(lr=0.01, clip_norm=0.1), 4, 1e-4), (AdamW(lr=0.1, scale_parameter=True), 4, 1e-4)],
)
def test_optimisers_of_divided_heads(optim: OptimConfig, steps: int, tolerance: float, tmp_path: Path) -> None:
    """Muon works in bf16 and makes all directions of a matrix equally long, small ones and their errors included."""
    one = language_model(None, "llama", optim, steps)
    for found in together(2, tmp_path, lambda: language_model(team((1, 1, 2)), "llama", optim, steps)):
        for key, change in one["change"].items():
            assert (found["change"][key] - change).norm() <= tolerance * change.norm(), key


def validated(team: Team | None) -> dict[str, Any]:
    held = DataLoader(TensorDataset(toys.regression()), 1, torch.device("cpu"), shuffle=False)
    validation = Validation(held, 2, 11, 5, "loss", "min")  # the last batch has one example, so one process has none
    found = trained(team, "half labelled", AdamW(lr=0.05), [EMA(0.9), validation])
    return {**found, "means": validation.latest}


@pytest.mark.parametrize("layout", [(2, 1), (1, 2)], ids=["copies", "parts"])
def test_validation_of_the_averaged_weights_is_exact(layout: tuple[int, int], tmp_path: Path) -> None:
    assert_same(validated(None), together(2, tmp_path, lambda: validated(team(layout))))


@pytest.mark.parametrize("layout", [(2, 1), (1, 2)], ids=["copies", "parts"])
def test_all_refuse_an_update_that_one_cannot_make(layout: tuple[int, int], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 9, "nonfinite": "skip"}
    one = trained(None, "poisoned", SGD(lr=0.01), **settings)
    assert one["refused"] == 1
    many = together(2, tmp_path, lambda: trained(team(layout), "poisoned", SGD(lr=0.01), **settings))
    assert_same({**one, "means": {}}, [{**found, "means": {}} for found in many])


def test_every_process_has_a_part_of_every_batch(tmp_path: Path) -> None:
    def parts() -> list[list[tuple[int, int]]]:
        own = team((3, 1))
        return [own.micro_batches(10, count, micro) for count, micro in ((7, 0), (7, 1), (8, 2), (3, 5))]

    found = together(3, tmp_path, parts)
    for case, count in enumerate((7, 7, 8, 3)):
        drawn = [first + number for process in found for first, size in process[case] for number in range(size)]
        assert drawn == list(range(10, 10 + count))
        assert len({len(process[case]) for process in found}) == 1, "they go in step"
        assert all(size for process in found for _, size in process[case])


def test_sums_do_not_depend_on_the_order_of_names(tmp_path: Path) -> None:
    def summed() -> dict[str, float]:
        own = team((2, 1))
        names = ["a", "b"] if own.first else ["b", "a"]
        return {name: float(value) for name, value in own.all_reduce({name: torch.tensor(float(ord(name))) for name in names}).items()}

    assert together(2, tmp_path, summed) == [{"a": 194.0, "b": 196.0}] * 2


class Interrupt(Hook):
    """Sends a signal to one process after the second step."""

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == 2 and trainer.team.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def interrupted() -> tuple[int, int | None]:
    signals = Signals()
    found = trained(team((2, 1)), "half labelled", SGD(lr=0.1), [SignalSync(signals), Interrupt(), signals], steps=50)
    return found["step"], signals.received


def test_a_signal_to_one_process_stops_all_after_the_same_step(tmp_path: Path) -> None:
    (step, first), (other, second) = together(2, tmp_path, interrupted)
    assert step == other and 2 <= step <= 4
    assert first == second == signal.SIGTERM


def deserted(folder: Path) -> str:
    """What the others say when one process dies within a step."""

    class Dies(Hook):
        def after_step(self, trainer: Trainer) -> None:
            if trainer.step == 2 and trainer.team.rank == 1:
                (folder / "1").write_bytes(b"\x80\x04\x8c\x04gone\x85.")  # ("gone",), pickled
                os._exit(1)

    with (
        pytest.raises(ProcessError, match="another process of this run has ended"),
        processes.joined(Parallel(replicate=2), Train()) as many,
    ):
        trained(many, "half labelled", SGD(lr=0.1), [Dies()], steps=50)
    return "alone"


def test_a_process_that_dies_ends_the_others_with_one_sentence(tmp_path: Path) -> None:
    place = tmp_path / "meeting-0"
    assert together(2, tmp_path, deserted, place) == ["alone", "gone"]


def test_one_process_is_alone() -> None:
    with processes.joined(Parallel(), Train(batch=0)) as team:  # which is for others to refuse
        assert type(team) is Team
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("settings", "train", "started", "words"),
    [
        ({"shard": 2}, {}, 1, "needs 2 processes; start them with: torchrun --nproc-per-node 2"),
        ({"replicate": 2}, {}, 4, "is 2, but 4 processes were started"),
        ({"replicate": 0}, {}, 1, "--parallel.replicate must be at least 1, not 0"),
        ({"replicate": 4}, {"batch": 3}, 4, "a batch of 3 examples cannot be divided among 4"),
        ({"replicate": 4}, {"batch_ramp": (2, 100)}, 4, "a batch of 2 examples"),
    ],
)
def test_layouts_that_cannot_be(
    settings: dict[str, int], train: dict[str, Any], started: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(started))
    with pytest.raises(ConfigError, match=words):
        processes.check(Parallel(**settings), Train(**train))


def test_what_compares_examples_is_not_divided() -> None:
    objective, two = toys.Regression(), Team()
    two.dp_size = 2
    processes.refuse(toys.Linear(), objective, two)
    with pytest.raises(ConfigError, match=r"1 normalises over the batch"):
        processes.refuse(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), objective, two)
    objective.separable = False
    with pytest.raises(ConfigError, match="Regression compares the examples"):
        processes.refuse(toys.Linear(), objective, two)
    processes.refuse(toys.Linear(), objective, Team())


def test_processes_that_were_given_different_things_refuse_to_train(tmp_path: Path) -> None:
    def compared() -> str:
        own = team((2, 1))
        processes.compare(own, b"the same", b"things")
        with pytest.raises(ConfigError) as error:
            processes.compare(own, b"first" if own.first else b"second")
        return str(error.value)

    assert all("different data or settings" in said for said in together(2, tmp_path, compared))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("[transport/tcp/pair.cc:538] Connection closed by peer [127.0.1.1]:5", "another process of this run has ended"),
        ("Timed out waiting 10000ms for recv operation to complete", "did not answer for 7 s"),
    ],
)
def test_what_a_lost_connection_means(error: str, said: str) -> None:
    found = processes.lost(RuntimeError(error), Parallel(timeout=7))
    assert said in str(found)
    assert processes.lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), Parallel()) is None


def test_several_processes_do_not_share_one_gpu() -> None:
    with pytest.raises(ConfigError, match="'cuda:1' cannot serve several processes"):
        processes.take_device(Train(device="cuda:1"))
    assert processes.take_device(Train(device="cpu")).type == "cpu"
