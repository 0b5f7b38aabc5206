"""What lies in the layers of a frozen BERT, against finetuning all of it (Devlin et al., 2018, section 5.3).

Words are tagged from the states of some layers, side by side, by a bidirectional LSTM of two layers; BERT itself stays as it
was pretrained. In the paper the last four layers reach 96.1 F1 on CoNLL-2003 and finetuning 96.4: little is lost.

The small BERT that is pretrained where none is given is too weak to show this: in the one run made, finetuning it reached
72.7 % of the tags, and the same model without pretraining 79.6 %. Give a real one with --init.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from weft.core.config import Config
from weft.core.errors import CapabilityError, ConfigError
from weft.data.annotated.sentences import Sentence
from weft.data.annotated.tagged import Tagged, TaggedConfig, TagTokenizer
from weft.data.base import DataLoader, Problems
from weft.data.split import number_classes, shuffled
from weft.data.text.sentence_pairs import SentencePairsConfig
from weft.data.tokenizers.encoder_tokens import encoder_tokenizer
from weft.models.language.bert import BERT, BERTConfig
from weft.objectives.base import Objective
from weft.objectives.language.mlm_nsp import MLMNSPConfig
from weft.objectives.language.token_classification import TokenClassificationConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.runs.load import load
from weft.studies.base import Finding
from weft.training import execution
from weft.training.hooks import Hook, evaluate
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

log = logging.getLogger("weft")
PARAGRAPH = 8
"""Sentences that make a document of the pretraining text."""
END = (".", "!", "?")
"""Words that end a sentence, so that the pretraining text can be cut there again."""
BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = "nltk/brown.zip"
    """Sentences with tags, as bert/tags reads them."""
    cut: str = "-+*"
    """Characters before which a tag ends."""
    init: str = ""
    """A run of BERT, or one brought in by `weft convert`; empty pretrains a small one on the sentences that do not validate."""
    pretraining: int = 3000
    """Steps of that pretraining."""
    sentences: int = 2000
    """Tagged sentences to learn from."""
    held_out: int = 2000
    """Others to validate on."""
    epochs: int = 10
    """Passes over the tagged sentences."""
    rate: float = 5e-4
    """Learning rate of finetuning; 5e-5 suits a BERT of full size."""
    context: int = 64
    """Longest sequence of tokens."""
    seed: int = 1
    """Of the weights, the order and the noise."""


class OnFeatures(nn.Module):
    """An LSTM over the states of some layers of a model, which is not a part of it and so does not learn."""

    def __init__(self, frozen: BERT, layers: slice, classes: int, hidden: int = 128):
        super().__init__()
        self.frozen, self.layers = (frozen.eval(),), layers  # in a tuple, where PyTorch looks for no parameters
        number = len(range(frozen.config.layers + 1)[layers])
        self.lstm = nn.LSTM(number * frozen.config.width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, classes)

    def tag(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> class logits of every token (B, T, C)."""
        assert lengths is not None
        with torch.no_grad():
            states = torch.cat(self.frozen[0].layers_of(ids, segments, lengths)[self.layers], dim=-1)
        packed = pack_padded_sequence(states.float(), lengths.cpu(), batch_first=True, enforce_sorted=False)
        read, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.size(1))
        logits: Tensor = self.head(read)
        return logits


@dataclass
class Accuracy(Hook):
    """The share of right tags after every epoch."""

    held: DataLoader
    every: int
    points: list[tuple[int, float]] = field(default_factory=list)
    name = "accuracy"

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step % self.every == 0:
            found = evaluate(trainer.model, trainer.objective, self.held, len(self.held.dataset), 256)
            self.points.append((trainer.step // self.every, found["accuracy"]))


@dataclass
class Task:
    """The sentences of the study, and the model that is tried on them."""

    bert: BERT
    tokenizer: TagTokenizer
    train: Tagged
    held: Tagged


def prepare(settings: Settings) -> Task:
    """Read the sentences, and bring or pretrain the model."""
    source, problems = TaggedConfig(path=settings.path, cut=settings.cut, context=settings.context), Problems()
    sentences = source.read(settings.path, problems)
    if not 0 < settings.sentences < settings.sentences + settings.held_out < len(sentences):
        raise ConfigError(
            f"--sentences {settings.sentences} and --held-out {settings.held_out} must leave some of the {len(sentences)} there are"
        )
    order = shuffled(len(sentences), "features").tolist()
    chosen, held = order[: settings.sentences], set(order[settings.sentences : settings.sentences + settings.held_out])
    train, other = [sentences[i] for i in chosen], [sentences[i] for i in sorted(held)]
    bert, known = brought(settings) if settings.init else pretrained([s for i, s in enumerate(sentences) if i not in held], settings)
    tokens = encoder_tokenizer(known, source.tokenizer, [], 0)
    tokenizer = TagTokenizer(tokens, number_classes([tag for sentence in train for tag in sentence.tags])[1])
    task = Task(bert, tokenizer, source.dataset(train, tokenizer, problems), source.dataset(other, tokenizer, problems))
    for line in problems.lines():
        log.warning("data: %s", line)
    return task


def brought(settings: Settings) -> tuple[BERT, Any]:
    loaded = load(settings.init)
    if not isinstance(loaded.model, BERT):
        raise CapabilityError(f"--init: {type(loaded.model).__name__} has no layers of BERT; name a run of a bert recipe")
    return loaded.model, loaded.tokenizer


def pretrained(sentences: list[Sentence], settings: Settings) -> tuple[BERT, Any]:
    """A small BERT that has read the words of some sentences, without their tags."""
    words = [" ".join(sentence.words) + ("" if sentence.words[-1] in END else " .") for sentence in sentences]
    with TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("\n\n".join(" ".join(words[i : i + PARAGRAPH]) for i in range(0, len(words), PARAGRAPH)), encoding="utf-8")
        data = SentencePairsConfig(path=str(text), validation=0.0, vocabulary=8000, context=settings.context).build()
    torch.manual_seed(settings.seed)
    model = BERTConfig(vocabulary=data.tokenizer.size, context=settings.context, layers=4, heads=4, width=128, init_std=0.09).build()
    facts = {name: data.info[name] for name in ("vocabulary", "special_tokens", "mask")}
    source = DataLoader(data.train, settings.seed, execution.select_device("auto"))
    learn(model, MLMNSPConfig(**facts).build(), source, settings.pretraining, 1e-3, settings.seed)
    return model, data.tokenizer


def learn(
    model: nn.Module, objective: Objective, source: DataLoader, steps: int, rate: float, seed: int, hooks: tuple[Hook, ...] = ()
) -> None:
    settings = Train(steps=steps, batch=BATCH, seed=seed, compile="off", cuda_graphs="off")  # an LSTM asks the host for lengths
    optim = AdamW(lr=rate, weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=steps // 10))
    Trainer(model, objective, source, settings, optim, execution.choose(settings, model, objective), hooks).fit()


def finetuned(task: Task, fresh: bool = False) -> BERT:
    """The model with a head for tags, its other weights those of pretraining, or fresh ones."""
    config = dataclasses.replace(task.bert.config, task="tag", classes=len(task.tokenizer.classes))
    model = config.build()
    if not fresh:
        kept = {name: value for name, value in task.bert.state_dict().items() if not name.startswith(model.task_parts)}
        model.load_state_dict(model.state_dict() | kept)
    return model


LAYERS = {"embedding": slice(0, 1), "last layer": slice(-1, None), "last four layers": slice(-4, None), "all layers": slice(None)}


def compare(task: Task, settings: Settings) -> dict[str, list[tuple[int, float]]]:
    """The share of right tags after every epoch, of every way to use the model."""
    found = {}
    device = execution.select_device("auto")
    task.bert.to(device)
    for name in ("finetuned", "not pretrained", *LAYERS):
        torch.manual_seed(settings.seed)
        on_features = name in LAYERS
        model = OnFeatures(task.bert, LAYERS[name], len(task.tokenizer.classes)) if on_features else finetuned(task, name != "finetuned")
        epoch = -(-len(task.train) // BATCH)
        accuracy = Accuracy(DataLoader(task.held, settings.seed, device, shuffle=False), epoch)
        source = DataLoader(task.train, settings.seed, device)
        rate = 2e-3 if on_features else settings.rate
        learn(model, TokenClassificationConfig().build(), source, epoch * settings.epochs, rate, settings.seed, (accuracy,))
        found[name] = accuracy.points
    return found


def study(settings: Settings) -> Finding:
    """Tag words with a frozen model's features and by finetuning it."""
    found = compare(prepare(settings), settings)
    best, features = found["finetuned"][-1][1], found["last four layers"][-1][1]
    claim = (
        f"After {settings.epochs} epochs over {settings.sentences:,} sentences, an LSTM on the last four layers of a frozen BERT tags "
        f"{100 * features:.2f} % of the words rightly and a finetuned BERT {100 * best:.2f} %."
    )
    rows = tuple((name, f"{100 * points[-1][1]:.2f}", f"{100 * (points[-1][1] - best):+.2f}") for name, points in found.items())
    curves = [Curve(name, [(epoch, 100 * share) for epoch, share in points], f"c{i}") for i, (name, points) in enumerate(found.items())]
    figure = chart("right tags in %, by epoch", curves, tall=True, across="epoch")
    return Finding("Features or finetuning", claim, ("what is learned from", "right tags, %", "against finetuning"), rows, figure)
