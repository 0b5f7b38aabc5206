"""Transducer (Graves, 2012, arXiv:1211.3711), whole or in a band that is learned (Kuang et al., 2022, arXiv:2206.13236).

Minus the log-probability of the labels, over all ways to say them while states of the encoder are read. The logits of the joint are never
there for all states and labels at once: whole, they are made for some states at a time and again in the backward pass; in a band, for
`band` labels at each state. Blank is token 0, which no text holds. Batch: as in objectives/audio/labels.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.inference.speech.recognise import Decoding
from weft.kernels.alignment import transducer_log_likelihood, transducer_logit_log_likelihood, transducer_sums
from weft.models.base import Transduces
from weft.nn.alignment.gather import take_rows
from weft.nn.alignment.joint import joint_log_probs
from weft.nn.alignment.pruned import additive_joint, band_joint, band_starts, band_symbols
from weft.objectives.audio.ctc import CTC, CTCConfig
from weft.objectives.audio.labels import labels_of, negative, recognition_counts
from weft.objectives.base import Terms

BLANK = 0
HELD = 1 << 26
"""Logits of a joint that are held at once."""


@dataclass(frozen=True, kw_only=True)
class RNNTConfig(CTCConfig):
    band: int = 0
    """Labels at each state of which the joint is computed, where a joint that only adds finds them likeliest; 0 computes all. It needs
    --model.additive."""
    additive_weight: float = 0.5
    """Weight of the loss of the joint that only adds."""

    def build(self) -> RNNT:
        return RNNT(self)


class RNNT(CTC):
    needs: type = Transduces

    def __init__(self, config: RNNTConfig):
        super().__init__(config)
        self.own = config
        if config.band < 0 or config.band == 1:
            raise ConfigError(f"--objective.band is 0 or at least 2, so that one band meets the next, not {config.band}")
        Decoding(beams=config.beams).check()
        if config.band:
            self.weights = {"additive": config.additive_weight}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        found = recognition_counts(batch)
        return found | ({"additive": found["loss"]} if self.own.band else {})

    def bind(self, model: Any) -> None:
        if self.own.band and not model.config.additive:
            raise ConfigError("--objective.band needs a joint that only adds to find it: set --model.additive on")

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        labels, sizes = labels_of(batch)
        states = model.encode(batch["source"], batch["source_length"])
        lengths = model.encoded_lengths(batch["source_length"]).clamp(min=1)  # a row that is missing has a state, and counts for nothing
        predicted, _ = model.predict(batch["target"][:, :-1])
        there, terms = batch["source_length"] > 0, dict[str, Tensor]()
        if self.own.band:
            found, simple = self.pruned(model, states, predicted, labels, lengths, sizes)
            terms["additive"], _ = negative(simple, there)
        else:
            found = self.whole(model, states, predicted, labels, lengths, sizes)
        loss, impossible = negative(found, there)
        return Terms({"loss": loss, **terms}, {"impossible": impossible})

    def whole(self, model: Any, states: Tensor, predicted: Tensor, labels: Tensor, lengths: Tensor, sizes: Tensor) -> Tensor:
        """Log-probability of the labels of each row (B,)."""
        frames, symbols = model.from_frame(states), model.from_symbols(predicted)
        each = symbols.size(0) * symbols.size(1) * model.config.vocabulary  # logits of one state of every row
        if each * frames.size(1) <= HELD:
            logits = model.join(frames[:, :, None], symbols[:, None])
            return transducer_logit_log_likelihood(logits, lengths, labels, sizes, BLANK)
        log_probs = joint_log_probs(model.join, frames, symbols, labels, BLANK, HELD // each)
        return transducer_log_likelihood(*log_probs, lengths, sizes)

    def pruned(
        self, model: Any, states: Tensor, predicted: Tensor, labels: Tensor, lengths: Tensor, sizes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same in a band, and by the joint that only adds."""
        width = self.own.band
        of_frames, of_symbols = model.additive_logits(states, predicted)
        simple = additive_joint(of_frames, of_symbols, labels, BLANK)
        with torch.no_grad():
            _, by_blank, by_label = transducer_sums(*(each.detach() for each in simple), lengths, sizes, True)
            starts = band_starts(by_blank, by_label, lengths, sizes, width)
        symbols = take_rows(model.from_symbols(predicted), band_symbols(starts, width, predicted.size(1)))  # (B, T, R, J)
        logits = model.join(model.from_frame(states)[:, :, None], symbols)
        banded = transducer_log_likelihood(*band_joint(logits, starts, labels, BLANK), lengths, sizes)
        return banded, transducer_log_likelihood(*simple, lengths, sizes)
