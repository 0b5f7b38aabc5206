"""The records of a task's file as items, which of them are asked, and which are shown as examples."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.files import locate, read_bytes, show, unix_lines
from weft.data.io.text import decode
from weft.evaluation.fewshot.tasks import Task
from weft.evaluation.fewshot.templates import Item


def find(task: Task, data: str = "") -> Path:
    """The file of a task: named itself, in a folder that is named, or below $WEFT_DATA."""
    if not data:
        return locate(task.file)
    given = locate(data)
    places = [given / task.file, given / Path(task.file).name] if given.is_dir() else [given]
    for place in places:
        if place.is_file():
            return place
    raise DataError(f"{show(given)} does not hold {task.file}; put it there, or name the folder or the file itself with --data.path")


def read(task: Task, path: Path, problems: Problems) -> list[Item]:
    """The items of a file of JSON lines or CSV; records that cannot be used are counted."""
    items = []
    lines = unix_lines(decode(read_bytes(path), path, problems)).split("\n")  # not splitlines: JSON may hold U+2028
    if ".csv" in path.suffixes:
        records: Iterable[tuple[int, Any]] = enumerate(csv.DictReader(lines), 2)
    else:
        records = ((number, parse(line)) for number, line in enumerate(lines, 1) if line.strip())
    for line, record in records:
        try:
            items.append(checked(task.read(record)))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"[:80]
            problems.add("records that are not what this task is made of, left out", f"{show(path)}:{line} ({what})")
    if not items:
        raise DataError(f"{show(path)}: has no record that this task can use ({'; '.join(problems.lines()) or 'it is empty'})")
    return items


def parse(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def checked(item: Item) -> Item:
    """An item whose parts are what they say."""
    texts = [*item.fields.values(), *item.answers, *item.references]
    if not all(isinstance(text, str) for text in texts) or not all(item.answers):
        raise TypeError("a text is missing")
    if not 0 <= item.right < len(item.answers):
        raise IndexError(f"there is no answer number {item.right}")
    return item


def asked(size: int, examples: int, seed: int) -> list[int]:
    """The numbers of the items that are asked: all, or so many drawn by the seed, in the order of the file."""
    if not 0 < examples < size:
        return list(range(size))
    return sorted(random.permute(np.arange(examples), size, random.seed_of(seed, "asked")).tolist())


def shown(number: int, items: Sequence[Item], shots: int, seed: int, pool: Sequence[Item] = ()) -> list[Item]:
    """Examples for one item, drawn from a pool or else from all others: a function of the seed and the item's number alone."""
    if not shots:
        return []
    given = pool or items
    order = random.permute(np.arange(len(given)), len(given), random.seed_of(seed, "shown", number)).tolist()
    others = (given[i] for i in order if (pool or i != number) and not given[i].akin(items[number]))
    found = list(islice(others, shots))
    if len(found) < shots:
        raise ConfigError(f"--shots {shots}: the file has only {len(found)} other records that could be shown as examples")
    return found
