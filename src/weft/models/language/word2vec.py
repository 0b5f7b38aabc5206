"""word2vec: a vector for every word where it is read and another where it is predicted (Mikolov et al., 2013, arXiv:1301.3781).

Skip-gram reads the centre word and predicts each of its context; the tables are named after that. Continuous bag of words reads the
context, by the mean of its vectors, and predicts the centre word. What is read is looked up in `centre`, what is predicted in `context`.
Shapes: B batch, C contexts, V vocabulary, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.base import ModelConfig, check_sizes


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig(ModelConfig):
    vocabulary: int = 0
    """Number of words V; 0 takes it from the data."""
    width: int = 100
    """Size D of a vector."""
    ngrams: int = 0
    """Hashed n-grams of characters with vectors of their own, of which unknown words are made (fastText's vectors have them)."""

    def build(self) -> Word2Vec:
        return Word2Vec(self)


class Word2Vec(nn.Module):
    """The score of a pair is the product of the one's centre and the other's context vector."""

    def __init__(self, config: Word2VecConfig):
        super().__init__()
        self.config = config
        check_sizes(config, vocabulary=1, width=1, ngrams=0)
        self.centre = nn.Embedding(config.vocabulary, config.width)
        self.context = nn.Embedding(config.vocabulary, config.width)
        bound = 0.5 / config.width
        for table in (self.centre, self.context):
            nn.init.uniform_(table.weight, -bound, bound)
        if config.ngrams:
            self.ngrams = nn.Embedding(config.ngrams, config.width)

    def forward(self, centre: Tensor, context: Tensor) -> Tensor:
        """centre (B,), context (B, C) -> scores (B, C)."""
        return self.scores(self.centre(centre), context)

    def mean(self, words: Tensor) -> Tensor:
        """words (B, M), negative where there is none -> the mean of their vectors (B, D), 0 of none."""
        real = words >= 0
        total = (self.centre(words.clamp(min=0)) * real.unsqueeze(-1)).sum(1)
        mean: Tensor = total / real.sum(1, keepdim=True).clamp(min=1)
        return mean

    def scores(self, hidden: Tensor, words: Tensor) -> Tensor:
        """What is read (B, D), words (B, N) -> the score of each (B, N)."""
        scores: Tensor = hidden.unsqueeze(1) @ self.context(words).mT  # (B, 1, N)
        return scores.squeeze(1)

    def logits(self, hidden: Tensor) -> Tensor:
        """What is read (B, D) -> the scores of all words (B, V)."""
        logits: Tensor = hidden @ self.context.weight.mT
        return logits

    def embed(self, ids: Tensor) -> Tensor:
        """ids (...) -> the vectors of words (..., D), those of the centre table."""
        vectors: Tensor = self.centre(ids)
        return vectors

    def hidden(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> what stands for each word of a text (B, T, D), whose mean is the vector of the text."""
        return self.embed(ids)

    def embed_ngrams(self, ids: Tensor) -> Tensor:
        """ids (N,) -> the mean of the vectors of n-grams (D,), which is that of a word with no vector of its own."""
        total = torch.zeros_like(self.ngrams.weight[0])
        for row in self.ngrams.weight[ids]:  # one after the other, so that the sum is fastText's to the last bit
            total = total + row
        return total / max(1, len(ids))

    @torch.no_grad()
    def nearest(self, ids: Tensor, number: int = 10) -> tuple[Tensor, Tensor]:
        """ids (B,) -> the words (B, N) of largest cosine, without the word itself, and their cosines (B, N)."""
        table = F.normalize(self.centre.weight, dim=-1)
        cosine = (table[ids] @ table.mT).scatter(1, ids.unsqueeze(1), -torch.inf)  # (B, V)
        best = cosine.topk(min(number, self.config.vocabulary - 1), dim=-1)
        return best.indices, best.values


TINY = Word2VecConfig(width=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "small": Word2VecConfig(width=100), "google": Word2VecConfig(vocabulary=3_000_000, width=300)}
