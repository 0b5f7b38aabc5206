"""Imports point one way, read from the source; and the package needs none of its optional dependencies to be imported."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import weft

ROOT = Path(weft.__file__).parent
ORDER = (
    ("core",),
    ("metrics", "sampling", "data", "results"),
    ("nn",),
    ("kernels",),
    ("models",),
    ("inference", "visual"),
    ("objectives",),
    ("training",),
    ("recipes",),
    ("planning",),
    ("runs",),
    ("convert", "evaluation", "serving", "report"),
    ("api",),
    ("sweeps",),
    ("studies", "benchmarks"),
    ("projects",),
    ("cli",),
    ("__main__", ""),
)
"""The rooms, the lowest first: each imports only what stands before it. Rooms of one line do not import one another."""
FORBIDDEN: dict[str, set[str]] = {
    "data": {"metrics", "sampling"},
    "kernels": {"data", "metrics", "sampling"},
    "nn": {"data", "metrics", "sampling"},
    "models": {"data", "kernels", "metrics"},
    "training": {"models", "inference", "visual", "nn", "sampling"},
    "serving": {"training", "objectives", "recipes", "planning"},
}
"""What a room does without, though it stands before it: a model computes no loss, and the trainer imports no model."""
ONLY: dict[tuple[str, str], set[str]] = {
    ("training", "objectives"): {"objectives.base"},
    ("training", "data"): {"data.base"},
    ("objectives", "data"): {"data.base"},
    ("objectives", "models"): {"models.base"},
    ("inference", "models"): {"models.base"},
    ("visual", "models"): {"models.base"},
    ("evaluation", "runs"): {"runs.load"},
    ("serving", "runs"): {"runs.load"},
    ("report", "runs"): {"runs.load", "runs.record", "runs.units"},
}
"""Of some rooms only these modules are imported by others."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Modules of weft that a file imports, without the leading "weft."; a name imported from a package is the module if it is one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                found.add(whole if whole.removeprefix("weft.") in MODULES else module)
    return {name.removeprefix("weft.") for name in found if name.startswith("weft.")}


def below(name: str, part: str) -> bool:
    return name == part or name.startswith(part + ".")


LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}


def room(module: str) -> str:
    return module.partition(".")[0]


def test_every_module_stands_in_a_room() -> None:
    assert {room(module) for module in MODULES} == set(LEVEL)


@pytest.mark.parametrize("name", LEVEL)
def test_imports_point_one_way_between_rooms(name: str) -> None:
    wrong = []
    for module, path in MODULES.items():
        for imported in imports(path) if room(module) == name else ():
            other = room(imported)
            allowed = other == name or (LEVEL[other] < LEVEL[name] and other not in FORBIDDEN.get(name, ()))
            only = ONLY.get((name, other))
            if not allowed or (only and imported not in only):
                wrong.append(f"{module} imports {imported}")
    assert not wrong


def test_no_room_is_a_drawer() -> None:
    """A folder of more than about 25 files has no name that says what is in it."""
    folders = [path for path in (ROOT, *ROOT.rglob("*")) if path.is_dir() and path.name != "__pycache__"]
    flat = {str(path.relative_to(ROOT)): len([*path.glob("*.*")]) for path in folders}
    flat.pop("records", None)  # results, a file each
    assert not {name: count for name, count in flat.items() if count > 26}


def test_the_test_sees_imports() -> None:
    assert {"models.language.gpt", "training.optimizer.settings"} <= imports(MODULES["recipes.language.gpt"])
    assert "core.random" in imports(MODULES["data.base"])
    assert "training.checkpoint.checkpoint" in imports(MODULES["training.checkpoint.hook"])


@pytest.mark.parametrize("leaf", ["recipes", "cli", "studies", "benchmarks", "projects"])
def test_nobody_imports_a_leaf(leaf: str) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if not below(module, leaf) and not module.startswith(("__main__", "cli", "projects"))  # a project brings a command and a benchmark
        for name in imports(path)
        if below(name, leaf) and name != "recipes.base"  # what a recipe is, as data.base says what data are
    ]
    assert not wrong


def test_there_is_no_cycle() -> None:
    """Imports under TYPE_CHECKING, or inside a function, are no cycles at run time."""
    graph = {module: at_the_top(path) for module, path in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for name in graph.get(module, set()):
                visit(name, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def at_the_top(path: Path, *packages: str) -> set[str]:
    """Modules of weft, or of other packages, that a file imports as soon as it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    found = set()
    for node in tree.body:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        names = [alias.name for alias in node.names]  # type: ignore[attr-defined]
        whole = [f"{module}.{name}" if module else name for name in names]
        found |= {name if not module or name.removeprefix("weft.") in MODULES else module for name in whole}
    if packages:
        return {name for name in found if name.partition(".")[0] in packages}
    return {name.removeprefix("weft.") for name in found if name.startswith("weft.")}


def test_the_trainer_stays_small() -> None:
    assert len(MODULES["training.trainer"].read_text().splitlines()) <= 250


def test_there_are_no_drawers() -> None:
    assert not {name.rpartition(".")[2] for name in MODULES} & {"utils", "common", "helpers", "misc"}


HIDDEN = ("rich", "tensorboard", "fastapi", "pydantic", "uvicorn", "sklearn", "PIL", "soundfile", "matplotlib", "transformers")
PROGRAM = """
import importlib
from importlib.machinery import PathFinder

find = PathFinder.find_spec


@staticmethod
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {hidden!r} else find(name, path, target)


PathFinder.find_spec = find_spec
for name in {names!r}:
    importlib.import_module(name)
print("done")
"""


def test_everything_but_the_command_line_imports_without_extras() -> None:
    """Modules made for a package (a Triton kernel, TensorBoard's format) are imported where that package is found, and nowhere else."""
    made_for = {module for module, path in MODULES.items() if at_the_top(path, "triton", "tensorboard")}
    skipped = {"cli", "serving", "__main__", *made_for}
    names = ["weft" if not module else f"weft.{module}" for module in MODULES if not any(below(module, part) for part in skipped)]
    assert len(names) > 40
    program = PROGRAM.format(hidden=set(HIDDEN), names=names)
    out = subprocess.run([sys.executable, "-W", "error::SyntaxWarning", "-c", program], capture_output=True, text=True)
    assert out.stdout == "done\n", out.stderr


def test_what_is_no_module_goes_into_the_wheel() -> None:
    package_data = tomllib.loads((ROOT.parent.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["weft"]
    others = {path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others <= {path for pattern in package_data for path in ROOT.glob(pattern)}


GAN = """
import sys
from weft.__main__ import dispatch

assert dispatch(["train", "gan/digits", "--train.steps", "2", "--train.device", "cpu", "--out", sys.argv[1]]) == 0
print(*(name for name in sys.modules if name.startswith("weft.")))
"""


def test_training_a_gan_imports_no_transformer(tmp_path: Path) -> None:
    out = subprocess.run([sys.executable, "-c", GAN, str(tmp_path / "run")], capture_output=True, text=True, check=True)
    loaded = out.stdout.splitlines()[-1].split()
    assert "weft.models.generative.gan" in loaded
    assert not [name for name in loaded if name.startswith(("weft.inference", "weft.kernels.select", "weft.nn.attention", "weft.nn.block"))]
    assert not {
        "weft.models.language.gpt",
        "weft.models.language.decoder",
        "weft.models.language.transformer",
        "weft.models.vision.vit",
    } & {*loaded}
