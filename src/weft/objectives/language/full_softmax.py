"""Words of a context predicted by a softmax over the whole vocabulary (Mikolov et al., 2013, arXiv:1301.3781).

CBOW's is -log softmax(U h) at the centre word, h the mean of its context's vectors; its gradient is that of the word's score, less the
mean of all scores' gradients under the model: E_data - E_model. A step takes O(V).

Batch: that of `word_prediction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from weft.objectives.base import Terms
from weft.objectives.language.word_prediction import WordPrediction, WordPredictionConfig, log_prior


@dataclass(frozen=True, kw_only=True)
class FullSoftmaxConfig(WordPredictionConfig):
    prior: bool = True
    """Predict by q(w) exp(score), q a word's share of the text, so that scores say how the context changes it."""

    def build(self) -> FullSoftmax:
        return FullSoftmax(self)


class FullSoftmax(WordPrediction):
    log_prior: Tensor

    def __init__(self, config: FullSoftmaxConfig):
        super().__init__(config)
        self.register_buffer("log_prior", log_prior(config.frequencies, config.prior), persistent=False)

    def losses(self, model: Any, hidden: Tensor, targets: Tensor, real: Tensor, key: Tensor) -> Terms:
        found = (model.logits(hidden) + self.log_prior).log_softmax(-1).gather(1, targets)
        return Terms({"loss": -found.masked_fill(~real, 0.0).sum()})
