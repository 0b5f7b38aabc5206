"""Several processes on one machine: forked, joined through a file, their results brought back."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist


def together(size: int, folder: Path, function: Callable[..., Any], *given: Any) -> list[Any]:
    """What `function(*given)` returns in each of several processes."""
    if torch.cuda.is_available():  # autograd's threads and CUDA's do not survive a fork
        pytest.skip("processes are forked, which CUDA forbids: run tests/parallel with CUDA_VISIBLE_DEVICES=")
    folder.mkdir(exist_ok=True)
    place = folder / f"meeting-{len(list(folder.iterdir()))}"
    place.mkdir()
    children = [multiprocessing.get_context("fork").Process(target=work, args=(rank, size, place, function, given)) for rank in range(size)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        if child.is_alive():
            child.kill()
    results = [pickle.loads((place / f"{rank}").read_bytes()) if (place / f"{rank}").exists() else "died" for rank in range(size)]
    errors = [f"process {rank}: {result}" for rank, result in enumerate(results) if isinstance(result, str)]
    assert not errors, "\n".join(errors)
    return [result[0] for result in results]


def work(rank: int, size: int, place: Path, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    try:
        store = dist.FileStore(str(place / "store"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=30))
        result: Any = (function(*given),)
    except BaseException:
        result = traceback.format_exc()
    (place / f"{rank}").write_bytes(pickle.dumps(result))
