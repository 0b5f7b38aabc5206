"""A contract whose recipe needs an optional package is skipped where that package is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator

import pytest

from weft.core.errors import MissingExtra


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    try:
        return (yield)
    except MissingExtra as error:
        package = str(error).partition(" ")[0]
        if importlib.util.find_spec(package) is None:
            pytest.skip(str(error))
        raise
