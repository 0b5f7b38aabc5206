"""Settings that no study can use are refused before it begins."""

from __future__ import annotations

import typing

import pytest

from weft.cli.study import check, numbers
from weft.core import config, registry
from weft.core.errors import ConfigError


@pytest.mark.parametrize("name", registry.STUDIES)
def test_numbers_that_cannot_be_are_refused(name: str) -> None:
    usual = typing.get_type_hints(registry.find("studies", name))["settings"]()
    check(usual)
    for setting, (_, value) in config.leaves(usual).items():
        for wrong in (-1, float("nan"), float("inf")) if numbers(value) and setting != "seed" else ():
            if isinstance(numbers(value)[0], float) or wrong == -1:
                given = (wrong,) * len(value) if isinstance(value, tuple) else wrong
                with pytest.raises(ConfigError, match=f"--{setting.replace('_', '-')} must be .* and finite, not {wrong}"):
                    check(config.override(usual, {setting: given}))


def test_zero_is_refused_where_the_default_lies_above_it() -> None:
    usual = typing.get_type_hints(registry.find("studies", "flow-interpolation"))["settings"]()
    check(config.override(usual, {"steps": 0}))
    with pytest.raises(ConfigError, match="--side must be above 0 and finite, not 0"):
        check(config.override(usual, {"side": 0}))
