"""A softmax by a path through a binary tree, log2 V decisions for a word (Morin & Bengio, 2005; Mikolov et al., 2013, arXiv:1301.3781).

The words are the leaves of Huffman's tree, so frequent ones have short paths; each inner node has a row of the table `context`, and
turns right with probability sigma(score). The probabilities of all words sum to one.

Batch: that of `word_prediction`. Shapes: N longest path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.data.base import IGNORE
from weft.kernels.c import word_vectors
from weft.nn import huffman
from weft.objectives.base import Terms
from weft.objectives.language.word_prediction import WordPrediction, WordPredictionConfig


@dataclass(frozen=True, kw_only=True)
class HierarchicalSoftmaxConfig(WordPredictionConfig):
    def build(self) -> HierarchicalSoftmax:
        return HierarchicalSoftmax(self)


class HierarchicalSoftmax(WordPrediction):
    nodes: Tensor
    signs: Tensor

    def __init__(self, config: HierarchicalSoftmaxConfig):
        super().__init__(config)
        order = sorted(range(len(config.frequencies)), key=lambda word: -config.frequencies[word])
        nodes, turns = huffman.paths(huffman.huffman([config.frequencies[word] for word in order]), len(order))
        leaf = torch.empty(len(order), dtype=torch.int64)
        leaf[order] = torch.arange(len(order))
        self.register_buffer("nodes", nodes[leaf], persistent=False)  # (V, N), from the leaf to the root
        self.register_buffer("signs", turns[leaf], persistent=False)  # (V, N), 1 to the right, -1 to the left, 0 behind the root

    def log_prob(self, model: Any, hidden: Tensor, words: Tensor) -> Tensor:
        """What is read (B, D), words (B, T) -> log p(word | what is read) (B, T)."""
        nodes, signs = self.nodes[words], self.signs[words]  # (B, T, N)
        scores = model.scores(hidden, nodes.flatten(1)).view(nodes.shape)
        return -(F.softplus(-signs * scores) * (signs != 0)).sum(-1)

    def losses(self, model: Any, hidden: Tensor, targets: Tensor, real: Tensor, key: Tensor) -> Terms:
        return Terms({"loss": -self.log_prob(model, hidden, targets).masked_fill(~real, 0.0).sum()})

    def outputs(self, targets: Tensor, key: Tensor) -> Tensor:
        nodes, signs = self.nodes[targets.clamp(min=0)], self.signs[targets.clamp(min=0)]  # (B, T, N)
        real = (signs != 0) & (targets != IGNORE).unsqueeze(-1)
        return (2 * nodes + (signs > 0)).masked_fill(~real, -1).flatten(1)

    def c_settings(self) -> word_vectors.Settings:
        c = self.config
        given = {"nodes": self.nodes, "signs": self.signs, "limit": c.row_limit}
        return word_vectors.Settings(c.architecture, c.window, c.centres, self.keep, **given)
