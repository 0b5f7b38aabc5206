"""The tables of names: unique, importable, lazy, and open to families from outside."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
from typing import Any

import pytest

from weft.convert.family import Family
from weft.core import registry
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.evaluation.fewshot.tasks import Task
from weft.evaluation.words import WordTask

ENTRIES = [(table, name) for table, entries in registry.TABLES.items() for name in entries]


@pytest.mark.parametrize(("table", "name"), ENTRIES)
def test_every_target_can_be_imported(table: str, name: str) -> None:
    found = registry.find(table, name)
    kinds: dict[str, Any] = {"converters": Family, "tasks": (Task, WordTask)}
    assert isinstance(found, kinds[table]) if table in kinds else callable(found)
    if table in registry.CONFIG_TABLES:
        assert isinstance(found, type)
        assert issubclass(found, Config)
        assert registry.name_of(found) == name
        assert registry.config_class(name) is found
    if table == "tokenizers":
        assert getattr(found, "name", name) == name


@pytest.mark.parametrize(("table", "name"), ENTRIES)
def test_every_entry_says_what_it_is(table: str, name: str) -> None:
    entry = registry.entry(table, name)
    assert entry.summary
    assert not entry.summary.endswith(".")
    assert entry.year == 0 or 1943 <= entry.year <= 2100
    assert re.fullmatch(r"[a-z0-9_]+(/[a-z0-9_]+)?|[a-z0-9-]+", name)


def test_a_part_has_one_name_and_a_name_one_part() -> None:
    names = [name for table in registry.CONFIG_TABLES for name in registry.TABLES[table]]
    targets = [entry.target for table in registry.CONFIG_TABLES for entry in registry.TABLES[table].values()]
    assert len(names) == len(set(names))
    assert len(targets) == len(set(targets))


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, weft, weft.core.registry as r; r.entry('models', 'gpt'); print('torch' in sys.modules, 'weft.models' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_a_wrong_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no recipe is called 'gpt/txt'; did you mean 'gpt/text'"):
        registry.find("recipes", "gpt/txt")
    with pytest.raises(ConfigError, match="no recipe is called 'zzz'; see weft list recipes"):
        registry.entry("recipes", "zzz")
    with pytest.raises(ConfigError, match="no model is called 'zzz'; choose from: "):
        registry.find("models", "zzz")
    with pytest.raises(ConfigError, match="no study is called 'generalization-gap'; did you mean 'generalisation-gap'"):
        registry.entry("studies", "generalization-gap")


def test_outsiders_are_added_once_and_may_not_take_a_name() -> None:
    registry.add("models", "toy", "toy_family:ToyConfig", 2024, "a toy")
    registry.add("models", "toy", "toy_family:ToyConfig", 2024, "a toy")
    assert registry.entry("models", "toy").target == "toy_family:ToyConfig"
    with pytest.raises(ConfigError, match="the name 'gpt' is taken by weft"):
        registry.add("models", "gpt", "toy_family:ToyConfig", 2024, "a toy")


def test_a_family_that_cannot_be_loaded_is_told_and_left_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    point = importlib.metadata.EntryPoint("broken", "nowhere.family:register", "weft.families")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if group == "weft.families" else [])
    registry.load_families.cache_clear()
    try:
        assert registry.entry("models", "gpt")
    finally:
        registry.load_families.cache_clear()
    assert "the family broken (nowhere.family:register) could not be loaded: ModuleNotFoundError" in caplog.text


def test_entry_points_register_families(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        def load(self) -> object:
            return lambda: registry.add("models", "from_outside", "toy:Config", 2024, "a toy")

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point()] if group == "weft.families" else [])
    registry.load_families.cache_clear()
    try:
        assert registry.entry("models", "from_outside").target == "toy:Config"
    finally:
        registry.load_families.cache_clear()
