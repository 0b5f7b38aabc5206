"""Images side by side as one picture, in a notebook or as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from weft.visual.grids import png


@dataclass(frozen=True, repr=False)
class Sheet:
    """Images (N, C, H, W) with values from 0 to 1, as a grid."""

    images: Tensor
    columns: int = 0
    """Images side by side; 0 for about as many as there are rows."""

    def __repr__(self) -> str:
        return f"Sheet({len(self.images)} images of {' x '.join(map(str, self.images.shape[1:]))})"

    def _repr_png_(self) -> bytes:
        return png(self.images, self.columns)

    def save(self, path: str | Path) -> None:
        """Write it as a PNG file."""
        Path(path).write_bytes(self._repr_png_())
