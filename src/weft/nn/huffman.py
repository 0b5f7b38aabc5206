"""Binary trees over classes or words, for hierarchical softmax (Morin & Bengio, 2005): Huffman's, where the frequent are reached soon.

A tree of C leaves has C - 1 inner nodes, numbered from C on, the root last; `children` lists the left and the right child of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.core.errors import ConfigError

MOST = 10**15
DEEPEST = 128


def huffman(counts: Sequence[int]) -> tuple[int, ...]:
    """Counts, falling -> the children of the tree's inner nodes; as word2vec and fastText build it, ties included."""
    if any(not 0 <= count < MOST for count in counts):
        raise ConfigError(f"counts of classes must be from 0 to {MOST:,}")
    leaves = len(counts)
    weight = [*counts, *[MOST] * max(0, leaves - 1)]
    leaf, node, children = leaves - 1, leaves, list[int]()
    for made in range(leaves, 2 * leaves - 1):
        for _ in range(2):
            if leaf >= 0 and weight[leaf] < weight[node]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(node)
                node += 1
        weight[made] = weight[children[-2]] + weight[children[-1]]
    return tuple(children)


def paths(children: Sequence[int], leaves: int) -> tuple[Tensor, Tensor]:
    """The inner nodes from each leaf to the root, (C, depth) from 0 on, and turns: 1 to the right, -1 to the left, 0 behind the root."""
    if len(children) != 2 * (leaves - 1) or sorted(children) != list(range(2 * leaves - 2)):
        raise ConfigError(f"a tree of {leaves:,} classes has {2 * (leaves - 1):,} children, each once")
    parent = {child: place for place, child in enumerate(children)}
    rows: list[list[int]] = []
    for leaf in range(leaves):
        row, at = list[int](), leaf
        while at in parent:
            row.append(parent[at])
            at = leaves + parent[at] // 2
            if len(row) > DEEPEST:
                raise ConfigError(f"the tree of classes is more than {DEEPEST} nodes deep, or has a cycle")
        rows.append(row)
    depth = max(1, max(map(len, rows)))
    places = torch.tensor([row + [-1] * (depth - len(row)) for row in rows])
    turns = torch.where(places % 2 == 1, 1, -1).masked_fill(places < 0, 0)
    return places.clamp(min=0) // 2, turns
