"""What one-hot vectors of words lack: all of them are √2 apart, and there are as many dimensions as words.

A made-up language has groups of words that stand in the same places (animals, food, tools …), so that one could take another's place.
Its one-hot vectors do not know that. Dense ones do, here from the pointwise mutual information of words and those around them, which
is what skip-gram with negative sampling factorises (Levy & Goldberg, 2014): so few dimensions hold it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.nn.one_hot import one_hot
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    groups: int = 8
    """Of words that stand in the same places."""
    words: int = 12
    """Of each group."""
    sentences: int = 4000
    """Of the made-up text: a word of a group, then two of the places where its group stands."""
    width: int = 8
    """Of the dense vectors."""
    seed: int = 1
    """Of the text."""


def counts(settings: Settings) -> Tensor:
    """How often each word (V,) stands beside each of the words around it (groups * 6,), (V, C)."""
    chance = random.Random(settings.seed)
    table = torch.zeros(settings.groups * settings.words, settings.groups * 6)
    for _ in range(settings.sentences):
        word = chance.randrange(len(table))
        for _ in range(2):  # one in ten stands elsewhere
            group = word // settings.words if chance.random() < 0.9 else chance.randrange(settings.groups)
            table[word, group * 6 + chance.randrange(6)] += 1
    return table


def dense(table: Tensor, width: int) -> Tensor:
    """(V, C) -> vectors (V, D) of length 1 from the positive pointwise mutual information."""
    share = table.double() / table.sum()
    expected = share.sum(1, keepdim=True) * share.sum(0, keepdim=True)
    information = (share / expected).log().clamp(min=0).nan_to_num(0.0)
    left, sizes, _ = torch.linalg.svd(information, full_matrices=False)
    return F.normalize(left[:, :width] * sizes[:width].sqrt(), dim=-1)


def distances(vectors: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, float]:
    """The distances of pairs within a group and of the others, sorted, and how often the nearest word is of the same group."""
    table = torch.cdist(vectors, vectors)
    same, pair = groups[:, None] == groups, torch.ones_like(table, dtype=torch.bool).triu(1)
    ties = table + torch.eye(len(table)) * 1e9
    nearest = ties <= ties.amin(1, keepdim=True) + 1e-9  # where all are as near, each of them is
    right = float(((nearest & same).sum(1) / nearest.sum(1)).mean())
    return table[same & pair].sort().values, table[~same & pair].sort().values, right


def study(settings: Settings) -> Finding:
    """Distances between one-hot vectors, and between dense ones of the same words."""
    if min(settings.groups, settings.words) < 2 or not 1 <= settings.width <= settings.groups * 6 or settings.sentences < 1:
        raise ConfigError(f"expected two groups of two words at least and 1 ≤ width ≤ {settings.groups * 6}, found {settings}")
    table = counts(settings)
    groups = torch.arange(len(table)) // settings.words
    kinds = {"one-hot": one_hot(torch.arange(len(table)), len(table)).double(), "dense": dense(table, settings.width)}
    curves: list[Curve] = []
    rows: list[tuple[str, ...]] = []
    for name, vectors in kinds.items():
        within, between, right = distances(vectors.float(), groups)
        for title, values in (("of a group", within), ("of two groups", between)):
            points = [(100 * place / max(1, len(values) - 1), value) for place, value in enumerate(values.tolist())]
            curves.append(Curve(f"{name}, {title}", points, f"c{len(curves)}"))
        spans = (f"{values.min():.3f} – {values.max():.3f}" for values in (within, between))
        rows.append((name, str(vectors.size(1)), *spans, f"{100 * right:.1f} %"))
    claim = (
        f"{len(table)} words of {settings.groups} groups. One-hot vectors have {len(table)} dimensions and are all √2 = {math.sqrt(2):.3f} "
        f"apart, so the nearest word is as good as any; {settings.width} dense dimensions tell the groups apart."
    )
    head = ("vectors", "dimensions", "distances within a group", "between groups", "nearest word is of the group")
    figure = chart("distance of two words, by the share of pairs that are nearer", curves, tall=True, across="% of pairs")
    return Finding("One-hot against dense vectors", claim, head, tuple(rows), figure)
