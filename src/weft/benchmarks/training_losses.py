"""The losses of weft and of nanoGPT from the same weights on the same batches: `weft bench training --losses 500`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from itertools import count
from typing import Any

import torch
from torch import Tensor

from weft.benchmarks import nanogpt
from weft.benchmarks.training import OPTIM, forget, make, model_of, variant
from weft.data.base import Source
from weft.data.corpus import python_files
from weft.data.text import TokenWindows
from weft.training.schedule import Schedule
from weft.training.settings import Train


def text(vocabulary: int) -> Tensor:
    """The standard library's source as its commonest words and marks; all rarer ones are one token."""
    words = re.findall(r"\w+|\s+|[^\w\s]", "\n".join(file.read_text(errors="replace") for file in python_files()))
    places = {word: place for place, (word, _) in enumerate(Counter(words).most_common(vocabulary - 1), 1)}
    return torch.tensor([places.get(word, 0) for word in words], dtype=torch.int32)


def curves(size: str, batch: int, steps: int, folder: str, words: str, device: torch.device) -> dict[str, Any]:
    """The losses of both from the same weights on the same batches of a text, without decay, as they decay other parameters."""
    model = model_of(size)
    optim = dataclasses.replace(OPTIM, weight_decay=0.0, schedule=Schedule(warmup=min(100, steps // 5)))
    tokens = text(model.vocabulary)
    with variant(words) as settings:
        trainer = make(model, Train(steps=max(steps, 500), batch=batch, **settings), tokens, optim)
        twin = nanogpt.build(folder, model, model.vocabulary)
        nanogpt.take_weights(twin, trainer.model)
        source = Source(TokenWindows(tokens, model.context, overlapping=True), trainer.settings.seed, device)
        mine = []
        for _ in range(steps):
            trainer.means.clear()
            trainer.run_step()
            mine.append(trainer.means.read()["loss"])
    del trainer
    forget()
    numbers, positions = count(), count(1)
    other = nanogpt.stepper(
        twin,
        optim,
        device,
        lambda: source.batch(next(numbers) * batch, batch),
        device.type == "cuda",
        lambda: optim.lr * optim.schedule.factor(next(positions), steps),
    )
    theirs = [float(other()) for _ in range(steps)]
    apart = [abs(a - b) / b for a, b in zip(mine, theirs, strict=True)]
    tail = max(1, steps // 10)
    ends = [sum(losses[-tail:]) / tail for losses in (mine, theirs)]
    found = {"size": size, "batch": batch, "steps": steps, "largest_apart": max(apart), "mean_apart": sum(apart) / steps}
    found |= {"last_tenth": ends, "last_tenth_apart": abs(ends[0] - ends[1]) / ends[1]}
    print(json.dumps(found), flush=True)
    return found | {"weft": mine, "nanogpt": theirs}
