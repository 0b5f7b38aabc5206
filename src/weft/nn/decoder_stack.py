"""What a decoder says of itself, so that another one may compute it: tokens and positions, blocks, a norm and a head.

`forward(ids)` is `head(hidden(ids))`, and `hidden(ids)` is `norm` of the blocks, one after another, of `embedded(ids)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DecoderStack:
    positions: Literal["learned", "sinusoidal", "rotary"]
    """Position embedding; learned ones are added from the table `position`."""
    windows: tuple[int, ...]
    """How many tokens each block looks back at; 0 for all."""
    embedding_norm: bool = False
    """Whether embedded tokens are given one length."""
    skips: bool = False
    """Whether blocks read the embedded tokens as well."""
    parts: tuple[str, ...] = ()
    """Submodules beside embed, blocks, norm and head that belong to this, or that no next token depends on."""
    weights: tuple[str, ...] = ()
    """Parameters and buffers of the model itself that do."""
    attributes: tuple[str, ...] = ()
    """Further attributes of an instance."""
