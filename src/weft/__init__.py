"""weft trains, finetunes, evaluates, samples and serves the models deep learning is built on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api import train as train
    from weft.evaluation.evaluate import evaluate as evaluate
    from weft.recipes.base import Recipe as Recipe
    from weft.recipes.base import recipe as recipe
    from weft.runs.load import load as load
    from weft.runs.load import predict as predict
    from weft.sweeps.sweep import sweep as sweep

__version__ = "0.2.0.dev0"
_PUBLIC = {
    "Recipe": "weft.recipes.base",
    "recipe": "weft.recipes.base",
    "train": "weft.api",
    "sweep": "weft.sweeps.sweep",
    "load": "weft.runs.load",
    "predict": "weft.runs.load",
    "evaluate": "weft.evaluation.evaluate",
}
__all__ = [*_PUBLIC, "convert", "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import weft` does not load torch."""
    if name == "convert":  # a package that can be called
        return importlib.import_module("weft.convert")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
