"""Tags of words: sentences without a mistake and, where tags are B-…, I-… and O, entities by the rules of CoNLL-2003.

An entity is a run of words of one type. It goes on with I- (or E-) after B- or I- of the same type, and everything else that is
not O begins another; it is right if type, beginning and end are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from weft.data.annotated.sentences import Sentence
from weft.data.annotated.tagged import Tagged
from weft.data.base import Batch
from weft.evaluation.evaluate import TaskMetrics
from weft.objectives.language.token_classification import TokenClassification
from weft.runs.load import Loaded

Entity = tuple[str, int, int]
PREFIXES = ("B-", "I-", "E-", "S-")


def entities(tags: Sequence[str]) -> set[Entity]:
    """The type, first and last word of every entity of a sentence."""
    found: set[Entity] = set()
    before, begin = "O", 0
    for position, tag in enumerate([*tags, "O"]):
        goes_on = tag[0] in "IE" and before[0] in "BI" and tag[2:] == before[2:]
        if not goes_on:
            if before != "O":
                found.add((before[2:], begin, position - 1))
            begin = position
        before = tag
    return found


def entity_scores(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, float]:
    """Precision, recall and F1 over all entities of sentences with their true and their predicted tags."""
    right = said = true = 0
    for tags, predicted in pairs:
        wanted, found = entities(tags), entities(predicted)
        right, said, true = right + len(wanted & found), said + len(found), true + len(wanted)
    return {"precision": right / max(1, said), "recall": right / max(1, true), "f1": 2 * right / max(1, said + true)}


def measure(loaded: Loaded, objective: TokenClassification, data: Tagged, batches: Iterable[Batch]) -> TaskMetrics:
    """How right the tags of whole sentences are."""
    names, whole = loaded.tokenizer.classes, tags_of(loaded, data, batches)
    right = sum(list(one.tags) == tags for one, tags in whole)
    found = {"sentence_accuracy": right / max(1, len(whole))}
    if all(tag == "O" or tag.startswith(PREFIXES) for tag in {*names, *(tag for one, _ in whole for tag in one.tags)}):
        found |= entity_scores((one.tags, tags) for one, tags in whole)
    lines = ("".join(f"{word}\t{tag}\t{said}\n" for word, tag, said in zip(one.words, one.tags, tags, strict=True)) for one, tags in whole)
    return TaskMetrics(found, "\n".join(lines), ".tsv")


def tags_of(loaded: Loaded, data: Tagged, batches: Iterable[Batch]) -> list[tuple[Sentence, list[str]]]:
    """What the model says of sentences; a last one of which only a piece is in the batches is left out."""
    names = loaded.tokenizer.classes
    predicted: list[list[str]] = []
    sentences = []
    predictions = (loaded.model.tag(batch["ids"], lengths=batch["lengths"]).argmax(-1).tolist() for batch in batches)  # type: ignore[operator]
    for chunk, row in zip(data.chunks, chain.from_iterable(predictions), strict=False):
        if not chunk.first:
            sentences.append(chunk.sentence)
            predicted.append([])
        predicted[-1] += [names[row[position]] for position in chunk.positions]
    return [(one, tags) for one, tags in zip(sentences, predicted, strict=True) if len(tags) == len(one.words)]
