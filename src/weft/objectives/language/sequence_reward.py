"""What objectives that learn from whole answers share: targets drawn from the model, their rewards, and their log-probabilities.

Answers are drawn token by token with the decoder's state, without dropout or a gradient, from keys of the pairs; then one pass over them,
as over true targets, gives their log-probabilities with a gradient. The cross-entropy of the true target can be learned beside.

Batch: as for Seq2Seq, with key (B,), or row_key (B,) where the examples are whole batches.
Shapes: B pairs, K answers to each, N tokens of the longest answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.inference.sequence_sampling import encoded, greedy_targets, sample_targets
from weft.metrics import batched_ngrams
from weft.models.base import Decodes, EncoderDecoder, need
from weft.objectives.base import Terms, count
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig, row_key, truth


@dataclass(frozen=True, kw_only=True)
class SequenceRewardConfig(Seq2SeqConfig):
    reward: Literal["bleu", "exact_match", "constant"] = "bleu"
    """Reward of an answer: smoothed BLEU of its tokens from 0 to 1, whether it is the true one, or 1 whatever it is (a control)."""
    samples: int = 8
    """Answers drawn for each source."""
    extra_tokens: int = 10
    """An answer that has this many tokens more than the true one is cut."""
    cross_entropy_weight: float = 0.0
    """Weight of the cross-entropy of the true target, learned beside."""


class SequenceReward(Seq2Seq):
    needs = EncoderDecoder
    compile = False  # type: ignore[assignment]  # its drawing switches dropout off and on
    capture = False

    def __init__(self, config: SequenceRewardConfig):
        super().__init__(config)
        self.settings, self.weights = config, {**self.weights, "token": config.cross_entropy_weight}
        if config.samples < 1:
            raise ConfigError(f"--objective.samples must be at least 1, not {config.samples}")
        if config.extra_tokens < 0:
            raise ConfigError(f"--objective.extra_tokens must be at least 0, not {config.extra_tokens}")
        if not 0.0 <= config.cross_entropy_weight < math.inf:
            raise ConfigError(f"--objective.cross_entropy_weight must be at least 0, not {config.cross_entropy_weight}")

    def bind(self, model: nn.Module) -> None:
        need(model, Decodes)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        found = super().counts(batch)
        found["token"] = found.pop("loss")
        pairs = count(present(batch).sum(), like=batch["target"])
        return {"risk": pairs, "reward": pairs, **found}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        supervised = self.settings.cross_entropy_weight > 0 or not model.training
        terms = super().forward(model, batch, turn) if supervised else Terms({})
        sums = {"token": terms.sums.pop("loss"), **terms.sums} if self.settings.cross_entropy_weight else {}
        answers = self.sample(model, batch)
        rewards = self.rewards(answers, batch)
        risk = self.risk(model, batch, answers, rewards).masked_fill(~present(batch), 0.0)
        reward = rewards.mean(1).masked_fill(~present(batch), 0.0).sum()
        return Terms({"risk": risk.sum(), **sums}, {"reward": reward, **terms.metrics})

    def risk(self, model: Any, batch: Batch, answers: Tensor, rewards: Tensor) -> Tensor:
        """Answers (B, K, N), their rewards (B, K) -> what is made small for each pair (B,)."""
        raise NotImplementedError

    def sample(self, model: Any, batch: Batch) -> Tensor:
        """Answers drawn from the model (B, K, N), IGNORE behind END."""
        key, (most, steps) = random.fold(row_key(batch), "answers"), self._room(model, batch)
        c, source, lengths = self.settings, batch["source"], batch["source_length"]
        return sample_targets(model, source, lengths, key, most, steps, c.start, c.end, c.samples, IGNORE)

    def greedy(self, model: Any, batch: Batch) -> Tensor:
        """The answer of the likeliest tokens (B, 1, N)."""
        most, steps = self._room(model, batch)
        c = self.settings
        return greedy_targets(model, batch["source"], batch["source_length"], most, steps, c.start, c.end, IGNORE)

    def _room(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """Most tokens of an answer of each pair (B,), and of any."""
        steps = batch["target"].size(1) - 1 + self.settings.extra_tokens
        steps = min(steps, (getattr(model.config, "context", 0) or steps + 1) - 1)
        most = (batch["target_length"] - 1 + self.settings.extra_tokens).clamp(min=1, max=steps)
        return most, steps

    def rewards(self, answers: Tensor, batch: Batch) -> Tensor:
        """Answers (B, K, N) -> their rewards, from 0 to 1 (B, K)."""
        b, k, n = answers.shape
        if self.settings.reward == "constant":
            return torch.ones(b, k, device=answers.device)
        wanted = truth(batch)
        if self.settings.reward == "exact_match":
            size = max(n, wanted.size(1))
            padded = (F.pad(each, (0, size - each.size(-1)), value=IGNORE) for each in (answers, wanted[:, None]))
            same = torch.eq(*padded)
            return same.all(-1).float()
        given = answers.flatten(0, 1)
        sizes = ((given != IGNORE) & (given != self.config.end)).sum(1)
        reference, lengths = (each.repeat_interleave(k, 0) for each in (wanted, (batch["target_length"] - 2).clamp(min=0)))
        bleu = batched_ngrams.sentence_bleu(batched_ngrams.statistics(given, sizes, reference, lengths))
        return (bleu / 100).float().view(b, k)

    def log_probs(self, model: Any, batch: Batch, answers: Tensor) -> Tensor:
        """Answers (B, K, N) -> their log-probabilities given their sources (B, K), with a gradient."""
        b, k, _ = answers.shape
        memory, lengths = encoded(model, batch["source"], batch["source_length"])
        rows = answers.flatten(0, 1)
        start = torch.full_like(rows[:, :1], self.config.start)
        read = torch.cat([start, rows[:, :-1].masked_fill(rows[:, :-1] == IGNORE, self.config.end)], 1)
        hidden = model.decode(read, memory.repeat_interleave(k, 0), lengths.repeat_interleave(k, 0))
        logits = model.head(hidden).float().flatten(0, 1)
        return -F.cross_entropy(logits, rows.flatten(), ignore_index=IGNORE, reduction="none").view(b, k, -1).sum(-1)


def present(batch: Batch) -> Tensor:
    """Which rows hold a pair (B,)."""
    return (batch["source_length"] > 0) & (batch["target_length"] > 1)
