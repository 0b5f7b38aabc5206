"""Measured results as JSON files that say how they came about."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

import torch

from weft.runs.environment import machine


def write_record(path: str | Path, name: str, command: str, content: dict[str, Any]) -> None:
    """Write a result with its command, hardware, versions and date."""
    record = {
        "name": name,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "hardware": machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        **content,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(record, indent=2) + "\n")
