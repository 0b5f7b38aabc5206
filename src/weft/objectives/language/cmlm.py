"""Cross-entropy of the hidden tokens of a target, given its source and the other tokens (Ghazvininejad et al., 2019, arXiv:1904.09324).

Of a target's N tokens a number from 1 to N, each as likely, is hidden: where they stood the decoder reads START. So a model learns
to predict all tokens at once, a few from the rest, and everything between, which is what passes that improve a target need.
The length of the target is learned beside it, from the source alone. With `fixed_length` nothing is shown and no length is predicted: a
target is followed by END up to so many positions, and all of them are predicted. What is hidden is drawn from the key of the pair, so
it does not depend on how a batch is cut or padded.

Batch: as for Seq2Seq, and row_key (B,) where the examples are whole batches. Shapes: B pairs, T positions, C lengths.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.inference.mask_predict import MaskPredict, mask_predict, ranks
from weft.metrics.ngrams import bleu, statistics
from weft.models.base import NonAutoregressiveDecoder
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.language.seq2seq import r_drop_kl, row_key


@dataclass(frozen=True, kw_only=True)
class CMLMConfig(ObjectiveConfig):
    unit = "nats per token"

    label_smoothing: float = 0.1
    """Label smoothing: share of the target probability that is spread evenly over the vocabulary."""
    length_weight: float = 0.1
    """Weight of the cross-entropy of the length."""
    r_drop: float = 0.0
    """R-Drop (Liang et al., 2021): weight of the KL divergence between two passes with different dropout; 0 makes one pass."""
    fixed_length: int = 0
    """As --model.fixed_length: pad a target with END to this many tokens, and mask all of them; 0 predicts the length."""
    decode: bool = True
    """Let the model answer in validation, and measure BLEU over tokens."""
    iterations: int = 0
    """Passes in which whole answers are made for evaluation; 0 is 10, or 1 where they are cut at END."""
    candidates: int = 5
    """How many of the likeliest lengths are tried for each answer."""
    length_factor: float = 1.0
    """The length of an answer is the predicted one times this."""
    lowercase: bool = False
    """Evaluation tells BLEU of texts in lower case, too."""
    tokenize: str = ""
    """Evaluation tells BLEU of texts cut into words by another tokenizer, too: intl, zh or more of sacrebleu, or moses-de and the like."""
    start: int = 0
    """Id of START; 0 takes it from the data."""
    end: int = 0
    """Id of END; 0 takes it from the data."""

    def build(self) -> CMLM:
        return CMLM(self)


class CMLM(Objective):
    needs = NonAutoregressiveDecoder

    def __init__(self, config: CMLMConfig):
        super().__init__()
        self.config, self.weights = config, {"length": config.length_weight}
        if not 0.0 <= config.label_smoothing < 1.0:
            raise ConfigError(f"--objective.label_smoothing must be at least 0 and below 1, not {config.label_smoothing}")
        for name in ("length_weight", "r_drop", "fixed_length"):
            if not 0.0 <= getattr(config, name) < math.inf:
                raise ConfigError(f"--objective.{name} must be at least 0, not {getattr(config, name)}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        tokens, pairs = count(self.hidden_number(batch).sum(), like=batch["target"]), count(present(batch).sum(), like=batch["target"])
        lengths = {} if self.config.fixed_length else {"length": pairs, "length_accuracy": pairs, "length_error": pairs}
        return {"token": tokens, "log_loss": tokens, "accuracy": tokens, "matches": count(1, like=batch["target"])} | lengths

    def hidden_number(self, batch: Batch) -> Tensor:
        """How many tokens of each target are hidden (B,): from 1 to all of them, each as likely."""
        if self.config.fixed_length:
            return present(batch).long() * self.config.fixed_length
        tokens = sizes(batch)
        drawn = random.integers(random.fold(row_key(batch), "number"), 1 << 62, 1).squeeze(1)
        return torch.minimum(1 + drawn % tokens.clamp(min=1), tokens)

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder reads (B, T), how many of these positions a target has (B,), and what is to be predicted (B, T), else IGNORE."""
        if self.config.fixed_length:
            return self.hide_all(batch)
        tokens, target = sizes(batch), batch["target"][:, 1:]  # END stays, and tells where the end is
        inside = torch.arange(target.size(1), device=target.device) < tokens[:, None]
        order = random.integers(random.fold(row_key(batch), "choice"), 1 << 62, target.size(1))
        order = order.masked_fill(~inside, torch.iinfo(torch.int64).max)
        hidden = inside & (ranks(order) < self.hidden_number(batch)[:, None])
        shown = target.masked_fill(hidden, self.config.start)
        return shown, (batch["target_length"] - 1).clamp(min=0), target.masked_fill(~hidden, IGNORE)

    def hide_all(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The same for a model that is cut at END."""
        positions, there = self.config.fixed_length, present(batch)
        target = F.pad(batch["target"][:, 1:], (0, positions))[:, :positions]
        behind = torch.arange(positions, device=target.device) >= batch["target_length"][:, None] - 1
        truth = target.masked_fill(behind, self.config.end).masked_fill(~there[:, None], IGNORE)
        return torch.full_like(target, self.config.start), there.long() * positions, truth

    def forward(self, model: NonAutoregressiveDecoder, batch: Batch, turn: str) -> Terms:
        if model.config.fixed_length != self.config.fixed_length:
            raise ConfigError(
                f"--objective.fixed_length {self.config.fixed_length} must be the same as --model.fixed_length {model.config.fixed_length}"
            )
        shown, filled, truth = self.hide(batch)
        source, lengths, wanted = batch["source"], batch["source_length"], truth.flatten()
        passes, memories = [], []
        twice = self.config.r_drop > 0 and model.training
        for _ in range(2 if twice else 1):
            memories.append(model.encode(source, lengths))
            passes.append(model.head(model.decode_parallel(shown, filled, memories[-1], lengths)).float().flatten(0, 1))  # (B T, V)
        flat, smoothing = passes[0], self.config.label_smoothing
        losses = [F.cross_entropy(each, wanted, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing) for each in passes]
        loss = torch.stack(losses).mean()
        if twice:
            loss = loss + self.config.r_drop / 4 * r_drop_kl(flat, passes[1], wanted != IGNORE)
        plain = F.cross_entropy(flat.detach(), wanted, ignore_index=IGNORE, reduction="sum")
        right = (flat.detach().argmax(-1) == wanted).sum().float()
        found = Terms({"token": loss}, {"log_loss": plain, "accuracy": right})
        return found if self.config.fixed_length else self.add_length(found, model, batch, memories)

    @staticmethod
    def add_length(found: Terms, model: NonAutoregressiveDecoder, batch: Batch, memories: list[Tensor]) -> Terms:
        """The cross-entropy of the length beside that of the tokens."""
        tokens, there = sizes(batch), present(batch)
        wanted = (tokens - 1).masked_fill(~there, IGNORE)
        logits = [model.length_logits(memory, batch["source_length"]) for memory in memories]  # each (B, C)
        found.sums["length"] = torch.stack([F.cross_entropy(each, wanted, ignore_index=IGNORE, reduction="sum") for each in logits]).mean()
        off = (1 + logits[0].detach().argmax(-1) - tokens).abs().masked_fill(~there, 0)
        found.metrics |= {"length_accuracy": ((off == 0) & there).sum().float(), "length_error": off.sum().float()}
        return found

    @property
    def mask_predict(self) -> MaskPredict:
        return MaskPredict(self.config.iterations, self.config.candidates, self.config.length_factor)

    def answers(self, model: NonAutoregressiveDecoder, source: Tensor, lengths: Tensor) -> list[list[int]]:
        """The target of each source, as evaluation takes it."""
        return [made.ids for made in mask_predict(model, source, lengths, self.config.start, self.config.end, self.mask_predict)]

    def search(self, model: NonAutoregressiveDecoder) -> dict[str, Any]:
        """How answers are found, for the record."""
        return asdict(self.mask_predict.resolve(model))

    def measure(self, model: NonAutoregressiveDecoder, batch: Batch) -> dict[str, Tensor]:
        """The counts that BLEU is made of, summed over the batch (10,)."""
        if not self.config.decode:
            return {}
        end, there = self.config.end, present(batch).nonzero().squeeze(1)
        total = torch.zeros(10, dtype=torch.float64)
        found = self.answers(model, batch["source"][there], batch["source_length"][there])
        for ids, row in zip(found, batch["target"][there].tolist(), strict=True):
            total += statistics([token for token in ids if token != end], row[1 : row.index(end)])
        return {"matches": total.to(batch["target"].device)}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        found = {name: float(value) for name, value in means.items() if value.numel() == 1}
        if "matches" in means:
            found["token_bleu"] = bleu(means["matches"].double().cpu())
        return found


def sizes(batch: Batch) -> Tensor:
    """Tokens of each target (B,), without START and END."""
    return (batch["target_length"] - 2).clamp(min=0)


def present(batch: Batch) -> Tensor:
    """Which rows hold a pair (B,)."""
    return (batch["source_length"] > 0) & (batch["target_length"] > 2)
