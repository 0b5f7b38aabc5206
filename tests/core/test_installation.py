"""A missing extra is answered with the command that is right for this copy of weft."""

from __future__ import annotations

import importlib.util
import json
import re
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


def test_what_documents_depend_on_is_this_distribution() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    lines = [
        line for path in pages for line in re.findall(r"^\s*dependencies\s*=\s*(.*)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    names = [name for line in lines for name in re.findall(r"[\"']([\w.-]+)", line)]
    assert DISTRIBUTION in names and "weft" not in names
