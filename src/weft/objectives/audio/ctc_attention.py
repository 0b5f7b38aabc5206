"""Cross-entropy of a text given its sound, and connectionist temporal classification beside it (Kim et al., 2017, arXiv:1609.06773).

Attention can look anywhere; that labels go along with the sound is what CTC makes the encoder's states say. With a weight of 0 it is
attention alone, as in listen, attend and spell. Batch: as in objectives/audio/labels.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.inference.beam_models import translate
from weft.inference.speech.recognise import spoken
from weft.kernels.alignment import ctc_log_likelihood
from weft.models.base import EmitsLabels, need
from weft.objectives.audio.labels import errors, labels_of, negative, recognition_counts, reported
from weft.objectives.base import Terms
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig


@dataclass(frozen=True, kw_only=True)
class CTCAttentionConfig(Seq2SeqConfig):
    ctc: float = 0.3
    """Share of connectionist temporal classification in the loss; 0 is attention alone."""
    beams: int = 5
    """Hypotheses of the beam search by which evaluation finds answers; 1 takes the likeliest token each time."""

    def build(self) -> CTCAttention:
        return CTCAttention(self)


class CTCAttention(Seq2Seq):
    config: CTCAttentionConfig

    def __init__(self, config: CTCAttentionConfig):
        super().__init__(config)
        if not 0.0 <= config.ctc < 1.0:
            raise ConfigError(f"--objective.ctc must be at least 0 and below 1, not {config.ctc}")
        if config.ctc:
            self.weights = {**self.weights, "loss": 1.0 - config.ctc, "ctc": config.ctc}

    def bind(self, model: Any) -> None:
        if self.config.ctc:
            need(model, EmitsLabels)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        own = recognition_counts(batch)
        return {**super().counts(batch), "errors": own["errors"], "exact": own["exact"]} | (
            {"ctc": own["loss"], "impossible": own["impossible"]} if self.config.ctc else {}
        )

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        if not self.config.ctc:
            return super().forward(model, batch, turn)
        lengths = batch["source_length"]
        memory = model.encode(batch["source"], lengths)
        terms = super().forward(Encoded(model, memory), batch, turn)
        log_probs = model.ctc_head(memory).float().log_softmax(-1)
        found = ctc_log_likelihood(log_probs, model.encoded_lengths(lengths), *labels_of(batch))
        loss, impossible = negative(found, lengths > 0)
        return Terms({**terms.sums, "ctc": loss}, {**terms.metrics, "impossible": impossible})

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """Edits of greedy answers, and how many are exact."""
        if not self.config.decode:
            return {}
        start, end, lengths = self.config.start, self.config.end, batch["source_length"]
        there = (lengths > 0).nonzero().squeeze(1)
        longest = batch["target"].size(1) + 10
        search = partial(translate, model, start=start, end=end, beams=1, length_penalty=0.0, longest=longest)
        best = search(source=batch["source"][there], lengths=lengths[there])
        said: list[list[int]] = [[] for _ in range(len(lengths))]
        for row, found in zip(there.tolist(), best, strict=True):
            said[row] = spoken(found[0].ids, end)
        return errors(said, batch)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        return reported(super().summary(means))


class Encoded:
    """A model whose source is encoded already."""

    def __init__(self, model: nn.Module, memory: Tensor):
        self.model, self.memory = model, memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.memory

    def hidden(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        found: Tensor = self.model.decode(target, self.memory, self.model.encoded_lengths(lengths))  # type: ignore[operator]
        return found
