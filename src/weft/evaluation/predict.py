"""What a trained model tells of something new: the class of a text, a pair or an image, a number, tags, an answer, a choice.

What is new becomes an example of the recipe's data, so that it is read exactly as those of training were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.choices import ChoiceExample, ChoicesConfig
from weft.data.annotated.labelled_texts import LabelledExample, LabelledTextsConfig
from weft.data.annotated.sentences import Sentence
from weft.data.annotated.spans import SpansConfig
from weft.data.annotated.squad import SpanExample
from weft.data.annotated.tagged import TaggedConfig
from weft.data.base import Batch, Data, Dataset, Problems
from weft.data.images.folder import MODES, SUFFIXES, decode_images
from weft.data.images.pixels import ImagesConfig
from weft.data.io.files import show, walk
from weft.data.text.packing import Texts
from weft.data.tokenizers.base import ClassNames
from weft.evaluation.best_span import answers
from weft.evaluation.entities import tags_of
from weft.evaluation.evaluate import with_path
from weft.objectives.classification import ClassificationConfig, chosen
from weft.objectives.finetuning import FinetuningConfig
from weft.recipes.base import Recipe
from weft.runs.load import Loaded

Rows = list[tuple[str, str]]
PLACE = "what was typed"


@dataclass(frozen=True)
class Predictor:
    """How a kind of model is asked, and how it is made to answer."""

    asked: tuple[str, ...]
    """What it wants to be given, as one would type it."""
    tell: Callable[[Loaded, Sequence[str]], dict[str, Rows]]
    """The model and what was typed -> for each example what is told of it, and how sure the model is."""


def predictor(recipe: Recipe) -> Predictor | None:
    """The teller for the models of a recipe; None where they tell nothing of a text or image."""
    for kind, found in PREDICTORS.items():
        if isinstance(recipe.data, kind):
            return found
    of_images = isinstance(recipe.data, ImagesConfig) or recipe.data.file_source == "images"
    return IMAGES if of_images and isinstance(recipe.objective, ClassificationConfig) else None


def asked(recipe: Recipe, data: Data) -> tuple[str, ...]:
    """What to type to be told something by a model of this recipe; nothing where there is nothing to tell."""
    found = predictor(recipe)
    if found is CLASSES and bool((data.train.packed.seconds < data.train.packed.ids.sizes).any()):  # type: ignore[attr-defined]
        return "a text", "another text"
    return found.asked if found else ()


@torch.no_grad()
def tell(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    """What a model tells of what was typed."""
    found = predictor(loaded.recipe)
    assert found is not None
    return found.tell(loaded, words)


def dataset_of(loaded: Loaded, example: Any) -> Dataset:
    """An example as the recipe's data make one of it, on the model's device."""
    source = loaded.recipe.data
    assert isinstance(source, AnnotatedConfig)
    source = replace(source, path=PLACE)  # what messages name
    return source.prepare([example], [], loaded.tokenizer, Problems()).train.to(next(loaded.model.parameters()).device)


def whole(data: Dataset) -> Batch:
    index = torch.arange(len(data), device=data.device)
    return data.batch(index, torch.zeros_like(index))


def logits(loaded: Loaded, batch: Batch) -> Tensor:
    """Of the classes or choices of one example (C,), or its number (1,)."""
    model: Any = loaded.model
    objective: Any = loaded.recipe.objective
    if isinstance(objective, FinetuningConfig):
        ids = batch["ids"]
        hidden = model.hidden(ids.flatten(0, -2)).view(*ids.shape, -1)
        found: Tensor = (model.choice_logits if objective.choices else model.class_logits)(hidden, batch["lengths"])
    elif isinstance(loaded.recipe.data, ChoicesConfig):
        found = model.choose(batch["ids"], batch["segments"], batch["lengths"])
    else:
        found = model.classify(*chosen(batch, objective.inputs))
    return found[0].float()


def ranked(names: Sequence[str], scores: Tensor, most: int = 10) -> Rows:
    """Names with their probabilities, the likeliest first."""
    best = scores.softmax(0).topk(min(most, len(names)))
    return [(names[i], f"{p:.3f}") for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def predict_class(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    if len(words) not in (1, 2):
        raise ConfigError(f"one text or two are expected, but {len(words)} were given; put each into quotes")
    tokenizer = loaded.tokenizer
    label = tokenizer.classes[0] if tokenizer.classes else "0"
    scores = logits(loaded, whole(dataset_of(loaded, LabelledExample(Texts(tuple(words), PLACE), label))))
    if not tokenizer.classes:
        return {" | ".join(words): [("number", f"{float(scores) * tokenizer.deviation + tokenizer.mean:.4g}")]}
    return {" | ".join(words): ranked(tokenizer.classes, scores)}


def predict_choice(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    if len(words) < 3:
        raise ConfigError("a text and at least two ways to go on are expected; put each into quotes")
    text, *choices = words
    return {text: ranked(choices, logits(loaded, whole(dataset_of(loaded, ChoiceExample(text, choices, 0, PLACE)))))}


def predict_tags(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    sentence = tuple(word for text in words for word in text.split())
    if not sentence:
        raise ConfigError("a sentence with at least one word is expected")
    example = Sentence(sentence, (loaded.tokenizer.classes[0],) * len(sentence), PLACE)
    data: Any = dataset_of(loaded, example)
    [(_, tags)] = tags_of(loaded, data, [whole(data)])
    return {" ".join(sentence): list(zip(sentence, tags, strict=True))}


def predict_span(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    if len(words) != 2:
        raise ConfigError(f"a question and a paragraph are expected, but {len(words)} texts were given; put each into quotes")
    question, paragraph = words
    data: Any = dataset_of(loaded, [SpanExample(PLACE, question, paragraph, (), (0, 0), PLACE)])
    objective: Any = loaded.recipe.objective.build()
    [best] = answers(loaded, objective, data, [whole(data)])
    found = [(best.text, best.score), ("(no answer)", best.null)]
    return {question: [(text, f"{math.exp(score):.3f}") for text, score in sorted(found, key=lambda pair: -pair[1])]}


def predict_images(loaded: Loaded, words: Sequence[str]) -> dict[str, Rows]:
    """The classes of image files, or of those in folders."""
    problems = Problems()
    paths = [Path(word).expanduser() for word in words]
    files = [file for path in paths for file in (walk(path, SUFFIXES, problems) if path.is_dir() else [path])]
    if not files:
        raise DataError(f"{show(words[0])}: the folder holds no image ({', '.join(SUFFIXES)})")
    source = images_for(loaded)
    device = next(loaded.model.parameters()).device
    opened = decode_images(files, source.decode_options, problems)
    if lines := problems.lines():
        raise DataError("; ".join(lines))
    found = {}
    for file, pixels in zip(files, opened, strict=True):
        image = torch.tensor(pixels).movedim(2, 0)[None].to(device)  # (1, C, H, W)
        batch = source.transform(image)({"image": image}, torch.zeros(1, dtype=torch.int64, device=device))
        scores = logits(loaded, batch)
        names = loaded.tokenizer.names if isinstance(loaded.tokenizer, ClassNames) else []
        found[show(file)] = ranked([*names, *map(str, range(len(names), len(scores)))], scores, most=5)
    return found


def images_for(loaded: Loaded) -> ImagesConfig:
    """The recipe's settings of images; what they leave to the files is what the model was built for."""
    source = with_path(loaded.recipe.data)
    assert isinstance(source, ImagesConfig)
    model: Any = loaded.recipe.model
    channels, height, width = getattr(model, "image", ()) or shape_of(model.features)
    size = source.size or (height if height == width and not source.crop_size else 0)
    return replace(source, size=size, channels=channels if channels in MODES else 0)  # type: ignore[arg-type]


def shape_of(features: int) -> tuple[int, int, int]:
    """The square image that has so many numbers: a number is never a square and three times a square at once."""
    channels = 1 if isqrt(features) ** 2 == features else 3
    side = isqrt(features // channels)
    return channels, side, side


CLASSES = Predictor(("a text",), predict_class)
IMAGES = Predictor(("picture.png",), predict_images)
PREDICTORS: dict[type, Predictor] = {
    LabelledTextsConfig: CLASSES,
    ChoicesConfig: Predictor(("a text", "one way to go on", "another way"), predict_choice),
    TaggedConfig: Predictor(("a few words",), predict_tags),
    SpansConfig: Predictor(("a question", "a paragraph with the answer"), predict_span),
}
