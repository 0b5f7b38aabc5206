"""What a run has cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import weft
from tests.contracts.tiny import tiny
from weft.api import fit
from weft.nn.attention import explicit_attention
from weft.planning import cost, devices
from weft.planning.cost import COUNTED, Machine, flops_of_draw
from weft.recipes.base import Recipe
from weft.runs.assemble import assemble
from weft.runs.record import read
from weft.training.log import Log


def spent(recipe: Recipe) -> tuple[float, Recipe]:
    """FLOPs of a draw, and the recipe with what its data told."""
    data = recipe.data.build()
    resolved = recipe.resolve(data.info)
    return flops_of_draw(resolved, data, resolved.objective.build()), resolved


def test_a_gpt_costs_what_the_usual_estimate_says() -> None:
    found, resolved = spent(weft.recipe("gpt/quickstart"))
    model = resolved.model
    size = sum(p.numel() for p in model.build().parameters())
    estimate = 6 * size + 12 * model.layers * model.width * model.context  # type: ignore[attr-defined]
    assert found == pytest.approx(estimate * model.context, rel=0.02)  # type: ignore[attr-defined]


def test_a_draw_has_its_part_of_a_step() -> None:
    """Each turn of the critic draws examples of its own, and a step is the FLOPs of all turns."""
    found, resolved = spent(weft.recipe("wgan_gp/ring"))
    batches = sum(turn.fresh for turn in resolved.objective.build().turns)
    assert batches == 5
    assert found == COUNTED[next(reversed(COUNTED))] / batches


def test_an_example_that_is_a_batch_of_pairs_costs_what_all_its_rows_cost(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{'ab ' * (n % 9 + 1)}\t{'cd ' * (n % 7 + 1)}\n" for n in range(200)))
    data = {"data.path": str(path), "data.tokenizer": "characters", "data.batch_tokens": 200, "data.validation": 0.0}
    sizes = {"model.layers": 2, "model.width": 32, "model.heads": 2, "model.ffn_width": 64}
    recipe = weft.recipe("transformer/pairs", {**data, **sizes, "train.batch": 1, "train.eval_every": 0})
    found, resolved = spent(recipe)
    model, objective, train = resolved.model.build(), resolved.objective.build(), recipe.data.build().train
    for module in model.modules():
        if hasattr(module, "attention_fn"):
            setattr(module, "attention_fn", explicit_attention)  # noqa: B010 -- whose products PyTorch counts
    with FlopCounterMode(display=False) as counter:
        for example in range(len(train)):
            batch = train.batch(torch.tensor([example]), torch.zeros(1, dtype=torch.int64))
            objective(model, batch, "").sums["loss"].backward()
    assert len(train.shapes()) > 1
    assert found == pytest.approx(counter.get_total_flops() / len(train), rel=0.05)


def test_what_cannot_be_counted_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(recipe: Recipe, data: object) -> float:
        raise RuntimeError

    monkeypatch.setattr(cost, "flops_of_example", fails)
    assert spent(weft.recipe("wgan_gp/ring"))[0] == 0.0


def test_a_finished_run_tells_its_cost_and_a_continued_one_that_of_the_whole(tmp_path: Path) -> None:
    made = tiny("gpt/text", tmp_path, {"train.steps": 6})
    weft.train(made, out=tmp_path / "whole")
    weft.train(tiny("gpt/text", tmp_path, {"train.steps": 3}), out=tmp_path / "parts")
    weft.train(made, out=tmp_path / "parts")
    whole, parts = (json.loads((tmp_path / name / "cost.json").read_text()) for name in ("whole", "parts"))
    assert whole["flops"] == parts["flops"] == whole["flops_per_example"] * 6 * made.train.batch > 0
    assert whole["kwh"] == pytest.approx(whole["seconds"] / 3600 * whole["watts"] / 1000 * devices.PUE)
    assert 0 < whole["mfu"] < 1.5, "of what was measured beside other work"
    page = (tmp_path / "whole" / "report.html").read_text()
    assert "kWh" in page and "MFU" in page
    assert read(tmp_path / "whole").cost == whole


def test_words_tell_compute_and_energy() -> None:
    machine = Machine(989e12, True, 1000.0)
    found = cost.facts(flops=1e12, draws=3600, rate=494.5, seconds=3600.0, machine=machine, processes=1)
    assert cost.lines(found) == [
        "compute: 3.6e+15 FLOP, 494 TFLOP/s, MFU 50.0 % of 989 TFLOP/s, the maker's figure",
        "energy: about 1.2 kWh, 0.48 kg CO2 (1,000 W for 1:00:00, PUE 1.2, 0.4 kg CO2 per kWh)",
    ]
    assert cost.lines({}) == []
    unknown = cost.facts(flops=0.0, draws=1, rate=1.0, seconds=1.0, machine=machine, processes=1)
    assert cost.lines(unknown)[0].startswith("compute: no matrix products")


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 PCIe", 0.0),
        ("NVIDIA L4", 0.0),
    ],
)
def test_gpus_are_known_by_their_names(name: str, peak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    known = cost.promised(torch.device("cuda"))
    assert (known.peak if known else 0.0) == peak


def test_the_share_of_the_peak_is_logged_where_the_device_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "promised", lambda device: devices.DEVICES["cpu"])
    made = assemble(tiny("gpt/text", tmp_path, {"train.steps": 2}), tmp_path / "run")
    fit(made)
    log = next(hook for hook in made.trainer.hooks if isinstance(hook, Log))
    flops = json.loads((tmp_path / "run" / "cost.json").read_text())["flops_per_example"]
    assert log.latest["mfu"] == pytest.approx(log.latest["per_second"] / made.trainer.tokens * flops / devices.DEVICES["cpu"].peak)
