"""Rows through a model, in windows: within one, items of similar size go together, and results come in the order of the rows.

The next window is read and tokenised in a thread while the model computes, and its batches wait for threads that are free while results
of this one are written. Memory holds three windows, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import torch

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.inference.predict.base import TYPED, BadRow, Items, Predictor, Result, Row, trimmed

WINDOW_CHARACTERS = 1 << 22
"""Characters of a window, beyond which it ends sooner."""
Map = Callable[[Callable[[list[int]], list[Any]], Sequence[list[int]]], Iterable[list[Any]]]
"""Calls a function with each batch."""
NOTHING = "it holds nothing that the model can read"
TOKENS_ON_CPU, TOKENS_ON_GPU = 4096, 1 << 16
"""Tokens that go through the model at once, unless one item has more."""


@dataclass
class Window:
    """Rows on their way."""

    rows: Sequence[Row | BadRow]
    examples: list[Any]
    place: list[int]
    """The row of each example."""
    items: Items | None
    results: list[Result | BadRow | None]
    problems: Problems = field(default_factory=Problems)


def cut(rows: Iterable[Row | BadRow], most: int) -> Iterator[list[Row | BadRow]]:
    """The rows in windows."""
    window: list[Row | BadRow] = []
    characters = 0
    for row in rows:
        window.append(row)
        characters += 0 if isinstance(row, BadRow) else sum(len(value) for value in row.cells.values() if isinstance(value, str))
        if len(window) == most or characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def prepare(predictor: Predictor, rows: Sequence[Row | BadRow], columns: Sequence[str]) -> Window:
    """Rows as items on the model's device; those of which nothing can be made are answered already."""
    found = Window(rows, [], [], None, [None] * len(rows))
    for place, row in enumerate(rows):
        try:
            if isinstance(row, BadRow):
                raise row
            found.examples.append(predictor.example(row, columns))
            found.place.append(place)
        except BadRow as bad:
            found.results[place] = bad
    if found.examples:
        items = predictor.items(found.examples, found.problems)
        found.items = replace(items, data=items.data.to(predictor.device))
    return found


def compute(predictor: Predictor, window: Window, run: Map = map) -> Iterator[tuple[int, Any]]:
    """What the model says of each item of a window, in any order; with `run` of a pool it begins at once."""
    items = window.items
    if not items:
        return iter(())
    data = items.data

    @torch.inference_mode()
    def computed(chosen: list[int]) -> list[Any]:
        index = torch.tensor(chosen, device=predictor.device)
        return predictor.compute(trimmed(data.batch(index, torch.zeros_like(index))))

    together = list(batches(items.sizes, predictor))
    found = run(computed, together)
    return chain.from_iterable(zip(chosen, said, strict=True) for chosen, said in zip(together, found, strict=True))


def finish(predictor: Predictor, window: Window, found: Iterable[tuple[int, Any]]) -> list[Result | BadRow]:
    """The result of each row of a window, from what the model says of its items."""
    of_example: list[list[tuple[int, Any]]] = [[] for _ in window.examples]
    items = window.items
    if items:
        for item, said in found:
            of_example[items.owner[item]].append((item, said))
    for number, (place, example) in enumerate(zip(window.place, window.examples, strict=True)):
        try:
            if items is None or not of_example[number]:
                raise BadRow((items.bad if items else {}).get(number, NOTHING))
            several = of_example[number]
            if len(several) > 1:
                several.sort(key=first)
            window.results[place] = predictor.result(example, [(items.about[item], one) for item, one in several])
        except BadRow as bad:
            window.results[place] = bad
    return [result if result is not None else BadRow(NOTHING) for result in window.results]


def first(pair: tuple[int, Any]) -> int:
    return pair[0]


def batches(sizes: Sequence[int], predictor: Predictor) -> Iterator[list[int]]:
    """Items of similar size, the longest first, as many together as the device likes."""
    tokens = TOKENS_ON_GPU if predictor.device.type == "cuda" else TOKENS_ON_CPU
    order = sorted(range(len(sizes)), key=lambda item: -sizes[item])
    batch: list[int] = []
    for item in order:
        size = sizes[batch[0]] if batch else 0
        full = len(batch) == predictor.most_items or (len(batch) + 1) * size > tokens
        if batch and (full or (predictor.same_size and sizes[item] != size)):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


@contextmanager
def thread_a_batch(predictor: Predictor) -> Iterator[Map]:
    """On a CPU several batches at once, a thread each: threads that share a batch wait for each other, and for who reads and writes."""
    threads = torch.get_num_threads()
    if predictor.device.type != "cpu" or threads == 1:
        yield map
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)


def predictions(
    predictor: Predictor, rows: Iterable[Row | BadRow], columns: Sequence[str], problems: Problems, run: Map = map
) -> Iterator[list[tuple[Row | BadRow, Result | BadRow]]]:
    """Each window's rows with their results. problems: what was truncated, and the like, is added to it. run: how batches are computed."""
    windows = cut(rows, predictor.window)

    def upcoming() -> Window | None:
        some = next(windows, None)
        return None if some is None else prepare(predictor, some, columns)

    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(upcoming)
        before: tuple[Window, Iterable[tuple[int, Any]]] | None = None
        while (current := waiting.result()) is not None or before:
            begun = (current, compute(predictor, current, run)) if current else None
            waiting = reader.submit(upcoming)
            if before:
                window, found = before
                results = finish(predictor, window, found)
                problems.include(window.problems)
                yield list(zip(window.rows, results, strict=True))
            before = begun


def tell(predictor: Predictor, words: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    """What is told of what was typed, under a title for each example; a DataError where it cannot be told."""
    rows = predictor.typed(words)
    columns = predictor.choose(list(rows[0].cells), ())
    found: dict[str, list[tuple[str, ...]]] = {}
    for window in predictions(predictor, rows, columns, Problems()):
        for row, result in window:
            if isinstance(result, BadRow):
                raise DataError(f"{getattr(row, 'location', TYPED)}: {result}")
            location = getattr(row, "location", TYPED)
            found[location if location != TYPED else predictor.title(words)] = [*predictor.shown(result)]
    return found


def predict_rows(predictor: Predictor, given: Iterable[Any], columns: Sequence[str] = ()) -> list[Result]:
    """The result of each of some values: texts, tuples of texts, or mappings from column to value; {"error": why} where there is none."""
    rows = [as_row(value, predictor.asked, number) for number, value in enumerate(given, 1)]
    names = dict.fromkeys(name for row in rows for name in row.cells)
    wanted = predictor.choose(list(names), columns) if rows else ()
    results: list[Result] = []
    for window in predictions(predictor, rows, wanted, Problems()):
        results += [{"error": str(result)} if isinstance(result, BadRow) else result for _, result in window]
    return results


def as_row(value: Any, asked: Sequence[str], number: int) -> Row:
    """A value as a row whose columns have the usual names."""
    location = f"row {number}"
    if isinstance(value, dict):
        return Row(value, location)
    if isinstance(value, tuple | list):
        pair = ("question", "paragraph") if asked[:1] == ("a question",) else ("text1", "text2")
        return Row(dict(zip(pair, islice(value, len(pair)), strict=False)) if len(value) == len(pair) else {"text": value[0]}, location)
    return Row({"file" if asked in (("picture.png",), ("sound.wav",)) else "text": value}, location)
