"""Two meanings of one word: "bear" as an animal and as a verb, by vectors that know the context and by vectors that do not.

A small ELMo learns sentences made from templates. In sentences that it has not seen, the cosine of two uses of "bear" is high within one
meaning and low across, but for the vectors of words by themselves, which are one vector for both (Peters et al., 2018, section 5.3).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataLoader
from weft.data.text.bilm import BiLMSentencesConfig
from weft.data.tokenizers.word_characters import BOS, EOS, PADDING, WordCharacters
from weft.models.language.elmo import ELMo, ELMoConfig
from weft.objectives.language.bilm import BiLMConfig
from weft.studies.base import Finding
from weft.studies.scatter import scatter
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.settings import Train
from weft.training.trainer import Trainer

WORD = "bear"
NOUNS, VERBS = (WORD, "wolf", "fox", "dog", "goat"), (WORD, "carry", "hold", "accept", "share")
PLACES, BURDENS = ("river", "forest", "cave", "village"), ("cost", "pain", "burden", "weight")
TEMPLATES = {
    "noun": (
        "the {0} slept near the {1} .",
        "a hungry {0} ran into the {1} .",
        "we saw the {0} by the {1} .",
        "the old {0} left the {1} .",
    ),
    "verb": ("they could not {0} the {1} .", "she will {0} the {1} .", "he had to {0} the {1} .", "we must {0} some {1} ."),
}
"""Of each meaning; {0} is the word, or another of its kind, and {1} what goes with it."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    steps: int = 200
    """Steps of training."""
    batch: int = 32
    """Sentences of a step."""
    rate: float = 2e-2
    """Learning rate."""
    width: int = 32
    """Size of an LSTM's memory."""
    projection: int = 16
    """Size of the vector of a word."""
    held_out: float = 0.5
    """Share of the sentences with the word that are not learned from."""
    seed: int = 1
    """Of the weights, the order, and which sentences are held out."""


class Use(NamedTuple):
    """A sentence with the word, and its meaning there."""

    sentence: str
    meaning: str


def sentences(settings: Settings) -> tuple[list[str], list[Use]]:
    """Sentences to learn from, and held-out ones with the word."""
    if not 0 < settings.held_out < 1:
        raise ConfigError(f"--held-out must be between 0 and 1, not {settings.held_out}")
    chance, learned, held = random.Random(settings.seed), list[str](), list[Use]()
    for meaning, words, others in (("noun", NOUNS, PLACES), ("verb", VERBS, BURDENS)):
        uses = list[str]()
        for template, word, other in itertools.product(TEMPLATES[meaning], words, others):
            (uses if word == WORD else learned).append(template.format(word, other))
        chance.shuffle(uses)
        cut = max(2, round(len(uses) * settings.held_out))
        held += [Use(sentence, meaning) for sentence in uses[:cut]]
        learned += uses[cut:]
    return learned, held


def learned(texts: list[str], settings: Settings) -> ELMo:
    """A small ELMo that has read the sentences."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "sentences.txt")
        path.write_text("\n".join(texts), encoding="utf-8")
        data = BiLMSentencesConfig(path=str(path), validation=0.0, sentence_per_line=True).build()
    torch.manual_seed(settings.seed)
    config = ELMoConfig(
        words=data.info["words"],
        character_width=8,
        kernels=(1, 2, 3),
        filters=(8, 16, 16),
        highways=1,
        width=settings.width,
        projection=settings.projection,
        cell_clip=0.0,
        projection_clip=0.0,
        dropout=0.0,
    )
    model, objective, train = config.build(), BiLMConfig().build(), Train(steps=settings.steps, batch=settings.batch, seed=settings.seed)
    source = DataLoader(data.train, settings.seed, torch.device("cpu"))
    Trainer(model, objective, source, train, Adam(lr=settings.rate, clip_norm=1.0), execution.choose(train, model, objective)).fit()
    return model.eval()


@torch.no_grad()
def vectors(model: ELMo, uses: list[Use]) -> dict[str, Tensor]:
    """The vectors of the word in each sentence (N, 2P), by layer."""
    tokenizer = WordCharacters()
    rows = [[BOS, *tokenizer.encode(use.sentence).tolist(), EOS] for use in uses]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])
    layers = model.layers_of(ids)[0]
    where = torch.tensor([use.sentence.split().index(WORD) + 1 for use in uses])
    names = ["words alone", *(f"layer {number}" for number in range(1, len(layers)))]
    return {name: layer[torch.arange(len(uses)), where] for name, layer in zip(names, layers, strict=True)}


def cosines(found: Tensor, uses: list[Use]) -> tuple[float, float, float]:
    """found (N, D) -> the mean cosine of two uses within a meaning and across, and the share of uses whose nearest has their meaning."""
    unit = F.normalize(found.double(), dim=-1)
    cosine = unit @ unit.mT  # (N, N)
    noun = torch.tensor([use.meaning == "noun" for use in uses])
    same, other = noun[:, None] == noun, ~torch.eye(len(uses), dtype=torch.bool)
    rank = cosine.masked_fill(~other, -torch.inf)
    best = rank.amax(1, keepdim=True)
    nearest = (rank >= best - 1e-9).double()  # all of those that are equally near
    right = (nearest * same).sum(1) / nearest.sum(1)
    return float(cosine[same & other].mean()), float(cosine[~same].mean()), float(right.mean())


def rows(found: dict[str, Tensor], uses: list[Use]) -> Iterator[tuple[str, float, float, float]]:
    for name, layer in found.items():
        yield name, *cosines(layer, uses)


def plane(found: Tensor) -> Tensor:
    """found (N, D) -> its two principal components (N, 2), the farthest point at 1."""
    centred = (found - found.mean(0)).double()
    _, size, directions = torch.linalg.svd(centred, full_matrices=False)
    points = centred @ directions[:2].mT
    return points / max(float(points.abs().max()), 1e-6) if float(size[0]) > 1e-4 else torch.zeros_like(points)


def study(settings: Settings) -> Finding:
    """Cosines of the uses of a word with two meanings."""
    texts, uses = sentences(settings)
    found = vectors(learned(texts, settings), uses)
    measured = list(rows(found, uses))
    claim = (
        f'Two uses of "{WORD}" in sentences that were not learned from have a cosine of {measured[-1][1]:.2f} within a meaning and of '
        f"{measured[-1][2]:.2f} across in the last layer, and of {measured[0][1]:.2f} and {measured[0][2]:.2f} as words alone."
    )
    noun = torch.tensor([use.meaning == "noun" for use in uses])
    panels = []
    for name, layer in found.items():
        points = plane(layer)
        panels.append((name, [(points[noun].tolist(), "c0"), (points[~noun].tolist(), "c1")]))
    figure = scatter(f'Uses of "{WORD}" as a noun and as a verb, in two principal components', panels, 1.1)
    head = ("vectors", "cosine within a meaning", "across", "nearest use has the same meaning")
    table = tuple((name, f"{within:.3f}", f"{across:.3f}", f"{100 * right:.1f} %") for name, within, across, right in measured)
    return Finding("Two meanings of one word", claim, head, table, figure)
