"""Connectionist temporal classification (Graves et al., 2006): minus the log-probability of the labels, over all ways to lay them on
states.

The gradient is the same to the bit in every run, on a GPU too. Blank is token 0, which no text holds. Batch: as in
objectives/audio/labels.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from weft.data.base import Batch
from weft.inference.speech.recognise import Decoding, recognise
from weft.kernels.alignment import ctc_log_likelihood
from weft.models.base import EmitsLabels
from weft.objectives.audio.labels import errors, labels_of, negative, recognition_counts, reported
from weft.objectives.base import Objective, ObjectiveConfig, Terms


@dataclass(frozen=True, kw_only=True)
class CTCConfig(ObjectiveConfig):
    unit = "nats per token"

    beams: int = 1
    """Hypotheses of the prefix beam search by which evaluation finds answers; 1 takes the likeliest path."""
    start: int = 0
    """Id of START; 0 takes it from the data."""
    end: int = 0
    """Id of END; 0 takes it from the data."""

    def build(self) -> CTC:
        return CTC(self)


class CTC(Objective):
    needs: type = EmitsLabels

    def __init__(self, config: CTCConfig):
        super().__init__()
        self.config = config
        Decoding(beams=config.beams).check()

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return recognition_counts(batch)

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        lengths = batch["source_length"]
        log_probs = model.ctc_head(model.encode(batch["source"], lengths)).float().log_softmax(-1)
        found = ctc_log_likelihood(log_probs, model.encoded_lengths(lengths), *labels_of(batch))
        loss, impossible = negative(found, lengths > 0)
        return Terms({"loss": loss}, {"impossible": impossible})

    def answers(self, model: Any, source: Tensor, lengths: Tensor) -> list[list[int]]:
        """The tokens of each sound, as evaluation takes them."""
        c = self.config
        return [found.ids for found in recognise(model, source, lengths, c.start, c.end, Decoding(beams=c.beams))]

    def search(self, model: Any) -> dict[str, Any]:
        """How answers are found, for the record."""
        return {"beams": self.config.beams}

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """Edits of the likeliest paths, and how many are exact."""
        c = self.config
        found = recognise(model, batch["source"], batch["source_length"], c.start, c.end, Decoding(beams=1))
        return errors([each.ids for each in found], batch)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        return reported(super().summary(means))
