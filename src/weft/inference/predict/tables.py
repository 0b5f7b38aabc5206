"""The class of a row of a table, or a number told of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from weft.core.errors import ConfigError
from weft.data.base import Batch, Problems
from weft.data.io.records import Records
from weft.data.tables.columns import Columns
from weft.inference.predict.base import (
    TYPED,
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
)


class TableRows(Predictor):
    """The class or the number of a row of cells."""

    most_items = 4096

    def __init__(self, trained: Trained):
        super().__init__(trained)
        self.table: Columns = trained.tokenizer
        self.kind = "class" if self.table.classes else "number"
        if self.table.text:  # whose bags are dense in a batch
            self.most_items = max(64, (1 << 21) // self.table.buckets)

    @classmethod
    def asked_of(cls, tokenizer: Any) -> tuple[str, ...]:
        return tuple(f"{column.name}={'1.5' if column.numeric else 'words'}" for column in tokenizer.columns)

    @property
    def columns(self) -> list[str]:
        return class_columns(self.table.classes) if self.table.classes else ["prediction"]

    def known_names(self) -> set[str]:
        return {name for name in (self.table.label, *(column.name for column in self.table.columns)) if not name.isdecimal()}

    def choose(self, names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
        """A column of the file for each that the model learned from."""
        wanted = [column.name for column in self.table.columns]
        found = named(names, chosen) or tuple(name for name in wanted if name in names)
        if len(found) != len(wanted):
            missing = ", ".join(repr(name) for name in wanted if name not in found)
            raise ConfigError(
                f"the model learned from the columns {', '.join(wanted)}, and the input lacks {missing or 'some'} (it has "
                f"{', '.join(names)}); name as many in that order with --columns"
            )
        return found

    def example(self, row: Row, columns: Sequence[str]) -> tuple[list[str], str]:
        cells = [row.cells.get(column) for column in columns]
        if nested := next((column for column, cell in zip(columns, cells, strict=True) if isinstance(cell, dict | list)), None):
            raise BadRow(f"{nested!r} is not a number or a text")
        return ["" if cell is None else str(cell) for cell in cells], row.location

    def items(self, examples: Sequence[tuple[list[str], str]], problems: Problems) -> Items:
        names = [column.name for column in self.table.columns]
        rows = Records(Path(TYPED), names, [cells for cells, _ in examples], places=[location for _, location in examples])
        return Items.one_each(self.table.features_of(rows, torch.zeros(len(examples)), problems))

    def compute(self, batch: Batch) -> list[Any]:
        """The probabilities of the classes, or the number."""
        logits = self.model.classify(batch["x"])
        return shares_of(logits) if self.table.classes else logits[:, 0].float().tolist()

    def result(self, example: Any, found: list[tuple[Any, Any]]) -> Result:
        [(_, said)] = found
        if not self.table.classes:
            return {"prediction": said * self.table.deviation + self.table.mean}
        return class_result(self.table.classes, said)

    def typed(self, words: Sequence[str]) -> list[Row]:
        cells = dict(word.split("=", 1) for word in words if "=" in word)
        wanted = [column.name for column in self.table.columns]
        if len(cells) != len(words) or set(cells) - set(wanted):
            more = " …" if len(wanted) > 4 else ""
            raise ConfigError(f"a row is typed as {' '.join(self.asked[:4])}{more}, with the columns of training")
        return [Row({**dict.fromkeys(wanted, ""), **cells})]

    def shown(self, result: Result) -> Shown:
        return ranked(result) if self.table.classes else [("number", f"{result['prediction']:.6g}")]
