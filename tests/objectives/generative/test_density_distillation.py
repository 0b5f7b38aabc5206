from __future__ import annotations

import torch
from torch import Tensor

from weft.core import random
from weft.models.generative.distilled import Distilled, DistilledConfig
from weft.models.generative.iaf import IAFConfig
from weft.models.generative.maf import MAFConfig
from weft.objectives.generative.density_distillation import DensityDistillationConfig

CONFIG = DistilledConfig(features=2, teacher=MAFConfig(layers=2, hidden=(16,)), student=IAFConfig(layers=2, hidden=(32,)))


def bend(seed: int, size: int) -> dict[str, Tensor]:
    """Points near a parabola."""
    key = random.keys(seed, torch.arange(size))
    z = random.normal(key, 2)
    return {"point": torch.stack([z[:, 0], z[:, 0] ** 2 / 2 + 0.3 * z[:, 1] - 1], dim=1), "key": key}


def learn(model: Distilled, turn: str, steps: int) -> list[float]:
    """The turn's loss per example, step by step."""
    objective = DensityDistillationConfig().build()
    module = getattr(model, turn)
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = objective(model, bend(step + 1, 128), turn).sums["loss"] / 128
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_a_student_learns_a_teacher_without_data() -> None:
    torch.manual_seed(0)
    model = CONFIG.build()
    learn(model, "teacher", 150)
    known = [p.clone() for p in model.teacher.parameters()]
    losses = learn(model, "student", 200)
    assert all(torch.equal(a, b) for a, b in zip(known, model.teacher.parameters(), strict=True))
    early, late = sum(losses[:20]) / 20, sum(losses[-20:]) / 20
    assert late < 0.5 * early
    assert late > -0.05, "a divergence is never below 0, but for the noise of its estimate"
    with torch.no_grad():
        likeness = -model.log_prob(model.sample(random.keys(5, torch.arange(2000)))).mean()
        own = -model.log_prob(bend(6, 2000)["point"]).mean()
    assert abs(float(likeness - own)) < 0.3, "the student's draws are about as likely as the data"


def test_the_student_draws_in_one_pass() -> None:
    model, passes = CONFIG.build(), []
    for module in model.modules():
        if type(module).__name__ == "MADE":
            module.register_forward_hook(lambda *_: passes.append(1))
    model.sample(torch.arange(3))
    assert len(passes) == 2, "one for each layer"


def test_each_turn_reports_what_it_means() -> None:
    objective, model, batch = DensityDistillationConfig().build(), CONFIG.build(), bend(0, 8)
    means = {f"{turn}_loss": objective(model, batch, turn).sums["loss"].detach() / 8 for turn in ("teacher", "student")}
    means["teacher_covered"] = objective.measure(model, batch)["covered"] / 8
    found = objective.summary(means)
    assert set(found) == {"loss", "teacher_nats", "kl", "covered"}
    assert found["loss"] == found["teacher_nats"] + found["kl"]
    assert found["covered"] == 1.0  # both are standard normals still
    assert abs(found["kl"]) < 1e-6
