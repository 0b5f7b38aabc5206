"""The losses of weft and of nanoGPT from the same weights on the same batches: `weft bench training --losses 500`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch import Tensor

from weft.benchmarks.training import nanogpt
from weft.benchmarks.training.training import OPTIM, forget, make, model_of, variant
from weft.data.base import DataLoader
from weft.data.text.python_source import python_files
from weft.data.text.token_windows import TokenWindows
from weft.training.schedule import Schedule
from weft.training.settings import Train


def text(vocabulary: int) -> Tensor:
    """The standard library's source as its commonest words and marks; all rarer ones are one token."""
    words = re.findall(r"\w+|\s+|[^\w\s]", "\n".join(file.read_text(errors="replace") for file in python_files()))
    places = {word: place for place, (word, _) in enumerate(Counter(words).most_common(vocabulary - 1), 1)}
    return torch.tensor([places.get(word, 0) for word in words], dtype=torch.int32)


def curves(size: str, batch: int, steps: int, folder: str, words: str, device: torch.device) -> dict[str, Any]:
    """The losses of both from the same weights on the same batches of a text, without decay, as they decay other parameters.

    How far nanoGPT comes from itself, begun from weights that differ in the last bits, tells what rounding alone makes of it.
    """
    model = model_of(size)
    optim = dataclasses.replace(OPTIM, weight_decay=0.0, schedule=Schedule(warmup=min(100, steps // 5)))
    tokens = text(model.vocabulary)
    with variant(words) as settings:
        pieces = settings.pop("pieces", "")
        trainer = make(model, Train(steps=max(steps, 500), batch=batch, **settings), tokens, optim, pieces)
        twins = [nanogpt.build(folder, model, model.vocabulary) for _ in range(2)]
        for twin in twins:
            nanogpt.take_weights(twin, trainer.model)
        source = DataLoader(TokenWindows(tokens, model.context, overlapping=True), trainer.settings.seed, device)
        mine = []
        for _ in range(steps):
            trainer.means.clear()
            trainer.run_step()
            mine.append(trainer.means.read()["loss"])
    del trainer
    forget()
    with torch.no_grad():
        for parameter in twins[1].parameters():
            parameter.mul_(1 + 1e-6 * torch.randn_like(parameter))
    theirs, again = ([float(loss) for loss in nanogpt_losses(twin, optim, source, batch, steps, device)] for twin in twins)
    found = {"size": size, "batch": batch, "steps": steps, **distance(mine, theirs), "noise": distance(again, theirs)}
    print(json.dumps(found), flush=True)
    return found | {"weft": mine, "nanogpt": theirs, "nanogpt_again": again}


def nanogpt_losses(twin: Any, optim: Any, source: DataLoader, batch: int, steps: int, device: torch.device) -> Iterator[Tensor]:
    numbers, positions = count(), count(1)
    step = nanogpt.stepper(
        twin,
        optim,
        device,
        lambda: source.batch(next(numbers) * batch, batch),
        device.type == "cuda",
        lambda: optim.lr * optim.schedule.factor(next(positions), steps),
    )
    return (step() for _ in range(steps))


def distance(mine: list[float], theirs: list[float]) -> dict[str, Any]:
    """How far two curves are apart, as shares: at most, on average, and at the end."""
    apart = [abs(a - b) / b for a, b in zip(mine, theirs, strict=True)]
    tail = max(1, len(mine) // 10)
    ends = [sum(losses[-tail:]) / tail for losses in (mine, theirs)]
    return {
        "largest_apart": max(apart),
        "mean_apart": sum(apart) / len(apart),
        "last_tenth": ends,
        "last_tenth_apart": abs(ends[0] - ends[1]) / ends[1],
    }
