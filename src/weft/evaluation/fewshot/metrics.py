"""Whether what a model wrote is right: as text, as a number, as a translation."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from weft.core.errors import require
from weft.evaluation import squad
from weft.evaluation.fewshot.templates import Item
from weft.metrics import ngrams

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
Statistics = dict[str, tuple[float, ...]]


def same_text(said: str, item: Item) -> Statistics:
    """Exact match and F1 with the nearest reference, after SQuAD's normalisation."""
    return {"exact_match": (squad.exact(said, item.references),), "f1": (squad.f1(said, item.references),)}


def first_number(said: str, item: Item) -> Statistics:
    return {"accuracy": (float(value(NUMBER.search(said)) == float(item.references[0])),)}


def last_number(said: str, item: Item) -> Statistics:
    """The number after ####, where GSM8K puts the result, or the last there is."""
    _, marked, result = said.partition("####")
    found = list(NUMBER.finditer(said))
    number = value(NUMBER.search(result)) if marked else value(found[-1] if found else None)
    return {"accuracy": (float(number == float(item.references[0])),)}


def value(found: re.Match[str] | None) -> float | None:
    return float(found.group().replace(",", "")) if found else None


def translation(said: str, item: Item) -> Statistics:
    """What corpus BLEU needs to know of one translation, cut into words as sacrebleu does by default."""
    cut = sacrebleu_words()
    return {"bleu": tuple(ngrams.statistics(cut(said.strip()).split(), cut(item.references[0]).split()).tolist())}


@cache
def sacrebleu_words() -> Any:
    require("sacrebleu", "text")
    return require("sacrebleu.tokenizers.tokenizer_13a", "text").Tokenizer13a()
