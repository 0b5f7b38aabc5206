"""Every registered recipe in a form that trains in a second: how it is shrunk, and the files it needs."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.data.biographies import BiographiesConfig
from weft.recipes.base import Recipe

Changes = dict[str, Any]
TRAIN: Changes = {
    "train.steps": 12,
    "train.batch": 8,
    "train.log_every": 3,
    "train.eval_every": 4,
    "train.eval_examples": 24,
    "train.save_every": 5,
    "train.compile": "off",
}


def text_file(folder: Path) -> Path:
    """Sentences of a small grammar in paragraphs, about 20,000 characters."""
    path = folder / "text.txt"
    if not path.exists():
        chance = random.Random(0)
        who, does, what = ("the cat", "a dog", "my friend"), ("sees", "likes", "hears"), ("the moon", "a tree", "old songs", "rain")
        sentences = [f"{chance.choice(who)} {chance.choice(does)} {chance.choice(what)}." for _ in range(900)]
        path.write_text("\n\n".join(" ".join(sentences[i : i + 9]) for i in range(0, 900, 9)))
    return path


def table_file(folder: Path) -> Path:
    path = folder / "table.tsv"
    chance = random.Random(0)
    rows = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(200)]
    path.write_text("x\ty\tlabel\n" + "".join(f"{x:.4f}\t{y:.4f}\t{'up' if x + y > 0 else 'down'}\n" for x, y in rows))
    return path


def biographies(folder: Path) -> Path:
    """Lines about ten people, 40 of them, and one that has what a question needs."""
    path = folder / "people.txt"
    path.write_text(BiographiesConfig(people=10, places=4, variants=4).text() + "Where?\n")
    return path


def questions(folder: Path) -> Path:
    """Few enough questions to be learned by heart in a second."""
    path = folder / "questions.tsv"
    rows, _ = BiographiesConfig(people=10, places=4).questions()
    path.write_text("".join(f"{question}\t{place}\n" for question, place in rows))
    return path


def reads(folder: Path) -> Changes:
    """A recipe of the birthplace task that reads."""
    small = GPT | {"model.layers": 3, "data.context": 64, "data.shortest": 20, "data.longest": 56}
    return small | {"data.path": str(biographies(folder)), "data.validation": 0.2}


def mixes(folder: Path) -> Changes:
    """One that meets questions while it reads."""
    return reads(folder) | {"data.questions_path": str(questions(folder))}


def learns_to_answer(folder: Path) -> Changes:
    path = str(questions(folder))
    sizes = {"model.layers": 2, "model.heads": 2, "model.width": 32, "data.context": 64, "data.vocabulary_path": str(biographies(folder))}
    return sizes | {"data.path": path, "data.validation_path": path}


def pixels(chance: random.Random, label: int, side: int) -> bytes:
    """A dark image with a bright band whose place tells the class."""
    return bytes(min(255, chance.randrange(60) + (180 if row * 3 // side == label else 0)) for row in range(side) for _ in range(side))


def idx_folder(folder: Path, side: int = 28) -> Path:
    """MNIST's files with three classes."""
    made = folder / "mnist"
    made.mkdir(exist_ok=True)
    chance = random.Random(0)
    for part, number in (("train", 120), ("t10k", 60)):
        labels = [chance.randrange(3) for _ in range(number)]
        images = b"".join(pixels(chance, label, side) for label in labels)
        (made / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, number, side, side) + images)
        (made / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, number) + bytes(labels))
    return made


def image_folder(folder: Path) -> Path:
    """Two classes of small PNG files."""
    image = pytest.importorskip("PIL.Image")
    chance = random.Random(0)
    for name, label in (("high", 0), ("low", 2)):
        (folder / "images" / name).mkdir(parents=True, exist_ok=True)
        for number in range(30):
            image.frombytes("L", (9, 9), pixels(chance, label, 9)).save(folder / "images" / name / f"{number}.png")
    return folder / "images"


GPT: Changes = {"model.layers": 2, "model.heads": 2, "model.width": 32, "data.context": 16, "optim.schedule.warmup": 5}
DROPOUT: Changes = {f"model.{place}_dropout": 0.1 for place in ("embedding", "attention", "residual")}
DIGITS: Changes = {"optim.schedule.warmup": 5}
SHRINK: dict[str, Callable[[Path], Changes]] = {
    "gpt/quickstart": lambda folder: GPT | {"data.megabytes": 0.1},
    "gpt/text": lambda folder: GPT | DROPOUT | {"data.path": str(text_file(folder))},
    "gpt/bytes": lambda folder: GPT | {"data.megabytes": 0.1},
    "gpt/shakespeare_char": lambda folder: GPT | {"data.path": str(text_file(folder))},
    "gpt/shakespeare_cpu": lambda folder: GPT | {"data.path": str(text_file(folder))},
    "classifier/digits": lambda folder: DIGITS | {"model.hidden": (16,)},
    "classifier/mnist": lambda folder: {"model.hidden": (16,), "data.path": str(idx_folder(folder))},
    "classifier/images": lambda folder: {"model.hidden": (16,), "data.path": str(image_folder(folder))},
    "classifier/table": lambda folder: {"model.hidden": (16,), "data.path": str(table_file(folder))},
    "vae/digits": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4},
    "vae/semi_supervised": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4, "data.labelled": 0.3},
    "gan/digits": lambda folder: {"model.generator": (32,), "model.discriminator": (32,), "model.latent": 4, "model.dropout": 0.1},
    "rbm/digits": lambda folder: {"model.hidden": 16},
    "rbm/persistent": lambda folder: {"model.hidden": 16, "objective.particles": 20, "objective.sweeps": 2},
    "word2vec/source": lambda folder: {"model.width": 16, "data.path": str(text_file(folder)), "data.subsample": 0.0},
    "perceiver/source": lambda folder: GPT | DROPOUT | {"model.layers": 3, "model.bottleneck": 8, "data.megabytes": 0.1},
    "birthplace/reference": reads,
    "birthplace/perceiver": lambda folder: reads(folder) | {"model.bottleneck": 16},
    "birthplace/perceiver_ar": lambda folder: mixes(folder) | {"model.bottleneck": 16, "data.predicted": 16, "data.longest": 40},
    "birthplace/rotary": mixes,
    "birthplace/best": mixes,
    "birthplace/questions": learns_to_answer,
    "birthplace/questions_mixed": learns_to_answer,
    "birthplace/questions_perceiver": learns_to_answer,
    "birthplace/questions_only": learns_to_answer,
    "birthplace/made_up": reads,
    "birthplace/made_up_perceiver": lambda folder: reads(folder) | {"model.bottleneck": 16, "data.predicted": 16, "data.longest": 40},
    "birthplace/made_up_questions": learns_to_answer,
    "birthplace/made_up_only": learns_to_answer,
    "bert/pairs": lambda folder: {
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 32,
        "data.context": 32,
        "data.path": str(text_file(folder)),
        "optim.schedule.warmup": 5,
    },
}
"""What makes each recipe small; one that is missing here fails its contract with the advice to add it."""

BY_HEART: Changes = {"train.steps": 100, "optim.lr": 1e-2}
LEARN: dict[str, Changes] = {
    "gan/digits": {"train.steps": 150, "optim.discriminator.lr": 2e-3, "optim.generator.lr": 2e-3},
    "vae/semi_supervised": {"train.steps": 150, "optim.lr": 5e-3},
    "rbm/persistent": {"train.steps": 100},
    "bert/pairs": {"train.steps": 60},
    **{
        f"birthplace/{name}": {"train.steps": 100, "optim.lr": 1e-2}
        for name in ("questions", "questions_only", "questions_perceiver", "made_up_questions", "made_up_only")
    },
}
"""What a recipe needs to get visibly better in about two seconds, where 100 steps at its own rate are too few or too many."""


def tiny(name: str, folder: Path, changes: Changes | None = None) -> Recipe:
    """A registered recipe made small, its files in `folder`."""
    if name not in SHRINK:
        pytest.fail(f"{name}: say in tests/contracts/tiny.py how this recipe is made small")
    return weft.recipe(name, TRAIN | SHRINK[name](folder) | (changes or {}))


def without_dropout(recipe: Recipe) -> Changes:
    """What turns off every dropout of a recipe's model."""
    return {f"model.{name}": 0.0 for name in vars(recipe.model) if name.endswith("dropout")}
