"""A missing extra is answered with the command that is right for this copy of weft."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from weft.core import errors, installation
from weft.core.installation import DISTRIBUTION, install_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretends that an installer has put weft there, from an origin as PEP 610 records it."""
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())

    def install(installer: str, origin: dict[str, Any] | None = None) -> None:
        facts = tmp_path / f"{DISTRIBUTION.replace('-', '_')}-9.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 9\n")
        (facts / "INSTALLER").write_text(f"{installer}\n")
        if origin is not None:
            (facts / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_from_the_package_index(installed: Any) -> None:
    installed("pip")
    assert install_command("hf") == f"/env/bin/python -m pip install '{DISTRIBUTION}[hf]'"


def test_by_uv(installed: Any) -> None:
    installed("uv")
    assert install_command("hf") == f"uv pip install --python /env/bin/python '{DISTRIBUTION}[hf]'"


def test_uv_serves_an_environment_without_pip(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    installed("pip")
    assert install_command("hf").startswith("uv pip install --python /env/bin/python ")


@pytest.mark.parametrize("editable", [True, False])
def test_a_checkout_is_installed_again_with_its_constraints(installed: Any, tmp_path: Path, editable: bool) -> None:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    installed("pip", {"url": folder.as_uri(), "dir_info": {"editable": True} if editable else {}})
    flag = "-e " if editable else ""
    assert install_command("serve") == f"/env/bin/python -m pip install {flag}'{folder}[serve]'"
    (folder / "constraints.txt").write_text("torch==2.13.0\n")
    assert install_command("serve") == f"/env/bin/python -m pip install -c '{folder}/constraints.txt' {flag}'{folder}[serve]'"


def test_paths_below_the_current_folder_are_short(installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "constraints.txt").touch()
    installed("uv", {"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    assert install_command("hf") == "uv pip install --python .venv/bin/python -c constraints.txt -e '.[hf]'"


def test_a_folder_is_never_taken_for_a_name_on_the_index(installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weft").mkdir()
    installed("pip", {"url": (tmp_path / "weft").as_uri(), "dir_info": {}})
    monkeypatch.chdir(tmp_path)
    assert install_command("hf") == "/env/bin/python -m pip install './weft[hf]'"


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"url": "file:///tmp/w.whl", "archive_info": {}}, "file:///tmp/w.whl"),
        ({"url": "https://host/weft.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}, "git+https://host/weft.git@abc123"),
    ],
)
def test_a_wheel_or_a_repository_is_named_by_its_url(installed: Any, origin: dict[str, Any], said: str) -> None:
    installed("pip", origin)
    assert install_command("hf") == f"/env/bin/python -m pip install '{DISTRIBUTION}[hf] @ {said}'"


def test_a_source_tree_on_the_path_is_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    monkeypatch.chdir(ROOT)
    assert install_command("hf").endswith(" -c constraints.txt -e '.[hf]'")


def test_a_missing_package_is_one_sentence_with_that_command() -> None:
    with pytest.raises(errors.MissingExtra, match=re.escape(f"not_there is not installed; install it with: {install_command('hf')}")):
        errors.require("not_there.part", "hf")


def test_the_name_is_that_of_pyproject_and_documents_name_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == installation.DISTRIBUTION
    extras = set(project["optional-dependencies"])
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*pages, *(ROOT / "src").rglob("*.py")]:
        for name, extra in re.findall(r"(?:install\S* (?:-\S+ )*|\")'?([\w-]+)\[([\w,]+)\]", path.read_text(encoding="utf-8")):
            if name.startswith("weft"):
                assert name == DISTRIBUTION, path
                assert set(extra.split(",")) <= extras, path
        assert "pip install weft" not in path.read_text(encoding="utf-8").replace(f"pip install {DISTRIBUTION}", ""), path


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with an environment in .venv, from which this process is started."""
    root = tmp_path / "checkout"
    for program in (root / "weft", root / ".venv" / "bin" / "weft", root / ".venv" / "bin" / "python"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setattr(installation, "__file__", str(root / "src" / "weft" / "core" / "installation.py"))
    monkeypatch.setattr(sys, "executable", str(root / ".venv" / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    monkeypatch.setattr(sys, "argv", [str(root / ".venv" / "bin" / "weft")])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(root)
    return root


def test_commands_are_told_as_they_can_be_typed(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installation.command() == "./weft"
    monkeypatch.chdir(tmp_path)
    assert installation.command() == "checkout/weft"
    monkeypatch.setenv("PATH", f"{environment / '.venv' / 'bin'}:/usr/bin:/bin")  # activated
    assert installation.command() == "weft"


def test_another_weft_on_the_path_is_not_this_one(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "weft").write_text("#!/bin/sh\n")
    (other / "weft").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}:/usr/bin:/bin")
    assert installation.command() == "./weft"
    (other / "weft").unlink()
    (other / "weft").symlink_to(environment / ".venv" / "bin" / "weft")  # as pipx and uv tool install do
    assert installation.command() == "weft"


def test_without_a_launcher_the_script_or_the_module_is_named(environment: Path) -> None:
    (environment / "weft").unlink()
    assert installation.command() == ".venv/bin/weft"
    (environment / ".venv" / "bin" / "weft").unlink()
    assert installation.command() == ".venv/bin/python -m weft"


def test_the_launcher_runs_the_environment_or_says_how_to_make_it(tmp_path: Path) -> None:
    (tmp_path / "weft").write_bytes((ROOT / "weft").read_bytes())
    (tmp_path / "weft").chmod(0o755)
    done = subprocess.run([tmp_path / "weft", "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "make it with: make -C" in done.stderr
    script = tmp_path / ".venv" / "bin" / "weft"
    script.parent.mkdir(parents=True)
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o755)
    assert subprocess.run([tmp_path / "weft", "list", "a b"], capture_output=True, text=True, check=True).stdout == "list a b\n"


def test_make_run_installs_every_extra_that_is_asked_for_outside_of_measuring() -> None:
    """What `require` and the like ask for in what README and docs run; evaluation harnesses, sound, parquet and plots are named there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [standard] = extras["standard"]
    named = set(re.findall(r"\w+", standard.partition("[")[2]))
    assert "'.[standard]'" in (ROOT / "Makefile").read_text()
    asked = set()
    for path in (ROOT / "src" / "weft").rglob("*.py"):
        if "benchmarks" not in path.parts:
            asked |= set(re.findall(r"require\(\"[\w.]+\", \"(\w+)\"\)", path.read_text(encoding="utf-8")))
    assert asked - {"eval", "audio", "parquet", "plots"} <= named <= set(extras)


def test_what_documents_depend_on_is_this_distribution() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    lines = [
        line for path in pages for line in re.findall(r"^\s*dependencies\s*=\s*(.*)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    names = [name for line in lines for name in re.findall(r"[\"']([\w.-]+)", line)]
    assert DISTRIBUTION in names and "weft" not in names
