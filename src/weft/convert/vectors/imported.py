"""Files of word vectors and of fastText become runs: vectors a word2vec model, a classifier of fastText's one of the same mathematics."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.convert.vectors import fasttext_file, files
from weft.convert.vectors.fasttext_file import FastTextFile
from weft.convert.vectors.files import WordVectors
from weft.core import config
from weft.core.errors import CheckpointError
from weft.core.untrusted import parsing
from weft.data.annotated.bags import BagsConfig
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.character_ngrams import END, LABEL, FastTextTokenizer, SpacedWords, SubwordTokenizer
from weft.models import bounded
from weft.models.base import ModelConfig
from weft.models.language.fasttext import FastTextConfig
from weft.models.language.word2vec import Word2VecConfig
from weft.nn.huffman import huffman
from weft.recipes.base import recipe as find_recipe
from weft.training.checkpoint import checkpoint

EPSILON = 1e-5
"""What fastText adds to a probability before it takes the logarithm; it tells probabilities with it, which so exceed 1 at most by it."""


@dataclasses.dataclass(frozen=True)
class Imported:
    """The files of a checkpoint, and what is to be told of it."""

    content: dict[str, bytes]
    family: str
    parameters: int
    classes: int
    notes: list[str]


def imported(path: Path, origin: dict[str, str]) -> Imported:
    """What a file of vectors, or of fastText, becomes."""
    with parsing(path, CheckpointError):
        if not fasttext_file.is_fasttext(path):
            found = files.read(path)
            return vectors(found, SpacedWords(with_unknown(found)), origin)
        content = fasttext_file.read(path)
        return classifier(content, origin) if content.model == "supervised" else subword_vectors(content, origin)


def with_unknown(found: WordVectors) -> list[str]:
    """The words behind the token of unknown ones, whose vector is 0 where the file has none."""
    unknown, width = SpacedWords.UNKNOWN, found.vectors.shape[1]
    row = found.vectors[found.words.index(unknown)] if unknown in found.words else np.zeros(width, dtype=np.float32)
    kept = [place for place, word in enumerate(found.words) if word != unknown]
    others = found.vectors if len(kept) == len(found.words) else found.vectors[kept]
    found.words, found.vectors = [unknown, *(found.words[place] for place in kept)], np.concatenate([row[None], others])
    return found.words


def vectors(found: WordVectors, tokenizer: Tokenizer, origin: dict[str, str], ngrams: np.ndarray | None = None) -> Imported:
    words, width = found.vectors.shape
    centre = torch.from_numpy(found.vectors)
    tensors = {"centre.weight": centre, "context.weight": torch.zeros_like(centre)}
    settings = Word2VecConfig(vocabulary=words, width=width, ngrams=0 if ngrams is None else len(ngrams))
    if ngrams is not None:
        tensors["ngrams.weight"] = torch.from_numpy(ngrams)
    notes = (
        [f"words that the file has twice, of which the first counts: {len(found.repeated):,}, such as {found.repeated[0]!r}"]
        if found.repeated
        else []
    )
    return packed("word2vec/source", settings, tensors, tokenizer, {"from": "word vectors", **origin}, notes)


def subword_vectors(found: FastTextFile, origin: dict[str, str]) -> Imported:
    """The vectors that fastText tells: of a word the mean of its own and those of its n-grams."""
    names, width = [word.decode("utf-8", errors="replace") for word in found.words], found.settings["dim"]
    own, ngrams = found.input[: len(names)], found.input[len(names) :]
    minn, maxn = found.settings["minn"], found.settings["maxn"]
    if not len(ngrams) or not maxn:
        made = files.distinct(found.words, own)
        return vectors(made, SpacedWords(with_unknown(made)), origin)
    tokenizer = SubwordTokenizer(names, minn, maxn, found.settings["bucket"], found.kept if found.pruned else None)
    composed = np.empty((len(names), width), dtype=np.float32)
    for place, word in enumerate(names):
        rows = tokenizer.subwords(word) if word != END else ()
        total = own[place].copy()
        for row in rows:  # one after the other, as the sum is rounded after each
            total += ngrams[row]
        composed[place] = total / np.float32(len(rows) + 1) if rows else total
    made = files.distinct(found.words, composed)
    tokenizer = SubwordTokenizer(with_unknown(made), minn, maxn, tokenizer.buckets, tokenizer.kept)
    return vectors(made, tokenizer, origin, ngrams)


def classifier(found: FastTextFile, origin: dict[str, str]) -> Imported:
    settings, labels = found.settings, [label.removeprefix(LABEL) for label in found.labels]
    if len(set(labels)) < len(labels):
        raise CheckpointError("two of its labels have one name")
    words = [word.decode("utf-8", errors="replace") for word in found.words]
    buckets = settings["bucket"] if settings["maxn"] or settings["wordNgrams"] > 1 else 0
    kept = found.kept if found.pruned else None
    tokens = FastTextTokenizer(words, settings["minn"], settings["maxn"], buckets, kept, max(1, settings["wordNgrams"]))
    trees = found.loss == "hierarchical_softmax"
    model = FastTextConfig(
        vocabulary=len(found.input),
        classes=len(labels),
        width=settings["dim"],
        output=found.loss if found.loss in ("softmax", "hierarchical_softmax") else "one_vs_all",  # type: ignore[arg-type]
        tree=huffman(found.counts) if trees else (),
        epsilon=EPSILON if found.loss in ("softmax", "hierarchical_softmax") else 0.0,
    )
    data = BagsConfig(minn=settings["minn"], maxn=settings["maxn"], word_ngrams=tokens.word_ngrams, buckets=buckets)
    tensors = {"embedding.weight": torch.from_numpy(found.input), "head.weight": torch.from_numpy(found.output)}
    tokenizer = LabelledTokenizer(tokens, labels, columns=["text"])
    return packed("fasttext/classify", model, tensors, tokenizer, {"from": "fasttext", **origin}, [], data)


def packed(
    recipe: str,
    settings: ModelConfig,
    tensors: dict[str, Tensor],
    tokenizer: Tokenizer,
    origin: dict[str, str],
    notes: list[str],
    data: Any = None,
) -> Imported:
    """A checkpoint of the recipe with this model."""
    bounded.check(settings, tensors, "the file")
    made = dataclasses.replace(find_recipe(recipe), model=settings)
    made = dataclasses.replace(made, data=data) if data else made
    content = {
        "recipe.json": checkpoint.encode(config.to_dict(made)),
        "model.safetensors": checkpoint.pack(tensors),
        "tokenizer.json": tokenizers.dump(tokenizer),
        "metrics.json": checkpoint.encode({"step": 0, "converted": origin}),
    }
    size = sum(tensor.numel() for name, tensor in tensors.items() if not name.startswith("context."))
    return Imported(content, origin["from"], size, getattr(settings, "classes", 0), notes)
