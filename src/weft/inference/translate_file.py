"""A text answered line by line into another, in pieces that survive an interruption.

What is done so far stands in TARGET.part, under a first line that says of what it is made; the same call continues there. The
target itself appears whole, by one rename. So a trained translator's answers to the training sources become the targets of
another model (sequence-level distillation, Kim & Rush, 2016, arXiv:1606.07947).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weft.core.errors import ConfigError

CHUNK = 1024
"""Lines answered before they are written."""


def fingerprint(model: nn.Module) -> str:
    """A digest of a model's weights, by which a continued text is known to come from the same model."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def answer_lines(
    reply: Callable[[Sequence[str]], list[str]],
    lines: Sequence[str],
    target: Path,
    about: dict[str, Any],
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write the reply to each line into target, gzipped where its name ends in .gz; a blank line stays blank.

    about: what the replies depend on, such as the fingerprint of the model and the settings. progress: called with the lines done.
    """
    part = target.with_name(f"{target.name}.part")
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    opening = json.dumps({**about, "lines": len(lines), "sha256": digest}, ensure_ascii=False)
    done = begun(part, opening)
    with part.open("ab") as file:
        if not file.tell():
            file.write(f"{opening}\n".encode())
        for first in range(done, len(lines), CHUNK):
            progress(first)
            file.write("".join(f"{said}\n" for said in replies(reply, lines[first : first + CHUNK])).encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
    progress(len(lines))
    content = part.read_bytes().split(b"\n", 1)[1]
    whole = target.with_name(f".tmp-{target.name}-{os.getpid()}")
    whole.write_bytes(gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)
    os.replace(whole, target)
    part.unlink()


def replies(reply: Callable[[Sequence[str]], list[str]], lines: Sequence[str]) -> list[str]:
    """One line for each line."""
    filled_lines = [number for number, line in enumerate(lines) if line.strip()]
    said = [""] * len(lines)
    for number, text in zip(filled_lines, reply([lines[number] for number in filled_lines]), strict=True):
        said[number] = " ".join(text.splitlines())
    return said


def begun(part: Path, opening: str) -> int:
    """How many lines an interrupted call has written; what it wrote of a line that is not whole is cut off."""
    if not part.exists():
        return 0
    content = part.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    head, _, rest = whole.partition(b"\n")
    if head and head != opening.encode():
        raise ConfigError(f"{part}: was begun with another model, input or settings; delete it, or use another --out")
    if len(whole) < len(content):
        os.truncate(part, len(whole))
    return rest.count(b"\n")
