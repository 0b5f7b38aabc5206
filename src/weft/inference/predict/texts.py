"""The class or the number of a text or a pair of texts, and the likeliest of several ways to go on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.annotated.label_sets import joined
from weft.data.base import Batch, Problems
from weft.data.text.packing import LabelledSequences, Texts, pack
from weft.data.text.text_columns import ID_COLUMNS, LABEL_SETS, LABELS, PAIRS, SINGLE, text_names
from weft.inference.predict.base import (
    BadRow,
    Items,
    Predictor,
    Result,
    Row,
    Shown,
    Trained,
    class_columns,
    class_result,
    named,
    ranked,
    shares_of,
    text_of,
)
from weft.models.base import ClassifiesText, offers

CHOICE = re.compile(r"(choice|ending|option|answer)s?[ _]?\w{0,3}", re.IGNORECASE)


class TextLabels(Predictor):
    """The class of a text or a pair, or a number told of it."""

    def __init__(self, trained: Trained):
        super().__init__(trained)
        self.source = trained.recipe.data
        self.number: int = getattr(self.tokenizer, "texts", 0)
        """Texts of an example, as in training; 0 where the checkpoint does not say."""
        self.classes: list[str] = self.tokenizer.classes
        self.kind = "class" if self.classes else "number"

    @classmethod
    def asked_of(cls, tokenizer: Any) -> tuple[str, ...]:
        return ("a text", "another text") if getattr(tokenizer, "texts", 0) == 2 else ("a text",)

    @property
    def columns(self) -> list[str]:
        return class_columns(self.classes) if self.classes else ["prediction"]

    def known_names(self) -> set[str]:
        own = {self.source.text, self.source.second, self.source.label, *getattr(self.tokenizer, "columns", ())}
        usual = {*LABELS, *SINGLE, *ID_COLUMNS, *(name for pair in PAIRS for name in pair)}
        return usual | {name for name in own if name and not name.isdecimal()}

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        own = getattr(self.tokenizer, "columns", ()) or [name for name in (self.source.text, self.source.second) if name]
        found = named(names, chosen) or (tuple(own) if own and set(own) <= set(names) - {"1", "2"} else text_names(names, self.number))
        self.check_number(len(found), f"the columns {', '.join(names)}", "name those to read with --columns")
        return found

    def check_number(self, number: int, what: str, fix: str) -> None:
        if number not in ((self.number,) if self.number else (1, 2)):
            wanted = {1: "one text", 2: "a pair of texts"}.get(self.number, "one text or two")
            raise ConfigError(f"this model was trained on {wanted} per row, but {what} give {number or 'none'}; {fix}")

    def example(self, row: Row, columns: Sequence[str]) -> Texts:
        return Texts(tuple(text_of(row, column) for column in columns), row.location)

    def items(self, examples: Sequence[Texts], problems: Problems) -> Items:
        sequences = [each for texts in examples for each in self.source.sequences(texts)]
        packed = self.source.packed(sequences, self.tokenizer.tokens, problems)
        data = LabelledSequences(packed, torch.zeros(len(examples), dtype=torch.int64))
        return Items.one_each(data, packed.ids.sizes.view(len(examples), -1).amax(1).tolist())

    def compute(self, batch: Batch) -> list[Any]:
        """The probabilities of the classes, or the number."""
        logits = self.logits(batch)
        return shares_of(logits, self.model) if self.classes else logits[:, 0].float().tolist()

    def logits(self, batch: Batch) -> Tensor:
        """The logits of classes (B, C), or numbers (B, 1)."""
        if offers(self.model, ClassifiesText):
            ids = batch["ids"]
            hidden = self.model.hidden(ids.flatten(0, -2)).view(*ids.shape, -1)
            found: Tensor = self.model.class_logits(hidden, batch["lengths"])
        else:
            found = self.model.classify(batch["ids"], batch["segments"], batch["lengths"])
        return found

    def result(self, example: Texts, found: list[tuple[Any, Any]]) -> Result:
        [(_, said)] = found
        if not self.classes:
            return {"prediction": said * self.tokenizer.deviation + self.tokenizer.mean}
        return class_result(self.classes, said)

    def typed(self, words: Sequence[str]) -> list[Row]:
        if len(words) not in (1, 2):
            raise ConfigError(f"one text or two are expected, but {len(words)} were given; put each into quotes")
        fix = f"for example: weft sample CKPT {' '.join(f'{word!r}' for word in self.asked)}; a file of texts goes to weft predict"
        self.check_number(len(words), "the words typed", fix)
        return [Row({str(number): word for number, word in enumerate(words, 1)})]

    def shown(self, result: Result) -> Shown:
        return ranked(result) if self.classes else [("number", f"{result['prediction']:.4g}")]


class LabelSets(TextLabels):
    """The labels of a text, each told where its probability reaches the threshold of training."""

    def __init__(self, trained: Trained):
        super().__init__(trained)
        self.kind = "labels"
        self.threshold: float = trained.recipe.objective.threshold

    @property
    def columns(self) -> list[str]:
        return [name for name in class_columns(self.classes) if name != "probability"]

    def known_names(self) -> set[str]:
        return super().known_names() | set(LABEL_SETS)

    def compute(self, batch: Batch) -> list[Any]:
        """The probabilities of the labels."""
        return self.logits(batch).float().sigmoid().tolist()

    def result(self, example: Texts, found: list[tuple[Any, Any]]) -> Result:
        [(_, shares)] = found
        predicted = joined(name for name, share in zip(self.classes, shares, strict=True) if share >= self.threshold)
        listed = class_result(self.classes, shares).get("probabilities")
        return {"prediction": predicted, **({"probabilities": listed} if listed else {})}

    def shown(self, result: Result) -> Shown:
        return ranked(result) if "probabilities" in result else [("labels", result["prediction"] or "none")]


class Choice(NamedTuple):
    text: str
    choices: list[str]
    location: str


class Choices(Predictor):
    """The likeliest of several ways to go on."""

    kind = "choice"
    asked = ("a text", "one way to go on", "another way")

    @property
    def columns(self) -> list[str]:
        return ["prediction", "probability", "index"]

    def known_names(self) -> set[str]:
        return {"context", "question", "text", "choices", "label"}

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        """The text's columns, then "choices" or the column of each choice."""
        if chosen:
            return named(names, chosen)
        texts = [name for name in names if name.lower() in ("context", "question", "text", "premise")]
        choices = ["choices"] if "choices" in names else [name for name in names if CHOICE.fullmatch(name.lower())]
        if not texts or not choices:
            raise ConfigError(
                f"which of the columns ({', '.join(names)}) are the text and its choices? context or question, and choices (a list) or "
                "choice1, choice2, … are expected; name them with --columns"
            )
        return (*texts, *choices)

    def example(self, row: Row, columns: Sequence[str]) -> Choice:
        cells = {name: row.cells.get(name) for name in columns}
        listed = next((value for value in cells.values() if isinstance(value, list)), None)
        choices = listed or [value for name, value in cells.items() if CHOICE.fullmatch(name.lower()) and value]
        texts = [value for name, value in cells.items() if value and not isinstance(value, list) and not CHOICE.fullmatch(name.lower())]
        if not all(isinstance(text, str) and text.strip() for text in (*texts, *choices)) or not texts:
            raise BadRow("the context or a choice is not a text")
        if len(choices) < 2:
            raise BadRow(f"at least two choices are needed, not {len(choices)}")
        return Choice(" ".join(texts), list(choices), row.location)

    def items(self, examples: Sequence[Choice], problems: Problems) -> Items:
        pairs = [(owner, choice) for owner, each in enumerate(examples) for choice in each.choices]
        texts = [Texts((examples[owner].text, choice), examples[owner].location) for owner, choice in pairs]
        tokens = getattr(self.tokenizer, "tokens", self.tokenizer)
        packed = pack(texts, tokens, self.trained.recipe.data.context, problems)
        data = LabelledSequences(packed, torch.zeros(len(pairs), dtype=torch.int64))
        return Items(data, [owner for owner, _ in pairs], packed.ids.sizes.tolist(), [None] * len(pairs))

    def compute(self, batch: Batch) -> list[float]:
        ids, lengths = batch["ids"][:, None], batch["lengths"][:, None]  # (B, 1, T), (B, 1): a choice alone
        if offers(self.model, ClassifiesText):
            hidden = self.model.hidden(ids.flatten(0, 1)).view(*ids.shape, -1)
            scores: Tensor = self.model.choice_logits(hidden, lengths)
        else:
            scores = self.model.choose(ids, batch["segments"][:, None], lengths)
        return scores[:, 0].float().tolist()

    def result(self, example: Choice, found: list[tuple[Any, Any]]) -> Result:
        shares = torch.tensor([score for _, score in found]).softmax(0).tolist()
        best = max(range(len(shares)), key=shares.__getitem__)
        result = {"prediction": example.choices[best], "probability": shares[best], "index": best}
        return {**result, "probabilities": dict(zip(example.choices, shares, strict=True))}

    def typed(self, words: Sequence[str]) -> list[Row]:
        if len(words) < 3:
            raise ConfigError("a text and at least two ways to go on are expected; put each into quotes")
        return [Row({"context": words[0], "choices": list(words[1:])})]

    def title(self, words: Sequence[str]) -> str:
        return words[0]

    def shown(self, result: Result) -> Shown:
        return ranked(result)
