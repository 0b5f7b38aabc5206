"""How this copy of weft was installed, and the command that adds what it lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

DISTRIBUTION = "weft-torch"
"""The name on the package index; `weft` there is another project."""


def command() -> str:
    """How `weft` is typed here: by its name where the shell finds this copy, else by the path of a launcher or of the script."""
    script, found = Path(sys.executable).parent / "weft", shutil.which("weft")
    if found and os.path.realpath(found) in {os.path.realpath(own) for own in (script, sys.argv[0] or script)}:
        return "weft"
    root = Path(__file__).resolve().parents[3]
    if (root / "weft").is_file() and Path(sys.prefix).resolve() == root / ".venv":
        return typed(root / "weft")
    return typed(script) if script.is_file() else f"{typed(Path(sys.executable))} -m weft"


def typed(program: Path) -> str:
    """A program as a shell starts it: one in the current folder needs ./ in front."""
    shown = near(program)
    return quoted(shown if os.sep in shown else os.path.join(".", shown))


def install_command(extra: str) -> str:
    """The command that installs an optional part, with the installer and the source that this copy came from."""
    installer, origin = recorded()
    return f"{installer_command(installer)} {requirement(extra, origin)}"


def recorded() -> tuple[str, dict[str, Any]]:
    """The installer and the origin (PEP 610) of the installed distribution; a source tree on the path counts as an editable checkout."""
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "", from_source()
    installer, origin = found.read_text("INSTALLER"), found.read_text("direct_url.json")
    if installer is None:  # an .egg-info beside the source
        return "", from_source()
    return installer.strip(), json.loads(origin) if origin else {}


def from_source() -> dict[str, Any]:
    root = Path(__file__).resolve().parents[3]
    return {"url": root.as_uri(), "dir_info": {"editable": True}} if (root / "pyproject.toml").is_file() else {}


def installer_command(installer: str) -> str:
    """pip of the running Python; uv where it installed this copy, or where the environment has no pip."""
    if installer == "uv" or importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {quoted(near(Path(sys.executable)))}"
    return f"{quoted(near(Path(sys.executable)))} -m pip install"


def requirement(extra: str, origin: dict[str, Any]) -> str:
    """What to install: a folder as it was installed, an archive or a repository by its URL, else the name on the package index."""
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        folder = Path(url2pathname(urlparse(url).path))
        constraints = f"-c {quoted(near(folder / 'constraints.txt'))} " if (folder / "constraints.txt").is_file() else ""
        editable = "-e " if origin["dir_info"].get("editable") else ""
        shown = near(folder)
        if shown != "." and not Path(shown).is_absolute():
            shown = os.path.join(".", shown)  # else the name of a folder is one on the package index
        return f"{constraints}{editable}{quoted(f'{shown}[{extra}]')}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    if url:
        return quoted(f"{DISTRIBUTION}[{extra}] @ {url}")
    return quoted(f"{DISTRIBUTION}[{extra}]")


def near(path: Path) -> str:
    """A path as one types it from the current folder, where it lies below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current folder is gone
        return str(path)


def quoted(word: str) -> str:
    return subprocess.list2cmdline([word]) if os.name == "nt" else shlex.quote(word)
