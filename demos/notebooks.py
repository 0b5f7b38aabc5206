"""The notebooks of examples/ are executed from the first cell to the last, each in a folder of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LIMIT = 240
"""Seconds that a cell may take; a whole notebook takes less than sixty on two idle cores."""


def check(only: str, folder: Path) -> int:
    """Execute those whose name contains `only`, say how it went, and count those that failed."""
    failed = 0
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        if only in f"examples/{path.name}":
            failed += not execute(path, folder / path.stem)
    return failed


def execute(path: Path, folder: Path, write: bool = False) -> bool:
    """Whether every cell runs; with what it shows written back where that is wanted."""
    folder.mkdir(parents=True)
    book = nbformat.read(path, as_version=4)
    begin = time.perf_counter()
    said = ""
    try:
        NotebookClient(book, timeout=LIMIT, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    except (CellExecutionError, TimeoutError) as error:
        said = f"\n{error}"
    if write and not said:
        for cell in book.cells:
            cell.metadata.pop("execution", None)  # when it ran
        nbformat.write(book, path)
    shown = os.path.relpath(path, EXAMPLES.parent)
    print(f"{'FAILED' if said else 'ok':6} {shown:35} {time.perf_counter() - begin:.0f} s{said}", flush=True)
    return not said
