"""What the images of a model are like: their size, and the classes that can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.core.errors import CapabilityError
from weft.data.images.image_files import image_shape
from weft.models.base import Samples, SamplesClass, offers
from weft.runs.load import Loaded

LARGEST = 2048
"""Most pixels of a side to which images are enlarged."""


@dataclass(frozen=True)
class Canvas:
    height: int
    width: int
    labels: tuple[str, ...] = ()
    """Names of the classes that can be asked for; none where the model draws what it likes."""

    @property
    def size(self) -> str:
        return f"{self.width}x{self.height}"

    def scale(self, size: str) -> int | None:
        """How many times as large the images of a size are; None where they are not so many times as large."""
        if size in ("", "auto"):
            return 1
        width, _, height = size.partition("x")
        if not (width.isdecimal() and height.isdecimal() and len(size) < 12 and max(int(width), int(height)) <= LARGEST):
            return None
        times = int(width) // self.width
        return times if times and (times * self.width, times * self.height) == (int(width), int(height)) else None

    def describe(self) -> dict[str, Any]:
        return {"size": self.size, "labels": list(self.labels)}


def canvas_of(loaded: Loaded) -> Canvas | None:
    """Of a model that draws images; None of any other."""
    model = loaded.model
    if not offers(model, Samples):
        return None
    config = getattr(model, "config", None)
    try:
        _, height, width = image_shape(config)
    except CapabilityError:
        return None
    classes = getattr(config, "classes", 0) if offers(model, SamplesClass) and getattr(model, "conditional", True) else 0
    names = list(getattr(loaded.tokenizer, "names", []))
    return Canvas(height, width, tuple([*names, *map(str, range(len(names), classes))][:classes]))
