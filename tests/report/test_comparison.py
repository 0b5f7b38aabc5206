"""Several runs: a unit never shares a panel with another, and seeds of one recipe are one curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.report.comparison import comparison_page, groups, panels
from weft.runs.record import RunLog
from weft.runs.units import axis


def run(name: str, objective: str, data: dict[str, Any], seed: int = 0, loss: float = 1.0, lr: float = 0.1) -> RunLog:
    recipe = {
        "name": name,
        "model": {"type": "mlp"},
        "objective": {"type": objective},
        "optim": {"lr": lr},
        "train": {"steps": 4, "seed": seed},
        "progress": {"metric": "loss", "goal": "min"},
    }
    numbers = {"loss": loss, "per_second": 1000.0, "lr": lr}
    lines = [{"step": step, "train": numbers, "validation": {"loss": loss}, "seconds": 1.0} for step in (2, 4)]
    return RunLog(Path(f"runs/{name.replace('/', '-')}-{seed}-{lr}"), recipe, lines, {"data": data}, {})


TEXT = run("gpt/text", "next_token", {"tokens": 64})
IMAGE = run("vae/digits", "elbo", {"image": [1, 8, 8]}, loss=50.0)
GAN = run("gan/digits", "adversarial", {"image": [1, 8, 8]})


def test_units_never_mix_in_a_panel() -> None:
    runs = [TEXT, IMAGE, GAN]
    shown = panels(groups(runs))
    by_label = {group.label: group.runs[0] for group in groups(runs)}
    for panel in shown:
        names = [name for name in ("loss", "per_second", "lr") if axis(by_label[panel.curves[0].label], name) == panel.up]
        assert {axis(by_label[curve.label], names[0]) for curve in panel.curves} == {panel.up}
    assert {"loss (nats per token)", "loss (nats per image)", "loss", "rate (tokens/s)", "rate (examples/s)"} <= {p.up for p in shown}
    [rate] = [panel for panel in shown if panel.up == "rate (examples/s)"]
    assert len(rate.curves) == 2, "what is counted in the same does share a panel"


def test_seeds_of_a_recipe_are_one_curve_with_its_spread() -> None:
    runs = [run("a/b", "next_token", {"tokens": 8}, seed=seed, loss=loss) for seed, loss in ((1, 1.0), (2, 2.0), (3, 3.0))]
    [group] = groups(runs)
    curve = group.curve("validation", "loss")
    assert curve.label == "a/b: mean ± s.d. of n = 3 seeds"
    assert curve.points == [(2, 2.0), (4, 2.0)]
    assert list(curve.band) == [(2, 1.0, 3.0), (4, 1.0, 3.0)]
    page = comparison_page(runs)
    assert "n = 3" in page
    assert "loss 2.0000 ± 1.0000 (s.d.), 95 % of the mean -0.4841 to 4.4841" in page
    assert "What differs" not in page


def test_other_settings_are_other_curves() -> None:
    runs = [run("a/b", "next_token", {}, seed=seed, lr=lr) for lr in (0.1, 0.2) for seed in (1, 2)]
    found = groups(runs)
    assert [len(group.runs) for group in found] == [2, 2]
    assert len({group.label for group in found}) == 2
    assert "optim.lr" in comparison_page(runs)


def test_the_same_seed_twice_is_no_spread() -> None:
    runs = [run("a/b", "next_token", {}, seed=1), run("a/b", "next_token", {}, seed=1)]
    runs[1].folder = Path("runs/copy")
    assert [(group.label, len(group.runs)) for group in groups(runs)] == [("a-b-1-0.1", 1), ("copy", 1)]
