"""The files of a checkpoint as they were written: named by its manifest, with their sha256 and in the form of their kind."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from weft.core.errors import CheckpointError
from weft.core.untrusted import checked, natural, parse_json, parsing, read_bytes
from weft.training.checkpoint import tensors

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Of a file beside the manifest that names it."""
MANIFEST: dict[str, Any] = {"format": natural, "files": {str: str}}
OBJECTS = ("recipe.json", "metrics.json", "tokenizer.json", "training.json")
"""The JSON files of a checkpoint. Numbers that are not finite are written as Python does."""


def read_manifest(path: Path, newest: int) -> dict[str, Any]:
    """Format and files of a checkpoint, refused unless it is as it was written. Anybody can sign: what it says is checked nevertheless."""
    try:
        written = read_bytes(path / "manifest.json")
    except OSError as error:
        raise CheckpointError(f"{path}: manifest.json cannot be read ({error.strerror})") from error
    with parsing(f"{path}: manifest.json", CheckpointError):
        manifest: dict[str, Any] = checked(parse_json(written), {**MANIFEST, "sha256": str})
        exact = written == (json.dumps(manifest, indent=2) + "\n").encode()
        claimed = manifest.pop("sha256")
        if not exact or hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest() != claimed:
            raise CheckpointError(f"{path}: manifest.json is damaged")
        if odd := next((name for name in manifest["files"] if not NAME.fullmatch(name)), None):
            raise CheckpointError(f"{path}: manifest.json names {odd[:100]!r}, which is no file of a checkpoint")
    if manifest["format"] > newest:
        raise CheckpointError(f"{path}: written by a newer weft (format {manifest['format']}); this one reads up to {newest}")
    return manifest


def read_file(path: Path, name: str, expected: str) -> Any:
    """The content of a file of a checkpoint, if it has the sha256 that is expected and the form of its kind."""
    try:
        data = tensors.mapped(path / name) if name.endswith(".safetensors") else read_bytes(path / name)
    except OSError as error:
        raise CheckpointError(f"{path}: {name} cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise CheckpointError(f"{path}: {name} is damaged (its sha256 differs from the manifest)")
    with parsing(f"{path}: {name}", CheckpointError):
        if name.endswith(".safetensors"):
            tensors.header(data)
        elif name in OBJECTS:
            checked(parse_json(data, finite=False), dict)
    return data
