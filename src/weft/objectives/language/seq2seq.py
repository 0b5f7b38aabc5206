"""Cross-entropy of a target sequence given its source, with label smoothing (Szegedy et al., 2015; Vaswani et al., 2017).

Every target token and its END is predicted from the source and the tokens before it. With smoothing e the wanted
distribution is 1 - e on the token and e spread evenly over the vocabulary. Validation also lets the model answer greedily and
gives BLEU over tokens, by which a checkpoint can be chosen, and the share of answers that are exact. Batch: source (B, S),
target (B, T) with START and END, source_length, target_length (B,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.inference.beam_models import translate
from weft.inference.constraints import Constraint
from weft.metrics.ngrams import bleu, statistics
from weft.models.base import SourceAttention, Subsamples, offers
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.language.attention_losses import coverage_loss, guided_attention_loss


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(ObjectiveConfig):
    unit = "nats per token"

    label_smoothing: float = 0.1
    """Label smoothing: share of the target probability that is spread evenly over the vocabulary."""
    r_drop: float = 0.0
    """R-Drop (Liang et al., 2021): weight of the KL divergence between two passes with different dropout; 0 makes one pass."""
    coverage: float = 0.0
    """Coverage loss (See et al., 2017): weight of the attention that a target pays to what was attended to before."""
    guided_attention: float = 0.0
    """Guided attention (Tachibana et al., 2017): weight of the attention far from the diagonal, for tasks whose two sides go along."""
    guided_width: float = 0.2
    """Width g of the diagonal that guided attention leaves free, as a share of the lengths."""
    decode: bool = True
    """Let the model answer in validation, and measure BLEU over tokens."""
    beams: int = 5
    """Width of the beam search by which whole answers are evaluated."""
    length_penalty: float = 0.6
    """Length penalty of the beam search (GNMT): scores are divided by ((5 + length) / 6) to this power; larger favours long answers."""
    scores: Literal["bleu", "brackets", "label_sets", "rouge", "squad", "tasks"] = "bleu"
    """How whole answers are judged in evaluation: bleu (and chrF) of translations, brackets (F1 as evalb has it) of parse trees,
    label_sets (set F1, micro and macro F1), rouge of summaries, squad (exact match and F1 of answers), tasks (of each task that a source
    begins with)."""
    unconstrained: bool = False
    """Let evaluation search all answers, where the tokenizer knows which are allowed, such as trees of the sentence's words."""
    lowercase: bool = False
    """Evaluation tells BLEU of texts in lower case, too."""
    tokenize: str = ""
    """Evaluation tells BLEU of texts cut into words by another tokenizer, too: intl, zh or more of sacrebleu, or moses-de and the like."""
    start: int = 0
    """Id of START; 0 takes it from the data."""
    end: int = 0
    """Id of END; 0 takes it from the data."""

    def build(self) -> Seq2Seq:
        return Seq2Seq(self)


class Seq2Seq(Objective):
    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        if not 0.0 <= config.label_smoothing < 1.0:
            raise ConfigError(f"--objective.label_smoothing must be at least 0 and below 1, not {config.label_smoothing}")
        for name in ("r_drop", "coverage", "guided_attention"):
            if not 0.0 <= getattr(config, name) < math.inf:
                raise ConfigError(f"--objective.{name} must be a weight of at least 0, not {getattr(config, name)}")
        if not 0.0 < config.guided_width < math.inf:
            raise ConfigError(f"--objective.guided_width must be above 0, not {config.guided_width}")
        self.attention_losses = tuple(name for name in ("coverage", "guided_attention") if getattr(config, name))
        self.weights = {name: getattr(config, name) for name in self.attention_losses}
        if self.attention_losses:
            self.needs = SourceAttention

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        tokens = count((batch["target_length"] - 1).clamp(min=0).sum(), like=batch["target"])
        sources = count((batch["source_length"] > 0).sum(), like=batch["target"])
        terms = dict.fromkeys(self.attention_losses, tokens)
        return {
            "loss": tokens,
            **terms,
            "log_loss": tokens,
            "accuracy": tokens,
            "exact": sources,
            "matches": count(1, like=batch["target"]),
        }

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        wanted, twice = truth(batch).flatten(), self.config.r_drop > 0 and model.training
        read, passes, terms = self.inputs(model, batch), [], dict[str, Tensor]()
        for _ in range(2 if twice else 1):
            if self.attention_losses:
                hidden, terms = self._attention_terms(model, batch, read)
            else:
                hidden = model.hidden(batch["source"], batch["source_length"], read)
            passes.append(model.head(hidden).float().flatten(0, 1))  # (B (T - 1), V)
        flat, smoothing = passes[0], self.config.label_smoothing
        losses = [F.cross_entropy(each, wanted, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing) for each in passes]
        loss = torch.stack(losses).mean()
        if twice:
            loss = loss + self.config.r_drop / 4 * r_drop_kl(flat, passes[1], wanted != IGNORE)
        plain = F.cross_entropy(flat.detach(), wanted, ignore_index=IGNORE, reduction="sum")
        right = (flat.detach().argmax(-1) == wanted).sum().float()
        return Terms({"loss": loss, **terms}, {"log_loss": plain, "accuracy": right})

    def _attention_terms(self, model: Any, batch: Batch, read: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The decoder's states (B, T - 1, D), and what its attention to the source costs."""
        lengths, written = batch["source_length"], (batch["target_length"] - 1).clamp(min=0)
        memory = model.encode(batch["source"], lengths)
        lengths = model.encoded_lengths(lengths) if offers(model, Subsamples) else lengths
        hidden, weights = model.decode_with_attention(read, memory, lengths)
        terms = {"coverage": partial(coverage_loss, weights, written)}
        terms["guided_attention"] = partial(guided_attention_loss, weights, lengths, written, self.config.guided_width)
        return hidden, {name: terms[name]() for name in self.attention_losses}

    def inputs(self, model: Any, batch: Batch) -> Tensor:
        """What the decoder reads (B, T - 1): the true tokens (teacher forcing)."""
        return batch["target"][:, :-1]

    def answers(self, model: nn.Module, source: Tensor, lengths: Tensor, constraints: Sequence[Constraint | None] = ()) -> list[list[int]]:
        """The best target of each source, as evaluation takes it; constraints: what each may say."""
        c = self.config
        how: dict[str, Any] = {"beams": c.beams, "length_penalty": c.length_penalty, "constraints": constraints}
        return [best[0].ids for best in translate(model, source, lengths, c.start, c.end, **how)]

    def search(self, model: nn.Module) -> dict[str, Any]:
        """How answers are found, for the record."""
        return {"beams": self.config.beams, "length_penalty": self.config.length_penalty}

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """The counts that BLEU is made of, summed over the batch (10,)."""
        if not self.config.decode:
            return {}
        start, end, lengths = self.config.start, self.config.end, batch["source_length"]
        there = (lengths > 0).nonzero().squeeze(1)
        longest = batch["target"].size(1) + 10
        found = translate(model, batch["source"][there], lengths[there], start, end, beams=1, length_penalty=0.0, longest=longest)
        total, exact = torch.zeros(10, dtype=torch.float64), 0
        for best, row in zip(found, batch["target"][there].tolist(), strict=True):
            answer, wanted = [token for token in best[0].ids if token != end], row[1 : row.index(end)]
            total += statistics(answer, wanted)
            exact += answer == wanted
        return {"matches": total.to(lengths.device), "exact": count(exact, like=lengths)}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        found = {name: float(value) for name, value in means.items() if value.numel() == 1}
        if "log_loss" in found:
            found["perplexity"] = math.exp(min(found["log_loss"], 700.0))
        if "matches" in means:
            found["token_bleu"] = bleu(means["matches"].double().cpu())
        return found


def truth(batch: Batch) -> Tensor:
    """What the decoder is to say after each token that it reads (B, T - 1); IGNORE behind END."""
    target = batch["target"]
    place = torch.arange(1, target.size(1), device=target.device)
    return target[:, 1:].masked_fill(place >= batch["target_length"][:, None], IGNORE)


def row_key(batch: Batch) -> Tensor:
    """One key for each pair (B,), also where an example is a batch of them."""
    return batch.get("row_key", batch["key"])


def r_drop_kl(first: Tensor, second: Tensor, counted: Tensor) -> Tensor:
    """KL divergence of one from the other and back, summed over the rows that count: logits (N, V) twice, counted (N,) -> ()."""
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).masked_fill(~counted, 0.0).sum()
