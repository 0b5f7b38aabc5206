"""The guide docs/add-a-family.md, done: its files make a package, which is registered, trained, continued and evaluated."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import weft
from tests.contracts import test_models, test_recipes, tiny
from weft.__main__ import dispatch
from weft.core import registry

GUIDE = Path(__file__).parent.parent / "docs" / "add-a-family.md"
FILE = re.compile(r"^`([\w/.-]+\.(?:py|toml))`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """Code blocks that belong to no file."""
    rest = FILE.sub("", GUIDE.read_text(encoding="utf-8"))
    return re.findall(rf"^```{language}\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)


def install(site: Path) -> None:
    """What `pip install` does with the guide's package: its files on the path, its entry points beside them."""
    for name, content in FILE.findall(GUIDE.read_text(encoding="utf-8")):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content, encoding="utf-8")
    project = tomllib.loads((site / "pyproject.toml").read_text())["project"]
    facts = site / f"{project['name']}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = ["[weft.families]", *(f"{name} = {target}" for name, target in project["entry-points"]["weft.families"].items())]
    (facts / "entry_points.txt").write_text("\n".join(points) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the guide, installed for one test."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    registry.load_families.cache_clear()
    yield folder
    registry.load_families.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mixture", "test_mixture")]:
        del sys.modules[name]


def test_the_guide_shows_every_file_it_lists(site: Path) -> None:
    tree = GUIDE.read_text(encoding="utf-8").split("```")[1]
    listed = set(re.findall(r"\b(\w+\.(?:py|toml))\b", tree))
    assert listed == {path.name for path in site.rglob("*") if path.suffix in (".py", ".toml")} - {"test_mixture.py"}


def test_the_family_trains_continues_and_evaluates(site: Path, tmp_path: Path) -> None:
    small = {"train.steps": 60, "train.eval_every": 20, "train.save_every": 30, "data.examples": 400}
    recipe = weft.recipe("mixture/ring", small)
    before = weft.train(weft.recipe("mixture/ring", small | {"train.steps": 20}), out=tmp_path / "run")
    first = before.validation.best  # type: ignore[union-attr]
    after = weft.train(recipe, out=tmp_path / "run")
    assert after.trainer.step == 60
    assert after.validation.best < first  # type: ignore[union-attr, operator]
    model = weft.load(tmp_path / "run")
    assert model.recipe.model.features == 2  # type: ignore[attr-defined]
    assert weft.evaluate(model)["loss"] == pytest.approx(after.validation.best, rel=1e-4)  # type: ignore[union-attr]
    samples = importlib.import_module("weft.visual.grids").draw(model.model, 500)
    assert 0.7 < float(samples.norm(dim=1).mean()) < 1.3


@pytest.mark.parametrize("name", ["test_a_continued_run_is_the_same_run", "test_cutting_a_batch_does_not_change_the_gradient"])
def test_the_checks_of_the_guide_pass(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(str(site / "tests"))
    getattr(importlib.import_module("test_mixture"), name)(tmp_path)


def contracts() -> list[Callable[..., None]]:
    """The contracts that every recipe, or every model, has to keep; that of bad settings is for some of weft's own."""
    own = test_recipes.test_a_setting_that_cannot_work_is_refused_in_one_sentence
    tests = [test for module in (test_recipes, test_models) for name, test in vars(module).items() if name.startswith("test_")]
    tests = [test for test in tests if test is not own]
    given = {"name", "tmp_path", "device", "micro", "monkeypatch"}
    return [test for test in tests if "name" in (asked := set(inspect.signature(test).parameters)) and asked <= given]


def test_there_are_contracts() -> None:
    assert len(contracts()) >= 15


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract.__name__)
def test_the_family_of_another_package_keeps_every_contract(
    site: Path, contract: Callable[..., None], tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.load_families()
    monkeypatch.setattr(test_recipes, "NO_MATMULS", {"mixture/ring"})
    monkeypatch.setitem(tiny.SHRINK, "mixture/ring", lambda folder: {"data.examples": 64})
    monkeypatch.setitem(test_models.FORWARD, "mixture", lambda model, batch: model(batch["point"]))
    monkeypatch.setitem(test_models.SHAPES, "mixture", lambda config, batch: (test_models.BATCH,))
    name = "mixture/ring" if contract.__module__ == test_recipes.__name__ else "mixture"
    given = {"name": name, "tmp_path": tmp_path, "device": device, "micro": 5, "monkeypatch": monkeypatch}
    contract(**{key: given[key] for key in inspect.signature(contract).parameters})


def test_the_script_of_the_guide_runs(site: Path, tmp_path: Path) -> None:
    (script,) = blocks("python")
    faster = script.replace('{"model.components": 8}', '{"model.components": 8, "train.steps": 5}')
    assert faster != script
    exec(compile(faster, "guide", "exec"), {})
    assert (tmp_path / "runs" / "ring" / "recipe.json").exists()


def test_the_commands_of_the_guide_run(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert [command.split()[:2] for command in commands] == [["weft", "list"], ["weft", "train"], ["weft", "evaluate"]]
    for command in commands:
        words = command.replace("--train.steps 300", "--train.steps 20").split()[1:]
        assert dispatch(words) == 0
        assert "mixture" in "".join(capsys.readouterr())
    assert list((tmp_path / "runs" / "mixture-ring" / "checkpoints").iterdir())
