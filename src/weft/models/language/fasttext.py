"""fastText: a text is the mean of the vectors of its words and n-grams, classified linearly (Joulin et al., 2016, arXiv:1607.01759).

Shapes: B batch, T rows of a text, R rows of the table, D width, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.nn.huffman import huffman, paths


@dataclass(frozen=True, kw_only=True)
class FastTextConfig(ModelConfig):
    of_task = ("classes", "tree")

    vocabulary: int = 0
    """Rows R of the table: words, then hashed n-grams; 0 takes it from the data."""
    classes: int = 0
    """Number of classes C; 0 takes it from the data."""
    width: int = 32
    """Size D of a vector."""
    output: Literal["softmax", "hierarchical_softmax", "one_vs_all"] = "softmax"
    """softmax; hierarchical_softmax, a product of decisions in a tree of the classes; one_vs_all, a probability for each by itself."""
    tree: tuple[int, ...] = ()
    """Children of the tree's inner nodes; () is a balanced tree."""
    epsilon: float = 0.0
    """Added to each probability (hierarchical_softmax: to each decision's), as fastText does with 1e-5 before it takes logarithms."""

    def build(self) -> FastText:
        return FastText(self)


class FastText(nn.Module):
    task_parts = ("head.",)
    nodes: Tensor
    turns: Tensor

    def __init__(self, config: FastTextConfig):
        super().__init__()
        self.config = config
        check_sizes(config, vocabulary=1, classes=1, width=1)
        if not 0.0 <= config.epsilon < 1.0:
            raise ConfigError(f"--model.epsilon must be at least 0 and below 1, not {config.epsilon}")
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.head = nn.Linear(config.width, config.classes, bias=False)
        nn.init.uniform_(self.embedding.weight, -1 / config.width, 1 / config.width)
        nn.init.zeros_(self.head.weight)
        if config.output == "hierarchical_softmax":
            nodes, turns = paths(config.tree or huffman([1] * config.classes), config.classes)
            self.register_buffer("nodes", nodes, persistent=False)
            self.register_buffer("turns", turns, persistent=False)

    def mean(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """ids (B, T), lengths (B,) -> the mean of each text's rows (B, D), 0 of a text without any."""
        real = torch.arange(ids.size(1), device=ids.device) < lengths[:, None]
        weight = self.embedding.weight
        total = F.embedding_bag(ids, weight, mode="sum", per_sample_weights=real.to(weight.dtype))
        return total / lengths.clamp(min=1)[:, None]

    def classify(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """ids (B, T), lengths (B,) -> logits (B, C), of hierarchical softmax log-probabilities; segments are not looked at."""
        scores: Tensor = self.head(self.mean(ids, lengths))
        if self.config.output != "hierarchical_softmax":
            return scores
        decisions = scores[:, self.nodes] * self.turns  # (B, C, depth)
        logs = (decisions.sigmoid() + self.config.epsilon).log() if self.config.epsilon else F.logsigmoid(decisions)
        return logs.masked_fill(self.turns == 0, 0.0).sum(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """What `classify` gives (B, C) -> the probability of each class."""
        if self.config.output == "hierarchical_softmax":
            return logits.exp()
        return (logits.sigmoid() if self.config.output == "one_vs_all" else logits.softmax(-1)) + self.config.epsilon

    def forward(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        return self.classify(ids, segments, lengths)


TINY = FastTextConfig(vocabulary=50, classes=4, width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
