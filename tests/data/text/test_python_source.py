from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.data.text.python_source import PythonSourceConfig, python_files, split_files


def test_every_machine_has_text() -> None:
    data = PythonSourceConfig(megabytes=0.2, context=32).build()
    assert data.info["vocabulary"] <= 100
    assert data.validation is not None
    assert data.info["training_tokens"] > 100_000
    assert len(python_files()) > 100


def test_files_are_split_whole() -> None:
    files = [Path(str(number)) for number in range(25)]
    train, held = split_files(files, 0.1)
    assert [path.name for path in held] == ["9", "19"]
    assert sorted([*train, *held]) == sorted(files)
    assert split_files(files, 0.0) == (files, [])
    with pytest.raises(ConfigError, match=r"--data\.validation"):
        split_files(files, 1.0)


def test_without_validation() -> None:
    assert PythonSourceConfig(megabytes=0.01, validation=0.0, context=32).build().validation is None
