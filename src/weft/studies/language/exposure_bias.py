"""Exposure bias: how much more often a decoder is wrong once it reads its own tokens (Ranzato et al., 2015, arXiv:1511.06732).

Under teacher forcing a decoder is asked for every token behind the true ones; by itself it reads what it said. The error of the one less
that of the other, by position, is what it never learned: to go on from its own mistakes. Scheduled sampling shows it some in training.
The task is to write numbers in English words, character by character. A word of another length shifts all that follows, which counts as
wrong. Shapes: B pairs, N tokens.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataLoader
from weft.data.text.number_words import NumberWordsConfig
from weft.inference.sequence_sampling import decode_steps
from weft.inference.translate import start_and_end
from weft.models.base import EncoderDecoder, need
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.scheduled_sampling import ScheduledSamplingConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig, truth
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.runs.load import load
from weft.studies.base import Finding
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

TEACHER, SCHEDULED = "teacher forcing", "scheduled sampling"


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    run: str = ""
    """A trained encoder-decoder with its own validation data; none trains a small Transformer in both ways."""
    steps: int = 200
    """Training steps of each model."""
    min_epsilon: float = 0.5
    """What the probability of a true token falls to, linearly, by the end of the training with scheduled sampling."""
    passes: int = 1
    """Passes in which its own tokens are drawn."""
    width: int = 48
    """Width of the models."""
    limit: int = 10_000
    """Numbers are below this."""
    examples: int = 500
    """Pairs that are measured."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Of weights, order and draws; each trains both models."""


@dataclass(frozen=True)
class Subject:
    """A trained model with the pairs to measure it on."""

    model: Any
    batch: Batch
    start: int

    def greedy(self, change: Callable[[int, Tensor, Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """What the model says by itself (B, N), and where it counts; change: from step, logits and its own choice to what it reads."""
        said: list[Tensor] = []

        def choose(step: int, logits: Tensor) -> Tensor:
            said.append(logits.argmax(-1))
            return change(step, logits, said[-1]) if change else said[-1]

        wanted = truth(self.batch)
        decode_steps(self.model, self.batch["source"], self.batch["source_length"], self.start, wanted.size(1), choose)
        return torch.stack(said, 1) != wanted, wanted != IGNORE

    @torch.no_grad()
    def taught(self) -> tuple[Tensor, Tensor]:
        """Where the model is wrong behind true tokens (B, N), and where it counts."""
        hidden = self.model.hidden(self.batch["source"], self.batch["source_length"], self.batch["target"][:, :-1])
        wanted = truth(self.batch)
        return self.model.head(hidden).argmax(-1) != wanted, wanted != IGNORE


def data_of(settings: Settings) -> Data:
    return NumberWordsConfig(limit=settings.limit, pairs=settings.limit).build()


def trained(settings: Settings, data: Data, way: str, seed: int) -> Subject:
    """A small Transformer, trained in one of both ways."""
    torch.manual_seed(seed)
    sizes = {"vocabulary": data.info["vocabulary"], "context": data.info["context"]}
    model = TransformerConfig(layers=2, heads=4, width=settings.width, norm="pre", dropout=0.0, **sizes).build()
    known = {"label_smoothing": 0.0, "decode": False, "start": data.info["start"], "end": data.info["end"]}
    decay = {"decay": "linear", "decay_steps": settings.steps / (1 - min(settings.min_epsilon, 0.999)), "passes": settings.passes}
    config = Seq2SeqConfig(**known) if way == TEACHER else ScheduledSamplingConfig(**known, **decay)  # type: ignore[arg-type]
    objective, run = config.build(), Train(steps=settings.steps, batch=32, seed=seed, device="cpu", compile="off")
    plan = execution.choose(run, model, objective)
    optim = Adam(lr=4e-3, betas=(0.9, 0.98), clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=30, min_lr_ratio=0.05))
    Trainer(model, objective, DataLoader(data.train, seed, plan.device), run, optim, plan, []).fit()
    return Subject(model.eval(), held_out(data, settings.examples), data.info["start"])


def held_out(data: Data, examples: int) -> Batch:
    """Pairs that were not trained on."""
    if data.validation is None:
        raise DataError("the run has no validation data to measure on; train it with --data.validation above 0")
    return DataLoader(data.validation, 0, torch.device("cpu"), shuffle=False).batch(0, min(examples, len(data.validation)))


def subjects(settings: Settings) -> dict[str, list[Subject]]:
    """Models by how they were trained, one for each seed; the one that was named alone."""
    if settings.run:
        loaded = load(settings.run, "cpu")
        need(loaded.model, EncoderDecoder)
        data = loaded.recipe.data.build_with(loaded.tokenizer)
        return {settings.run: [Subject(loaded.model, held_out(data, settings.examples), start_and_end(loaded.tokenizer)[0])]}
    if not settings.seeds or not 0.0 <= settings.min_epsilon <= 1.0:
        raise ConfigError(f"expected seeds and a min_epsilon from 0 to 1, found {settings.seeds} and {settings.min_epsilon}")
    data = data_of(settings)
    return {way: [trained(settings, data, way, seed) for seed in settings.seeds] for way in (TEACHER, SCHEDULED)}


def by_position(wrong: Tensor, counted: Tensor) -> list[float]:
    """Share that is wrong at each position, where at least one target in ten has one."""
    there = counted.sum(0)
    enough = there >= max(1, len(wrong) // 10)
    share: list[float] = ((wrong & counted).sum(0) / there.clamp(min=1))[enough].tolist()
    return share


def overall(wrong: Tensor, counted: Tensor) -> float:
    return float((wrong & counted).sum() / counted.sum())


def study(settings: Settings) -> Finding:
    """The error by position, behind true tokens and behind its own."""
    measured = {way: [(one.taught(), one.greedy()) for one in each] for way, each in subjects(settings).items()}
    curves, rows, gaps = [], [], {}
    for number, (way, each) in enumerate(measured.items()):
        free = [by_position(*alone) for _, alone in each]
        gap = [[a - b for a, b in zip(one, by_position(*taught), strict=True)] for one, (taught, _) in zip(free, each, strict=True)]
        curves += [curve(f"{way}, free-running", free, f"c{2 * number}"), curve(f"{way}, the gap", gap, f"c{2 * number + 1}")]
        errors = [(overall(*taught), overall(*alone)) for taught, alone in each]
        gaps[way] = [alone - taught for taught, alone in errors]
        whole = [float((wrong & counted).any(1).float().mean()) for _, (wrong, counted) in each]
        rows.append((way, spread([e for e, _ in errors]), spread([e for _, e in errors]), spread(gaps[way]), spread(whole)))
    figure = chart("error of a token, by position", curves, tall=True, across="position")
    head = ("trained by", "error behind true tokens", "free-running", "gap (exposure bias)", "targets with an error")
    return Finding("Exposure bias", conclusion(settings, gaps), head, tuple(rows), figure)


def curve(label: str, runs: Sequence[Sequence[float]], style: str, places: Sequence[float] = ()) -> Curve:
    """The mean over seeds, and from the lowest to the highest; places: of the values, from 1 where none are given."""
    at = list(zip(places or range(1, len(runs[0]) + 1), zip(*runs, strict=True), strict=True))
    band = [(x, min(v), max(v)) for x, v in at] if len(runs) > 1 else []
    return Curve(label, [(x, statistics.mean(v)) for x, v in at], style, band=band)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}{deviation} %"


def conclusion(settings: Settings, gaps: dict[str, list[float]]) -> str:
    """What the numbers say, in words."""
    if settings.run:
        return (
            f"By itself the decoder of {settings.run} is wrong {spread(gaps[settings.run])} of the tokens more often than behind true ones."
        )
    return (
        f"{len(settings.seeds)} seeds, {settings.steps} steps each. Free-running, a decoder trained by teacher forcing is wrong "
        f"{spread(gaps[TEACHER])} of the tokens more often than behind true ones; after scheduled sampling it is {spread(gaps[SCHEDULED])}."
    )
