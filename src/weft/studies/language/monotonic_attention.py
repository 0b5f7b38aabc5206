"""What guided attention and location-sensitive attention do where a target goes along its source, as in speech.

A recurrent encoder and decoder copy sequences of few symbols, one symbol of the target for each of the source. Attention by content sees
the same symbols again and again and loses its place, above all in sequences longer than those of training: it skips or repeats. Guided
attention (Tachibana et al., 2017) fines weights far from the diagonal in training; location-sensitive attention (Chorowski et al., 2015)
knows where it looked before.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.metrics.text_errors import common_subsequence
from weft.nn.recurrent import Recurrent
from weft.nn.rnn_attention import RNNAttention
from weft.nn.seq2seq.location_attention import LocationAttention
from weft.objectives.language.attention_losses import diagonal_distance
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

PAD, START, END, SPECIAL = 0, 1, 2, 3
HELD = 100
BAND = 0.1
"""Attention within this share of the lengths around the diagonal is on it."""
WAYS = {"content": (False, False), "content, guided": (False, True), "location": (True, False), "location, guided": (True, True)}


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    symbols: int = 5
    """Symbols of the sequences."""
    shortest: int = 10
    """Fewest symbols of a training sequence."""
    longest: int = 20
    """Most symbols of a training sequence."""
    lengths: tuple[int, ...] = (20, 40, 80)
    """Symbols of the sequences on which it is tested."""
    width: int = 64
    """Of all states."""
    guided: float = 1.0
    """Weight of guided attention, where it is used."""
    steps: int = 300
    """Of training, 32 sequences each."""
    seeds: int = 3
    """Networks trained each way."""


class Copier(nn.Module):
    """A bidirectional GRU, and a GRU that looks at its states by content, or by content and location."""

    compile = False  # type: ignore[assignment]

    def __init__(self, settings: Settings, location: bool):
        super().__init__()
        width = settings.width
        self.embed = nn.Embedding(settings.symbols + SPECIAL, width)
        self.encoder = Recurrent("gru", width, width // 2, bidirectional=True)
        self.decoder = Recurrent("gru", 2 * width, width)
        self.attention = LocationAttention(width, width, width, kernel=15) if location else RNNAttention("additive", width, width)
        self.head = nn.Linear(2 * width, settings.symbols + SPECIAL)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> states (B, S, D)."""
        states: Tensor = self.encoder(self.embed(source), lengths)[0]
        return states

    def decode_with_attention(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """target (B, T), memory (B, S, D), lengths (B,) -> what the head reads (B, T, 2 D), weights (B, T, S)."""
        walk = Walk(self, memory, lengths)
        steps = [walk.step(token) for token in target.unbind(1)]
        return torch.stack([hidden for hidden, _ in steps], 1), torch.stack([weights for _, weights in steps], 1)

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        return self.decode_with_attention(target, self.encode(source, lengths), lengths)[0]

    @torch.no_grad()
    def copy(self, source: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """source (B, S), all as long -> the likeliest target (B, T), from its end on END, and the weights (B, T, S)."""
        walk = Walk(self, self.encode(source), None)
        said, looked = [torch.full_like(source[:, 0], START)], []
        for _ in range(longest):
            hidden, weights = walk.step(said[-1])
            said.append(self.head(hidden).argmax(-1).masked_fill(said[-1] == END, END))
            looked.append(weights)
        return torch.stack(said[1:], 1), torch.stack(looked, 1)


class Walk:
    """A decoder on its way along its sources."""

    def __init__(self, model: Copier, memory: Tensor, lengths: Tensor | None):
        self.model, self.memory, self.keys = model, memory, model.attention.project(memory)
        self.mask = None if lengths is None else torch.arange(memory.size(1)) < lengths[:, None]
        self.context, self.state = torch.zeros_like(memory[:, :1]), dict[str, Tensor]()
        self.before = torch.zeros(memory.shape[:2])

    def step(self, token: Tensor) -> tuple[Tensor, Tensor]:
        """The token before (B,) -> what the head reads (B, 2 D), weights (B, S)."""
        read = torch.cat([self.model.embed(token).unsqueeze(1), self.context], -1)
        query, self.state = self.model.decoder(read, None, self.state or None)
        if isinstance(self.model.attention, LocationAttention):
            self.context, weights, self.before = self.model.attention(query, self.keys, self.memory, self.before, self.mask)
        else:
            self.context, weights = self.model.attention(query, self.keys, self.memory, self.mask)
        return torch.cat([query, self.context], -1)[:, 0], weights[:, 0]


def sequences(settings: Settings, number: int, shortest: int, longest: int, seed: int) -> TensorDataset:
    """Random symbols and END, and the same behind START."""
    keys = random.keys(seed, torch.arange(number))
    lengths = shortest + random.integers(random.fold(keys, "length"), longest - shortest + 1)
    symbols = SPECIAL + random.integers(random.fold(keys, "symbols"), settings.symbols, longest)
    place = torch.arange(longest + 1)
    source = torch.nn.functional.pad(symbols, (0, 1)).masked_fill(place == lengths[:, None], END).masked_fill(place > lengths[:, None], PAD)
    target = torch.nn.functional.pad(source, (1, 0), value=START)
    return TensorDataset({"source": source, "target": target, "source_length": lengths + 1, "target_length": lengths + 2})


def train(settings: Settings, way: str, seed: int) -> Copier:
    """A network of one kind."""
    location, guided = WAYS[way]
    torch.manual_seed(seed)
    model = Copier(settings, location)
    weight = settings.guided if guided else 0.0
    objective = Seq2SeqConfig(label_smoothing=0.0, guided_attention=weight, guided_width=BAND, decode=False, start=START, end=END).build()
    run = Train(steps=settings.steps, batch=32, seed=seed, device="cpu", precision="fp32", compile="off")
    plan = execution.choose(run, model, objective)
    source = DataLoader(sequences(settings, 32 * settings.steps, settings.shortest, settings.longest, 1), seed, plan.device)
    optim = Adam(lr=3e-3, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=20, min_lr_ratio=0.05))
    Trainer(model, objective, source, run, optim, plan, []).fit()
    return model.eval()


def test(settings: Settings, model: Copier, length: int) -> dict[str, float]:
    """Shares of symbols that are skipped and that are too many, of whole copies that are right, and of attention on the diagonal."""
    batch = sequences(settings, HELD, length, length, 2).tensors
    said, weights = model.copy(batch["source"], 2 * length)
    skipped = extra = right = 0
    for wanted, found in zip(batch["source"][:, :length].tolist(), said.tolist(), strict=True):
        found = list(itertools.takewhile(lambda token: token != END, found))
        common = common_subsequence(wanted, found)
        skipped, extra, right = skipped + length - common, extra + len(found) - common, right + (wanted == found)
    weights = weights[:, : length + 1]
    there = torch.full((HELD,), length + 1)
    near = diagonal_distance(weights, there, there).abs() <= BAND
    return {
        "skipped": skipped / (HELD * length),
        "repeated": extra / (HELD * length),
        "right": right / HELD,
        "on the diagonal": float((weights * near).sum(-1).mean()),
    }


def measured(settings: Settings) -> dict[str, dict[int, list[dict[str, float]]]]:
    """What every way measures at every length, a row for each seed."""
    found: dict[str, dict[int, list[dict[str, float]]]] = {way: {length: [] for length in settings.lengths} for way in WAYS}
    for way in WAYS:
        for seed in range(1, settings.seeds + 1):
            model = train(settings, way, seed)
            for length in settings.lengths:
                found[way][length].append(test(settings, model, length))
    return found


def study(settings: Settings) -> Finding:
    """Train networks each way, and copy sequences as long as in training and longer."""
    if not 1 <= settings.shortest <= settings.longest or not settings.lengths:
        raise ConfigError("expected shortest of at least 1, longest not below it, and at least one of lengths")
    found = measured(settings)
    names = ("skipped", "repeated", "right", "on the diagonal")

    def mean(rows: list[dict[str, float]], name: str) -> float:
        return statistics.mean(row[name] for row in rows)

    figure = ""
    for name in names:
        curves: list[Any] = [
            Curve(way, [(length, mean(rows, name)) for length, rows in by_length.items()], f"c{i}")
            for i, (way, by_length) in enumerate(found.items())
        ]
        figure += chart(f"share {name}, by length", curves, tall=True, across="symbols")
    rows = tuple(
        (
            way,
            str(length),
            *(f"{mean(each, name):.3f} ({min(r[name] for r in each):.3f} to {max(r[name] for r in each):.3f})" for name in names),
        )
        for way, by_length in found.items()
        for length, each in by_length.items()
    )
    last = settings.lengths[-1]
    shares = ", ".join(f"{100 * mean(by_length[last], 'skipped'):.1f} % ({way})" for way, by_length in found.items())
    claim = f"Trained on {settings.shortest} to {settings.longest} symbols and tested on {last}, attention skips {shares}."
    return Finding("Monotonic attention", claim, ("attention", "symbols", *names), rows, figure)
