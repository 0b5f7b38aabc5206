"""What objectives of word vectors have in common: words are predicted from a centre word (skip-gram) or from its context (CBOW).

A batch holds examples, or passages of text. Passages are cut into examples here: words are subsampled first, so that windows reach
farther over what is left (Mikolov et al., 2013, arXiv:1310.4546), and an example's key is made of its passage's and its place.

With `centres` a step is many updates of plain SGD, one for each so many words of a passage, one after the other, as word2vec trains:
a function of the batch alone, whatever the number of threads. `kernels/c/word_vectors.py` makes those updates where it computes an
objective exactly, and `kernels/triton/word_vectors.py` on a GPU; `WordPrediction.update` makes them from PyTorch's gradients.

Batch: centre (B,), context (B, C) with IGNORE where there is no word; or words (B, L), IGNORE between sentences.
Shapes: M words that are read, T that are predicted, W window, V vocabulary, D width.
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
from weft.data.base import IGNORE, Batch, keep_probabilities
from weft.kernels.c import word_vectors
from weft.kernels.known import Unknown, check_checked, check_known, check_own, described
from weft.objectives.base import Counts, Objective, ObjectiveConfig, Terms


@dataclass(frozen=True, kw_only=True)
class WordPredictionConfig(ObjectiveConfig):
    unit = "nats per pair"

    architecture: Literal["skip_gram", "cbow"] = "skip_gram"
    """skip_gram predicts each context word from the centre word, cbow the centre word from the mean of its context words."""
    frequencies: tuple[int, ...] = ()
    """Occurrences of each word; () takes them from the data."""
    window: int = 0
    """Farthest context word W in passages; 0 takes it from the data."""
    subsample: float = 0.0
    """Frequency above which words of passages are subsampled; 0 takes it from the data."""
    centres: int = 0
    """Words of a passage per update of plain SGD, many in a step; 0 makes one update in a step, by the optimiser."""
    row_limit: int = 0
    """Gradients of a word that count in full in such an update; where there are more, their sum is that many times their mean, so that
    updates of thousands of centres, as a GPU wants them, do not overshoot frequent words. 0 adds all."""


class WordPrediction(Objective):
    autocast = False
    """Gathering vectors takes the time, not multiplying them."""
    keep: Tensor

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        for name in ("window", "subsample", "centres", "row_limit"):
            if not 0.0 <= getattr(config, name) < math.inf:
                raise ConfigError(f"--objective.{name} must not be negative: {getattr(config, name)}")
        if not sum(config.frequencies):
            raise ConfigError("objective.frequencies is empty: word vectors need data that count their words, such as cooccurrence")
        if config.row_limit and (type(self).outputs is WordPrediction.outputs or not config.centres):
            raise ConfigError("--objective.row_limit is for --objective.centres with negative sampling or hierarchical softmax")
        self.known = (0, False)
        self.register_buffer("keep", keep_probabilities(config.frequencies, config.subsample), persistent=False)
        if config.centres:
            self.updates_model, self.carries, self.compile, self.capture = True, True, False, False  # type: ignore[assignment]

    # -- examples -------------------------------------------------------------------------------------------------------------

    def examples(self, batch: Batch) -> Batch:
        """inputs (B, M), targets (B, T), both with IGNORE where there is no word, and key (B,)."""
        if "words" in batch:
            batch = {name: tensor.flatten(0, 1) for name, tensor in self.passages(batch).items()}
        centre, context, key = batch["centre"].unsqueeze(1), batch["context"], batch["key"]
        if self.config.architecture == "skip_gram":
            return {"inputs": centre, "targets": context, "key": key}
        return {"inputs": context, "targets": torch.where((context != IGNORE).any(1, keepdim=True), centre, IGNORE), "key": key}

    def passages(self, batch: Batch) -> Batch:
        """words (B, L), key (B,) -> centre (B, L), context (B, L, 2W) and key (B, L) of the words that subsampling keeps, in order; behind
        them, and where a sentence ends, all context is IGNORE."""
        words, key, reach = batch["words"], batch["key"], self.config.window
        if not reach:
            raise ConfigError("--objective.window is 0: say how far the context reaches, or take data that do, such as passages")
        length = words.size(1)
        stays = (words < 0) | (random.uniform(random.fold(key, "subsample"), length) < self.keep[words.clamp(min=0)])
        place = torch.argsort((~stays).to(torch.uint8), dim=1, stable=True)  # (B, L)
        kept = torch.where(stays, words, IGNORE).gather(1, place)
        keys = random.fold(key.unsqueeze(1), place)  # (B, L)
        sentence = (kept < 0).cumsum(1)
        offset = torch.arange(2 * reach, device=words.device) - reach
        offset = offset + (offset >= 0)  # -W … -1, 1 … W
        near = torch.arange(length, device=words.device)[:, None] + offset  # (L, 2W)
        real = (near >= 0) & (near < length) & (offset.abs() <= 1 + random.integers(random.fold(keys, "reach"), reach, 1))
        near = near.clamp(0, length - 1)
        context = kept[:, near]  # (B, L, 2W)
        real &= (context >= 0) & (kept >= 0).unsqueeze(-1) & (sentence[:, near] == sentence.unsqueeze(-1))
        return {"centre": kept.clamp(min=0).long(), "context": torch.where(real, context, IGNORE).long(), "key": keys}

    def counts(self, batch: Batch) -> Counts:
        """Predictions of a batch."""
        return {"loss": (self.examples(batch)["targets"] != IGNORE).sum().float()}

    # -- losses ---------------------------------------------------------------------------------------------------------------

    def losses(self, model: Any, hidden: Tensor, targets: Tensor, real: Tensor, key: Tensor) -> Terms:
        """What is read (B, D), targets (B, T) at least 0, whether each counts (B, T), key (B,) -> the sum of losses of those that do."""
        raise NotImplementedError

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        if not torch.is_grad_enabled() and (found := self.by_kernel(model, batch, 0.0)):
            return found[0]
        examples = self.examples(batch)
        targets = examples["targets"]
        return self.losses(model, model.mean(examples["inputs"]), targets.clamp(min=0), targets != IGNORE, examples["key"])

    # -- many updates in a step -----------------------------------------------------------------------------------------------

    def c_settings(self) -> word_vectors.Settings | None:
        """What the updates in C need to know to be this objective's; None where they are of other mathematics."""
        return None

    def outputs(self, targets: Tensor, key: Tensor) -> Tensor | None:
        """Where each prediction is some rows of the table of contexts, told from others by a logistic loss: targets (B, T), key (B,) ->
        twice the row and its label (B, T * N), negative where there is none."""
        return None

    def by_kernel(self, model: Any, batch: Batch, rate: float) -> tuple[Terms, Counts] | None:
        """The updates by a kernel, or at a rate of 0 the losses alone; None where none serves."""
        if not self.config.centres or "words" not in batch or not self.is_known(model):
            return None
        return (self.in_triton if model.centre.weight.is_cuda else self.in_c)(model, batch, rate)

    def is_known(self, model: Any) -> bool:
        """Whether model and objective compute what the kernels know, looked at once for each model: default deny, as of layers."""
        if self.known[0] != id(model):
            self.known = (id(model), not described(check_tables, model, self))
        return self.known[1]

    def in_c(self, model: Any, batch: Batch, rate: float) -> tuple[Terms, Counts] | None:
        tables = model.centre.weight, model.context.weight
        if not word_vectors.serves(*tables) or not (settings := self.c_settings()):
            return None
        loss, pairs = word_vectors.update(*tables, batch["words"], batch["key"], settings, rate)
        return Terms({"loss": torch.tensor(loss)}), {"loss": torch.tensor(pairs)}

    def in_triton(self, model: Any, batch: Batch, rate: float) -> tuple[Terms, Counts] | None:
        from weft.kernels.triton import word_vectors as on_gpu  # Triton is not everywhere

        tables = model.centre.weight, model.context.weight
        if not on_gpu.serves(*tables):
            return None
        rows = self.passages(batch)
        length = rows["key"].size(1)
        each = min(self.config.centres, length)
        rows = {name: F.pad(t, (*[0, 0] * (t.ndim - 2), 0, -length % each), value=IGNORE).flatten(0, 1) for name, t in rows.items()}
        examples = self.examples(rows)
        if (codes := self.outputs(examples["targets"], examples["key"])) is None:
            return None
        real = (examples["targets"] != IGNORE).sum()
        losses = on_gpu.update(*tables, examples["inputs"], codes, len(codes) // each, rate, self.config.row_limit)
        return Terms({"loss": losses.double().sum()}), {"loss": real.double()}

    def update(self, model: Any, batch: Batch, turn: str, rate: float) -> tuple[Terms, Counts]:
        """One update of plain SGD for each `centres` words of each passage: in C, by Triton, or from PyTorch's gradients."""
        if found := self.by_kernel(model, batch, rate):
            return found
        tables = model.centre.weight, model.context.weight
        sums, counts = [], []
        rows = self.passages(batch) if "words" in batch else {name: tensor.unsqueeze(0) for name, tensor in batch.items()}
        for row in range(len(rows["key"])):
            for first in range(0, rows["key"].size(1), self.config.centres):
                part = {name: tensor[row, first : first + self.config.centres] for name, tensor in rows.items()}
                counts.append(self.counts(part)["loss"])
                with torch.enable_grad():
                    sums.append(self(model, part, turn).sums["loss"])
                    gradients = torch.autograd.grad(sums[-1], tables)
                with torch.no_grad():
                    if self.config.row_limit:
                        gradients = tuple(g * scale[:, None] for g, scale in zip(gradients, self.scales(part, len(tables[0])), strict=True))
                    torch._foreach_add_(list(tables), list(gradients), alpha=-rate)
        return Terms({"loss": torch.stack(sums).sum().detach()}), {"loss": torch.stack(counts).sum()}

    def scales(self, batch: Batch, vocabulary: int) -> tuple[Tensor, Tensor]:
        """How much of the gradients of each row of both tables counts under the limit, each (V,)."""
        examples = self.examples(batch)
        codes = self.outputs(examples["targets"], examples["key"])
        assert codes is not None
        read = examples["inputs"].masked_fill((examples["targets"] == IGNORE).all(1, keepdim=True), IGNORE)
        number = (rows[rows >= 0].bincount(minlength=vocabulary).clamp(min=1) for rows in (read, codes >> 1))
        into, out = ((self.config.row_limit / each).clamp(max=1.0) for each in number)
        return into, out


def check_tables(model: Any, objective: WordPrediction) -> None:
    """Raise Unknown where a model is not two plain tables, or it or the objective is of a class that no kernel was checked against."""
    settings = {name for name, value in vars(objective).items() if not callable(value)}
    for one, attributes in ((model, {"config"}), (objective, settings)):
        check_checked(type(one))
        check_own(one, type(one).__name__, attributes, None)
    for name in ("centre", "context"):
        check_known(getattr(model, name), name, nn.Embedding)
        if getattr(model, name).max_norm is not None:
            raise Unknown(f"{name} gives its vectors a norm of {getattr(model, name).max_norm:g} at most")


def log_prior(frequencies: tuple[int, ...], used: bool) -> Tensor:
    """log q(w) of every word (V,), q its share of the text, where it is used, else 0; a word that never occurs counts for half a one."""
    count = torch.tensor(frequencies, dtype=torch.float64).clamp(min=0.5)
    return (count / count.sum()).log().float() if used else torch.zeros(len(frequencies))
