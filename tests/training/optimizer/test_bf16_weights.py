"""bf16 copies of matrices: products read them, gradients come to them, the model keeps its own weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from tests.training import toys
from weft.data.base import DataLoader, TensorDataset
from weft.models.language.gpt import GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.training import execution
from weft.training.optimizer.bf16_weights import BF16Weights
from weft.training.optimizer.settings import AdamW
from weft.training.parallel.team import SINGLE_PROCESS
from weft.training.settings import Train
from weft.training.trainer import Trainer

MODEL = GPTConfig(vocabulary=300, context=8, layers=2, heads=2, width=256)


def test_gradients_come_to_the_copies_and_are_those_of_the_weights() -> None:
    torch.manual_seed(0)
    model, objective = MODEL.build(), NextTokenConfig().build()
    bf16_weights = BF16Weights(model)
    assert len(bf16_weights.copies) == 2 * 4, "the head is the embedding, whose gradient is a sum of many"
    ids = torch.randint(0, 300, (3, 9))
    batch = {"ids": ids[:, :-1], "targets": ids[:, 1:]}
    with torch.autocast("cpu", torch.bfloat16):
        apart = objective(model, batch, "").sums["loss"]
        apart.backward()
        expected = {name: p.grad for name, p in model.named_parameters()}
        model.zero_grad()
        with bf16_weights.in_place():
            fused = objective(model, batch, "").sums["loss"]
            fused.backward()
    assert torch.equal(fused, apart)
    for name, weight in model.named_parameters():
        copy = bf16_weights.copies.get(weight)
        assert (weight.grad is None) == (copy is not None) and weight.dtype == torch.float32
        found = weight.grad if copy is None else copy.grad
        assert found is not None
        torch.testing.assert_close(found.float(), expected[name], rtol=1e-2, atol=1e-4)


def test_copies_follow_weights_that_were_changed() -> None:
    model = MODEL.build()
    bf16_weights = BF16Weights(model)
    with torch.no_grad():
        model.blocks[0].feedforward.up.weight.add_(1.0)  # type: ignore[union-attr, operator]
    bf16_weights.refresh()
    assert all(torch.equal(weight.to(torch.bfloat16), copy) for weight, copy in bf16_weights.copies.items())


def test_the_norm_of_mixed_gradients_is_not_rounded() -> None:
    parts = [torch.randn(1000).to(torch.bfloat16), torch.randn(10, 10)]
    expected = torch.cat([part.flatten().double() for part in parts]).norm()
    assert float(SINGLE_PROCESS.norm(parts, [1, 1])) == pytest.approx(float(expected), rel=1e-5)


def test_what_cannot_be_fused_is_said() -> None:
    model, objective = toys.Linear(), toys.Regression()
    plan = execution.choose(Train(device="cpu", fused_casts="on"), model, objective)
    assert not plan.fused_casts and "needs a GPU" in plan.reasons["fused_casts"]


def trained(device: str, update: str, optim: AdamW, **settings: Any) -> Trainer:
    """A few steps, with the plan forced to one kind of update."""
    torch.manual_seed(0)
    model, objective = MODEL.build(), NextTokenConfig().build()
    train = Train(**{"device": device, "steps": 5, "batch": 4, "precision": "bf16", "compile": "off", **settings})
    plan = dataclasses.replace(execution.choose(train, model, objective), update=update)
    ids = torch.randint(0, 300, (16, 9), generator=torch.Generator().manual_seed(1))
    data = TensorDataset({"ids": ids[:, :-1], "targets": ids[:, 1:]})
    trainer = Trainer(model, objective, DataLoader(data, 1, plan.device), train, optim, plan, (), 8)
    trainer.fit()
    return trainer


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", ["off", "on"])
def test_the_fused_update_is_that_of_pytorch(compiled: str) -> None:
    optim = AdamW(lr=1e-3, weight_decay=0.1, clip_norm=0.5)
    fused, apart = (trained("cuda", update, optim, compile=compiled) for update in ("fused", "apart"))
    assert fused.bf16_weights and all(torch.equal(w.to(torch.bfloat16), copy) for w, copy in fused.bf16_weights.copies.items())
    assert all(updater.checks_gradients for trainer in (fused, apart) for updater in trainer.updaters.values()), (
        "a few launches for all gradients"
    )
    close(fused, apart)


def close(fused: Trainer, apart: Trainer) -> None:
    """Changes of the weights; a bias of keys has no gradient but rounding, whose sign Adam follows."""
    torch.manual_seed(0)
    for name, start in MODEL.build().state_dict().items():
        one, other = (trainer.model.state_dict()[name].cpu() for trainer in (fused, apart))
        assert name.endswith("qkv.bias") or (one - other).norm() <= 0.2 * (other - start).norm(), name
    assert fused.state()[0].keys() == apart.state()[0].keys()
