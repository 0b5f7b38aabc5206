"""Strings that are copied or reversed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.text.symbol_strings import SymbolStringsConfig


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_targets_are_what_the_task_says(task: Any) -> None:
    data = SymbolStringsConfig(task=task, pairs=200, shortest=3, longest=8, symbols=4).build()
    assert data.validation is not None
    pairs = data.validation.texts  # type: ignore[attr-defined]
    assert len(pairs) == 20
    assert all(target == (source if task == "copy" else source[::-1]) for source, target in pairs)
    sources = [source for source, _ in pairs + data.train.texts]  # type: ignore[attr-defined]
    assert set("".join(sources)) == set("abcd")
    assert {len(source) for source in sources} == set(range(3, 9))
    batch = data.train.batch(torch.arange(4), torch.zeros(4, dtype=torch.int64))
    assert torch.equal(batch["source_length"] + 1, batch["target_length"])


def test_the_draw_is_a_function_of_the_seed() -> None:
    first, again, other = (SymbolStringsConfig(pairs=50, seed=seed).build().train.texts for seed in (1, 1, 2))  # type: ignore[attr-defined]
    assert first == again != other


@pytest.mark.parametrize(
    "changes", [{"symbols": 1}, {"symbols": 27}, {"shortest": 0}, {"shortest": 5, "longest": 4}, {"longest": 300}, {"pairs": 1}]
)
def test_what_cannot_be_drawn_is_refused(changes: Any) -> None:
    with pytest.raises(ConfigError, match="--data"):
        SymbolStringsConfig(**changes).build()
