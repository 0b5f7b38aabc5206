"""What a memory of fixed size holds (Cho et al., 2014, arXiv:1409.1259), and where a decoder looks that has more (Luong et al., 2015).

A recurrent encoder and decoder copy or reverse strings of letters. Without attention all of a string must fit into the encoder's last
state: short strings do, and the longer the fewer. With attention the state need not hold them, and the weights say where each letter was
taken from: along the diagonal where strings are copied, along the other one where they are reversed. Lengths in training are as likely all.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from weft.core.config import Config, override
from weft.core.errors import ConfigError
from weft.data.base import Data, DataLoader
from weft.data.text.symbol_strings import SymbolStringsConfig, Task
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.inference.attention_weights import Recorder
from weft.models.language.rnn_seq2seq import RNNSeq2SeqConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.report.cells import cells
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language.exposure_bias import Subject, curve, spread
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

TASKS: tuple[Task, ...] = ("copy", "reverse")
WAYS: tuple[Literal["none", "dot"], ...] = ("none", "dot")
NAMES = {"none": "fixed memory", "dot": "attention"}


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    longest: int = 24
    """Letters of the longest string."""
    lengths: tuple[int, ...] = (2, 4, 8, 12, 16, 20, 24)
    """Letters of the strings on which it is tested."""
    width: int = 64
    """Of all states: how much a fixed memory has room for."""
    steps: int = 400
    """Of training, 64 strings each."""
    pairs: int = 20_000
    """Strings to train on."""
    examples: int = 200
    """Strings of each length that are tested."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Of weights and order."""


def data_of(settings: Settings, task: Task) -> SymbolStringsConfig:
    return SymbolStringsConfig(task=task, longest=settings.longest, pairs=settings.pairs)


def trained(settings: Settings, data: Data, attention: Literal["none", "dot"], seed: int) -> Any:
    """A recurrent encoder and decoder of strings."""
    torch.manual_seed(seed)
    model = RNNSeq2SeqConfig(cell="gru", width=settings.width, attention=attention, vocabulary=data.info["vocabulary"]).build()
    objective = Seq2SeqConfig(label_smoothing=0.0, decode=False, start=data.info["start"], end=data.info["end"]).build()
    plan = execution.choose(Train(steps=settings.steps, batch=64, seed=seed, device="cpu", compile="off"), model, objective)
    optim = Adam(lr=1e-2, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=30, min_lr_ratio=0.05))
    run = Train(steps=settings.steps, batch=64, seed=seed, device="cpu", compile="off")
    Trainer(model, objective, DataLoader(data.train, seed, plan.device), run, optim, plan, []).fit()
    return model.eval()


def of_length(settings: Settings, task: Task, tokenizer: Seq2SeqTokenizer, length: int) -> Data:
    """Strings of one length that were drawn apart from those of training."""
    sizes = {"shortest": length, "longest": length, "pairs": 2 * settings.examples, "validation": 0.5, "seed": 1}
    return override(data_of(settings, task), sizes).build_with(tokenizer)


def tested(settings: Settings, model: Any, data: Data) -> tuple[float, Tensor]:
    """The share of strings that are right to the last letter, and the weights of the first (T, S); none without attention."""
    assert data.validation is not None
    batch = DataLoader(data.validation, 0, torch.device("cpu"), shuffle=False).batch(0, settings.examples)
    wrong, counted = Subject(model, batch, data.info["start"]).greedy()
    with torch.no_grad(), Recorder(model) as recorder:
        model.hidden(batch["source"], batch["source_length"], batch["target"][:, :-1])
    found = recorder.of(["decoder.cross"]) if "decoder.cross" in recorder.weights else []
    length = int(batch["source_length"][0]) - 1  # without END
    weights = found[0][:, 0, :length, :length] if found else torch.zeros(0, length, length)
    return 1 - float((wrong & counted).any(1).float().mean()), weights


def where_it_stood(weights: Tensor, task: Task) -> float:
    """The share of the weights (B, T, S) on the letter that is written or on one beside it."""
    target, source = (torch.arange(size) for size in weights.shape[1:])
    letter = target if task == "copy" else len(target) - 1 - target
    near = (source[None] - letter[:, None]).abs() <= 1
    return float((weights * near).sum(-1).mean())


def study(settings: Settings) -> Finding:
    """Train with and without attention, and test by length."""
    if not settings.seeds or not settings.lengths or min(settings.lengths) < 1:
        raise ConfigError(f"expected seeds and lengths of at least 1, found {settings.seeds} and {settings.lengths}")
    rows, charts, maps = [], [], []
    exact: dict[tuple[str, str], list[list[float]]] = {}
    for task in TASKS:
        data, curves, middle = data_of(settings, task).build(), [], sorted(settings.lengths)[len(settings.lengths) // 2]
        assert isinstance(data.tokenizer, Seq2SeqTokenizer)
        held = {length: of_length(settings, task, data.tokenizer, length) for length in settings.lengths}
        for way in WAYS:
            by_seed, looked = [], []
            for seed in settings.seeds:
                model = trained(settings, data, way, seed)
                results = {length: tested(settings, model, each) for length, each in held.items()}
                by_seed.append([right for right, _ in results.values()])
                looked.append(results[middle][1])
            exact[task, way] = by_seed
            curves.append(curve(NAMES[way], by_seed, f"c{WAYS.index(way)}", settings.lengths))
            near = spread([where_it_stood(each, task) for each in looked]) if way != "none" else "–"
            rows.append((task, NAMES[way], *(spread(list(each)) for each in zip(*by_seed, strict=True)), near))
            if way != "none":
                maps.append(cells(f"weights, {task}: letters written downwards, read across", looked[0][0].tolist()))
        charts.append(chart(f"share of strings right to the last letter, {task}, by length", curves, tall=True, across="letters"))
    head = ("task", "memory", *(f"{length} letters" for length in settings.lengths), f"weight where the letter stood, {middle} letters")
    return Finding("A memory of fixed size", conclusion(settings, exact), head, tuple(rows), "".join(charts + maps))


def conclusion(settings: Settings, exact: dict[tuple[str, str], list[list[float]]]) -> str:
    """What the numbers say, in words."""
    ends = (settings.lengths.index(min(settings.lengths)), settings.lengths.index(max(settings.lengths)))
    said = []
    for task in TASKS:
        short, long = ({way: 100 * statistics.mean(seed[end] for seed in exact[task, way]) for way in WAYS} for end in ends)
        fixed, attention = (f"{short[way]:.1f} % of the shortest strings and {long[way]:.1f} % of the longest" for way in WAYS)
        said.append(f"{task}: {fixed} are right to the last letter from a fixed memory, {attention} with attention")
    sizes = (
        f"{len(settings.seeds)} seeds, strings of {min(settings.lengths)} to {max(settings.lengths)} letters, states of {settings.width}"
    )
    return f"{sizes} numbers. In the task {'; in the task '.join(said)}."
