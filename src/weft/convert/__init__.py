"""Weights of other programs in our format, and ours in theirs. The package itself can be called: weft.convert(source, target)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.convert.convert import Converted


class Called(ModuleType):
    def __call__(self, source: str, target: str | Path) -> Converted:
        from weft.convert.convert import convert

        return convert(source, target)


sys.modules[__name__].__class__ = Called
