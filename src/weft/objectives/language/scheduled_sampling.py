"""Scheduled sampling: in training the decoder reads its own tokens in the place of true ones, ever more of them.

Under teacher forcing a decoder reads true tokens only, and once it is alone it meets prefixes that it has never seen. Here the token at
each position is the true one with probability ε, else one that the model itself draws (Bengio et al., 2015, arXiv:1506.03099). ε falls
with the number of updates, which is a buffer. A recurrent decoder draws token by token. A Transformer does so for all positions at once:
a pass over the true tokens, and one over what is mixed from them and its own (Mihaylova and Martins, 2019, arXiv:1906.07651); or several
passes, each over the mixture that the one before made (Duckworth et al., 2019, arXiv:1906.04331), as many as a target has tokens being the
same as token by token. What is read has no gradient, and is drawn without dropout.

Both which positions are true and what is drawn in the others depend on the key of the pair alone.
Batch: as for Seq2Seq, and row_key (B,) where the examples are whole batches. Shapes: B pairs, T tokens that are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.inference.sequence_sampling import decode_steps, draw_at, encoded, without_dropout
from weft.models.base import Decodes, EncoderDecoder, need
from weft.nn.state import RecurrentState
from weft.objectives.base import Terms, count
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig, row_key


@dataclass(frozen=True, kw_only=True)
class ScheduledSamplingConfig(Seq2SeqConfig):
    decay: Literal["linear", "exponential", "inverse_sigmoid"] = "inverse_sigmoid"
    """How the probability ε of a true token falls with the update i: 1 - i/k, exp(-i/k), or k / (k + exp(i/k))."""
    decay_steps: float = 100.0
    """The k of the decay; the inverse sigmoid is at one half after k ln k updates."""
    min_epsilon: float = 0.0
    """ε never falls below this; 1 is teacher forcing."""
    sampled: Literal["draw", "argmax"] = "draw"
    """Whether the model's own tokens are drawn from its distribution or its likeliest."""
    passes: int = 0
    """Passes that draw for all positions at once; 0 is one for a Transformer, and token by token for a recurrent decoder."""

    def build(self) -> ScheduledSampling:
        return ScheduledSampling(self)


class ScheduledSampling(Seq2Seq):
    needs = EncoderDecoder
    compile = False  # type: ignore[assignment]  # its drawing switches dropout off and on
    capture = False
    step: Tensor
    """Updates so far, float32 ()."""

    def __init__(self, config: ScheduledSamplingConfig):
        super().__init__(config)
        self.schedule = config
        if not 0.0 < config.decay_steps < math.inf or (config.decay == "inverse_sigmoid" and config.decay_steps < 1):
            least = "at least 1 for the inverse sigmoid" if config.decay == "inverse_sigmoid" else "above 0"
            raise ConfigError(f"--objective.decay_steps must be {least}, not {config.decay_steps}")
        if not 0.0 <= config.min_epsilon <= 1.0:
            raise ConfigError(f"--objective.min_epsilon must be from 0 to 1, not {config.min_epsilon}")
        if config.passes < 0:
            raise ConfigError(f"--objective.passes must be at least 0, not {config.passes}")
        self.register_buffer("step", torch.zeros(()))

    def bind(self, model: nn.Module) -> None:
        if not self.schedule.passes:
            need(model, Decodes)

    def epsilon(self) -> Tensor:
        """Probability of a true token, ()."""
        c, i = self.schedule, self.step
        if c.decay == "linear":
            found = 1 - i / c.decay_steps
        elif c.decay == "exponential":
            found = (-i / c.decay_steps).exp()
        else:
            found = c.decay_steps / (c.decay_steps + (i / c.decay_steps).exp())
        return found.clamp(min=c.min_epsilon)

    def kept(self, batch: Batch) -> Tensor:
        """Where the true token is read (B, T); at START always."""
        read = batch["target"][:, :-1]
        coins = random.uniform(random.fold(row_key(batch), "teacher forcing"), read.size(1))
        return (coins < self.epsilon()) | (torch.arange(read.size(1), device=read.device) == 0)

    def inputs(self, model: Any, batch: Batch) -> Tensor:
        """What the decoder reads (B, T): true tokens and its own."""
        true = super().inputs(model, batch)
        if not model.training:
            return true
        kept, key = self.kept(batch), random.fold(row_key(batch), "scheduled sampling")
        passes = self.schedule.passes
        if not passes and isinstance(model.new_state().decoder, RecurrentState):
            return self._token_by_token(model, batch, true, kept, key)
        with torch.no_grad(), without_dropout(model):
            memory, lengths = encoded(model, batch["source"], batch["source_length"])
            read, step = true, torch.arange(true.size(1) - 1, device=true.device)
            for _ in range(passes or 1):
                own = self._chosen(model.head(model.decode(read, memory, lengths)[:, :-1]).float(), key[:, None], step)
                read = torch.where(kept, true, torch.cat([true[:, :1], own], 1))
        return read

    def _chosen(self, logits: Tensor, key: Tensor, step: Tensor | int) -> Tensor:
        """The model's own tokens, from logits (…, V)."""
        return logits.argmax(-1) if self.schedule.sampled == "argmax" else draw_at(logits, key, step)

    def _token_by_token(self, model: Any, batch: Batch, true: Tensor, kept: Tensor, key: Tensor) -> Tensor:
        """As `inputs`, each token being drawn behind those that were read before it."""

        def choose(step: int, logits: Tensor) -> Tensor:
            return torch.where(kept[:, step + 1], true[:, step + 1], self._chosen(logits, key, step))

        if true.size(1) < 2:
            return true
        read = decode_steps(model, batch["source"], batch["source_length"], self.config.start, true.size(1) - 1, choose)
        return torch.cat([true[:, :1], read], 1)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        behind_start = (batch["target_length"] - 2).clamp(min=0).sum()
        return {**super().counts(batch), "teacher_forced": count(behind_start, like=batch["target"])}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        terms = super().forward(model, batch, turn)
        if model.training:
            position = torch.arange(batch["target"].size(1) - 1, device=batch["target"].device)
            inside = (position > 0) & (position < batch["target_length"][:, None] - 1)
            terms.metrics["teacher_forced"] = (self.kept(batch) & inside).sum().float()
        return terms

    def after_update(self, model: nn.Module, turn: str) -> None:
        self.step += 1
