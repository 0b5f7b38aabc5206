"""Tags of the words of a sentence, and the span of a paragraph that answers a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.core.errors import ConfigError
from weft.data.annotated.sentences import Sentence
from weft.data.annotated.spans import SpanWindow
from weft.data.annotated.squad import SpanExample
from weft.data.base import Batch, Problems
from weft.inference.predict.base import BadRow, Items, Predictor, Result, Row, Shown, Trained, named, text_of

WORDS = ("words", "tokens", "text", "sentence")
QUESTIONS, PARAGRAPHS = ("question", "query"), ("context", "paragraph", "passage", "text", "document")


class Tags(Predictor):
    """The tag of each word of a sentence."""

    kind = "tags"
    asked = ("a few words",)

    @property
    def columns(self) -> list[str]:
        return ["words", "tags"]

    def known_names(self) -> set[str]:
        return {*WORDS, "tags"}

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        found = named(names, chosen) or tuple(name for wanted in WORDS for name in names if name.lower() == wanted)[:1]
        found = found or (tuple(names) if len(names) == 1 else ())
        if len(found) != 1:
            raise ConfigError(f"which of the columns ({', '.join(names)}) is the sentence? name it with --columns")
        return found

    def example(self, row: Row, columns: Sequence[str]) -> Sentence:
        value = row.cells.get(columns[0])
        words = value if isinstance(value, list) else text_of(row, columns[0]).split()
        if not words or not all(isinstance(word, str) and word for word in words):
            raise BadRow("a sentence with at least one word is expected")
        return Sentence(tuple(words), (self.tokenizer.classes[0],) * len(words), row.location)

    def items(self, examples: Sequence[Sentence], problems: Problems) -> Items:
        data = self.trained.recipe.data.dataset(list(examples), self.tokenizer, problems)
        owner = torch.tensor([not chunk.first for chunk in data.chunks], dtype=torch.int64).cumsum(0).sub(1).tolist()
        return Items(data, owner, data.ids.sizes.tolist(), data.chunks)

    def compute(self, batch: Batch) -> list[list[int]]:
        found: list[list[int]] = self.model.tag(batch["ids"], lengths=batch["lengths"]).argmax(-1).tolist()
        return found

    def result(self, example: Sentence, found: list[tuple[Any, Any]]) -> Result:
        names = self.tokenizer.classes
        return {"words": list(example.words), "tags": [names[row[position]] for chunk, row in found for position in chunk.positions]}

    def typed(self, words: Sequence[str]) -> list[Row]:
        return [Row({"words": [word for text in words for word in text.split()]})]

    def title(self, words: Sequence[str]) -> str:
        return " ".join(words)

    def shown(self, result: Result) -> Shown:
        return list(zip(result["words"], result["tags"], strict=True))


@dataclass
class Best:
    """The best answer among the windows of a paragraph seen so far."""

    example: SpanExample
    text: str = ""
    score: float = -math.inf
    null: float = math.inf
    """The least score of no answer: one window that has the answer outweighs all that have not."""
    complete: bool = False
    start: int = 0
    """The character of the paragraph at which it begins."""

    def see(self, window: SpanWindow, score: float, first: int, last: int, null: float) -> None:
        if score > self.score:
            self.score, self.text, self.start = score, window.text(first, last), int(window.offsets[first - window.position, 0])
        self.null = min(self.null, null)
        self.complete = window.last


class Spans(Predictor):
    """The answer to a question in a paragraph."""

    kind = "answer"
    asked = ("a question", "a paragraph with the answer")

    def __init__(self, trained: Trained):
        super().__init__(trained)
        self.objective = trained.recipe.objective.build()

    @property
    def columns(self) -> list[str]:
        return ["prediction", "probability", "start", "no_answer"]

    def known_names(self) -> set[str]:
        return {*QUESTIONS, *PARAGRAPHS}

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        sides = [next((name for wanted in words for name in names if name.lower() == wanted), "") for words in (QUESTIONS, PARAGRAPHS)]
        found = named(names, chosen) or tuple(filter(None, sides))
        if len(found) != 2:
            raise ConfigError(
                f"which of the columns ({', '.join(names)}) are the question and the paragraph? name both with --columns QUESTION,PARAGRAPH"
            )
        return found

    def example(self, row: Row, columns: Sequence[str]) -> SpanExample:
        question, paragraph = (text_of(row, column) for column in columns)
        return SpanExample(row.location, question, paragraph, (), (0, 0), row.location)

    def items(self, examples: Sequence[SpanExample], problems: Problems) -> Items:
        data = self.trained.recipe.data.dataset(list(examples), self.tokenizer, problems)
        place = {id(example): index for index, example in enumerate(examples)}
        return Items(data, [place[id(window.example)] for window in data.windows], data.packed.ids.sizes.tolist(), data.windows)

    def compute(self, batch: Batch) -> list[tuple[float, int, int, float]]:
        return list(zip(*(part.flatten().tolist() for part in self.objective.decode(self.model, batch)), strict=True))

    def result(self, example: SpanExample, found: list[tuple[Any, Any]]) -> Result:
        best = Best(example)
        for window, said in found:
            best.see(window, *said)
        return {"prediction": best.text, "probability": math.exp(best.score), "start": best.start, "no_answer": math.exp(best.null)}

    def typed(self, words: Sequence[str]) -> list[Row]:
        if len(words) != 2:
            raise ConfigError(f"a question and a paragraph are expected, but {len(words)} texts were given; put each into quotes")
        return [Row({"question": words[0], "paragraph": words[1]})]

    def title(self, words: Sequence[str]) -> str:
        return words[0]

    def shown(self, result: Result) -> Shown:
        both = [(result["prediction"], result["probability"]), ("(no answer)", result["no_answer"])]
        return [(text, f"{share:.3f}") for text, share in sorted(both, key=lambda pair: -pair[1])]
