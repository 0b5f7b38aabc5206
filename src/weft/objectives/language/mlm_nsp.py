"""Masked tokens and sentence pairs (Devlin et al., 2018): two cross-entropies that average over different things.

Of a sequence's ordinary tokens (no special token, no padding, no unknown word) a share is chosen and is to be predicted; most of the
chosen become [MASK], some another word, some stay. Which, is drawn from the example's key or from its tokens, so it does not
depend on how a batch is cut or padded, and the number chosen is known before any forward.

Batch: ids, segments (B, T), lengths (B,), pair (B,) class of the pair. Shapes: M the most tokens chosen in a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.models.base import Model
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count

GRAIN = 1 << 20
"""Shares are integers in units of 1 / GRAIN: counted and compiled code cannot round them differently."""


class BERTPretraining(Model, Protocol):
    """Gives states to the tokens of a pair of texts, logits to masked ones, and logits of whether the second text follows."""

    def hidden(self, ids: Tensor, segments: Tensor, lengths: Tensor) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...
    def pair(self, hidden: Tensor, lengths: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class MLMNSPConfig(ObjectiveConfig):
    unit = "nats"

    mask_rate: float = 0.15
    """Share of the ordinary tokens that is chosen for prediction (masked language modelling)."""
    mask_token_share: float = 0.8
    """Share of the chosen that becomes [MASK]."""
    random_token_share: float = 0.1
    """Share of the chosen that becomes another ordinary token, each as likely; the rest stays as it is."""
    pair_weight: float = 1.0
    """Weight of the second cross-entropy; 0 learns from masked tokens alone."""
    static: bool = False
    """Choose the same tokens whenever the same sequence comes again (BERT stored its text masked); otherwise others each time."""
    vocabulary: int = 0
    """Number of tokens; 0 takes it from the data."""
    special_tokens: int = 0
    """Number of special tokens: ids below this are never chosen nor put in; 0 takes it from the data."""
    mask: int = 0
    """Id of [MASK]; 0 takes it from the data."""

    def build(self) -> MLMNSP:
        return MLMNSP(self)


class MLMNSP(Objective):
    def __init__(self, config: MLMNSPConfig):
        super().__init__()
        self.config, self.weights = config, {"pair": config.pair_weight}
        if (
            not 0.0 <= config.mask_rate <= 1.0
            or min(config.mask_token_share, config.random_token_share) < 0.0
            or config.mask_token_share + config.random_token_share > 1.0
        ):
            raise ConfigError(
                f"objective: shares of tokens must lie between 0 and 1: {config.mask_rate}, {config.mask_token_share}, "
                f"{config.random_token_share}"
            )

    def ordinary(self, batch: Batch) -> Tensor:
        """Where a token may be chosen (B, T)."""
        position = torch.arange(batch["ids"].size(1), device=batch["ids"].device)
        return (batch["ids"] >= self.config.special_tokens) & (position < batch["lengths"][:, None])

    def keys(self, batch: Batch) -> Tensor:
        """What the noise of each sequence is drawn from (B,): the number of its draw or, static, its own tokens."""
        if not self.config.static:
            return batch["key"]
        position = torch.arange(batch["ids"].size(1), device=batch["ids"].device)
        tokens = random.fold(batch["ids"], position).masked_fill(position >= batch["lengths"][:, None], 0)
        return tokens.sum(1)  # wraps around, as it should

    def number(self, batch: Batch) -> Tensor:
        """How many tokens of each sequence are chosen (B,): the share of its ordinary ones, rounded up or down at random."""
        ordinary = self.ordinary(batch).sum(1)
        spare = random.integers(random.fold(self.keys(batch), "number"), GRAIN, 1).squeeze(1)
        return (ordinary * round(self.config.mask_rate * GRAIN) + spare) // GRAIN

    def corrupt(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The sequences as the model sees them (B, T), the chosen positions (B, M), and what stood there (B, M), else IGNORE."""
        c, ids, key = self.config, batch["ids"], self.keys(batch)
        most = min(ids.size(1), int(c.mask_rate * ids.size(1)) + 1)
        order = random.integers(random.fold(key, "choice"), 1 << 62, ids.size(1))
        position = order.masked_fill(~self.ordinary(batch), torch.iinfo(torch.int64).max).topk(most, largest=False).indices  # in order
        chosen = torch.arange(most, device=ids.device) < self.number(batch)[:, None]  # (B, M)
        truth = ids.gather(1, position)
        fate = random.uniform(random.fold(key, "fate"), most)
        other = c.special_tokens + random.integers(random.fold(key, "other"), c.vocabulary - c.special_tokens, most)
        # masked_fill, as torch.where would copy a Python number to the device and wait
        shown = torch.where(fate < c.mask_token_share + c.random_token_share, other, truth).masked_fill(fate < c.mask_token_share, c.mask)
        return ids.scatter(1, position, torch.where(chosen, shown, truth)), position, truth.masked_fill(~chosen, IGNORE)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        tokens, pairs = count(self.number(batch).sum(), like=batch["ids"]), count(len(batch["ids"]), like=batch["ids"])
        return {"token": tokens, "pair": pairs, "token_accuracy": tokens, "pair_accuracy": pairs}

    def forward(self, model: BERTPretraining, batch: Batch, turn: str) -> Terms:
        ids, position, truth = self.corrupt(batch)
        hidden = model.hidden(ids, batch["segments"], batch["lengths"])  # (B, T, D)
        at_position = hidden.gather(1, position.unsqueeze(-1).expand(-1, -1, hidden.size(-1)))  # (B, M, D)
        tokens, pairs = model.head(at_position).float(), model.pair(hidden, batch["lengths"]).float()
        sums = {
            "token": F.cross_entropy(tokens.flatten(0, 1), truth.flatten(), ignore_index=IGNORE, reduction="sum"),
            "pair": F.cross_entropy(pairs, batch["pair"], reduction="sum"),
        }
        right = {"token_accuracy": (tokens.argmax(-1) == truth).sum(), "pair_accuracy": (pairs.argmax(-1) == batch["pair"]).sum()}
        return Terms(sums, right)
