"""Stages behind one another train as one process does: gradients, curves, validation, both ends of a tied head, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.gpt_configs import gpt_config
from tests.training import toys
from tests.training.parallel.processes import together
from tests.training.parallel.test_data_parallel import FP32, MODELS, language_model, team
from weft.core.errors import ConfigError
from weft.data.base import Batch, DataLoader, TensorDataset
from weft.models.language.gpt import GPTConfig
from weft.models.language.speedrun_gpt import SpeedrunGPTConfig
from weft.objectives.base import Terms
from weft.objectives.finetuning import FinetuningConfig
from weft.objectives.language.next_token import NextToken, NextTokenConfig
from weft.training import execution
from weft.training.hooks import EMA, Validation
from weft.training.optimizer.settings import SGD, AdamW, Muon
from weft.training.parallel import pipeline
from weft.training.parallel.team import Team
from weft.training.settings import Train
from weft.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", {}),
    "llama": ("llama", {}),
    "three banded blocks, a head of its own": ("gpt", {"layers": 3, "tie_embeddings": False, "sliding_window": 3}),
    "post-norm, rotary": ("gpt", {"norm": "post", "position_embedding": "rotary"}),
}
FOUR: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "copies": ((2, 1, 1, 2), "gpt", {}),
    "parts": ((1, 2, 1, 2), "gpt", {}),
    "heads": ((1, 1, 2, 2), "llama", {}),
    "four stages": ((1, 1, 1, 4), "gpt", {"layers": 5}),
}


def assert_same(one: dict[str, Any], many: list[dict[str, Any]], what: str, tolerance: float = 1e-6) -> None:
    """All stages together have every parameter; each has the norm of all gradients, and the loss."""
    assert {name for found in many for name in found["change"]} == set(one["change"]), what
    for found in many:
        for name, change in found["change"].items():
            torch.testing.assert_close(change, one["change"][name], rtol=0, atol=tolerance, msg=lambda text, n=name: f"{what}, {n}: {text}")
        assert found["norm"] == pytest.approx(one["norm"], rel=1e-5), what
        assert found["loss"] == pytest.approx(one["loss"], rel=1e-5), what


def several(cases: dict[str, Any], given: Any, layouts: bool) -> dict[str, dict[str, Any]]:
    found = {}
    for what, case in cases.items():
        layout, name, changes = case if layouts else ((1, 1, 1, 2), *case)
        found[what] = language_model(team(layout), name, *given, **changes)
    return found


def test_two_stages_have_the_gradients_of_one_process(tmp_path: Path) -> None:
    """One step at rate 1, so that the change of the weights is the gradient; micro-batches of 2, 2 and 1 examples."""
    given = (SGD(lr=1.0), 1, {"micro_batch": 2})
    many = together(2, tmp_path, several, TWO, given, False)
    for what, (name, changes) in TWO.items():
        assert_same(language_model(None, name, *given, **changes), [found[what] for found in many], what)
        held = [found[what]["held"] for found in many]
        assert max(held) < 0.7 * sum(held), what


def test_stages_of_copies_parts_and_heads(tmp_path: Path) -> None:
    """Three steps of AdamW, clipped by the norm of all gradients."""
    given = (AdamW(lr=0.01, clip_norm=0.1), 3)
    many = together(4, tmp_path, several, FOUR, given, True)
    for what, (_, name, changes) in FOUR.items():
        assert_same(language_model(None, name, *given, **changes), [found[what] for found in many], what, 2e-5)


class Twice(NextToken):
    """Asks the model a second time."""

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        super().forward(model, batch, turn)
        return super().forward(model, batch, turn)


def trainer_of(own: Team | None, model: nn.Module, objective: Any, data: Batch, hooks: list[Any], **settings: Any) -> Trainer:
    train = Train(**{**FP32, **settings}, steps=2, batch=5)
    plan = execution.choose(train, model, objective)
    return Trainer(model, objective, DataLoader(TensorDataset(data), 1, plan.device), train, Muon(lr=0.01), plan, hooks, 8, own)


def observed(piped: bool) -> dict[str, Any]:
    """Validation of the average, a task of sequences in pairs, bf16, dropout, and an objective that asks twice."""
    found: dict[str, Any] = {}
    ids = torch.randint(0, 11, (16, 9), generator=torch.Generator().manual_seed(1))
    text = {"ids": ids[:, :-1], "targets": ids[:, 1:], "documents": torch.tensor([0, 0, 0, 1, 1, 1, 1, 2]).expand(16, -1).clone()}
    held = DataLoader(TensorDataset(text), 1, torch.device("cpu"), shuffle=False)
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("plain", {}, {}),
        ("little kept", {"embedding_norm": True}, {"cross_entropy": "chunked", "activation_checkpointing": "full"}),
        ("bf16", {}, {"precision": "bf16"}),
        ("dropout", {"residual_dropout": 0.2}, {}),
    ]
    for what, changes, settings in cases:
        for again in range(1 + (what == "dropout")):
            torch.manual_seed(0)
            model = gpt_config(vocabulary=11, context=8, layers=2, heads=4, width=16, **changes).build()
            validation = Validation(held, 1, 7, 3, "loss", "min")
            own = team((1, 1, 1, 2)) if piped else None
            trainer_of(own, model, NextTokenConfig().build(), text, [EMA(0.5), validation], **settings).fit()
            found[f"{what} {again}"] = validation.latest["loss"]
    torch.manual_seed(0)
    model = GPTConfig(vocabulary=11, context=8, layers=2, heads=4, width=16, classes=3, task_dropout=0.0).build()
    pairs = {"ids": torch.stack([ids[:, :-1], ids[:, 1:]], 1), "lengths": torch.full((16, 2), 8), "label": ids[:, 0] % 3}
    trainer = trainer_of(team((1, 1, 1, 2)) if piped else None, model, FinetuningConfig().build(), pairs, [])
    trainer.fit()
    found["pairs"] = trainer.means.read()["loss"]
    if piped:
        model = MODELS["gpt"].build()
        trainer = trainer_of(team((1, 1, 1, 2)), model, Twice(NextTokenConfig()), text, [])
        with pytest.raises((ConfigError, RuntimeError)) as error:  # the first stage hears that the last one has gone
            trainer.fit()
        found["twice"] = str(error.value)
    return found


def test_what_the_last_stage_finds_is_known_to_all(tmp_path: Path) -> None:
    one, (first, last) = observed(False), together(2, tmp_path, observed, True)
    assert "asks the model more than once" in last.pop("twice")
    first.pop("twice")
    assert first == last, "every stage is told the same"
    assert first["dropout 0"] == first["dropout 1"], "a step is a function of its number"
    for what in ("plain 0", "little kept 0", "pairs"):
        assert first[what] == pytest.approx(one[what], rel=1e-3), what  # Muon works in bf16
    assert first["bf16 0"] == pytest.approx(one["bf16 0"], rel=1e-2)
    assert first["dropout 0"] == pytest.approx(one["dropout 0"], rel=0.1)


@pytest.mark.parametrize(
    ("model", "objective", "stages", "words"),
    [
        (toys.Linear(), toys.Regression(), 2, "into stages; Linear has layer besides"),
        (
            SpeedrunGPTConfig(vocabulary=11, context=8, layers=2, heads=4, width=16).build(),
            NextTokenConfig().build(),
            2,
            "SpeedrunGPT has skips besides",
        ),
        (MODELS["gpt"].build(), NextTokenConfig().build(), 3, "--parallel.pipeline 3 needs a block for every stage; the model has 2"),
        (MODELS["gpt"].build(), toys.Rivals(), 2, "Rivals asks the model more than once"),
    ],
)
def test_what_cannot_be_cut(model: nn.Module, objective: Any, stages: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        pipeline.refuse(model, objective, stages)
