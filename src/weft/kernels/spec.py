"""What a model's layers compute, in every detail that changes it, so that a kernel can say whether it computes exactly that.

`kernels.describe` makes these of layers that are exactly known (`kernels.known`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from weft.kernels.usage import UsageSpec


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    kind: str
    width: int = 0
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 0
    causal: bool = False
    qk_norm: bool = False
    dropout: float = 0.0
    packed: bool = False
    """Whether it is exactly `SelfAttention`, whose queries, keys and values come of one product."""

    def __str__(self) -> str:
        if not self.packed:
            return self.kind
        more = [f"groups {self.kv_heads}"] * (self.kv_heads != self.heads) + ["causal"] * self.causal
        return f"{self.kind}({', '.join([f'width {self.width}', f'heads {self.heads}', *more])})"


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """A `Block` in every detail that changes what it computes."""

    attention: AttentionSpec
    ffn_width: int
    gated: bool
    activation: str
    order: str
    norm: str
    """layer, rms or none."""
    eps: tuple[float, float]
    norm_weights: str
    """Which of the norms' scales and shifts there are: all, scales, or some."""
    bias: str
    """Which of the linear layers have a bias: all, none or some."""
    dropout: float
    drop_path: float
    positions: str = ""
    """Position embedding of its attention: rope, none, or nothing where each call may say."""
    window: int = 0
    """Tokens that it looks back at, by a mask; 0 for all."""
    linear: str = "linear"
    """linear, int8, or mixed."""
    dtypes: frozenset[str] = frozenset({"float32"})
    """Of its weights."""
    contiguous: bool = True
    plain_tensors: bool = True
    alignment: int = 16
    """Bytes of which the place of every weight is a multiple, 16 at most."""
    use: UsageSpec = field(default_factory=UsageSpec)

    def __str__(self) -> str:
        a = self.attention
        kind = [f"width {a.width}", f"heads {a.heads}", *[f"groups {a.kv_heads}"] * (a.kv_heads != a.heads)]
        kind += [f"{'gated ' * self.gated}{self.activation}", *[f"{self.norm} norm"] * (self.norm != "layer")]
        kind += ["post-norm"] * (self.order == "post") + [f"window {self.window}"] * (self.window > 0)
        return f"Block({', '.join(kind)})"


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """A `RecurrentLayer`: a cell, its sizes and weights."""

    cell: str
    inputs: int
    width: int
    projection: int
    clipped: bool
    """Whether its cell or its projection has bounds."""
    dtypes: frozenset[str]
    contiguous: bool
    plain_tensors: bool
    alignment: int
    use: UsageSpec

    def __str__(self) -> str:
        more = [f"projection {self.projection}"] * (self.projection > 0) + ["clipped"] * self.clipped
        return f"RecurrentLayer({', '.join([self.cell, f'inputs {self.inputs}', f'width {self.width}', *more])})"


@dataclass(frozen=True, kw_only=True)
class StackSpec:
    """A decoder: tokens and their positions, blocks, a norm and a head."""

    model: str
    width: int
    vocabulary: int
    blocks: tuple[BlockSpec, ...]
    norm: str
    eps: float
    norm_weights: str
    positions: str
    """learned, sinusoidal or rotary."""
    embedding_norm: bool
    skips: bool
    head: str
    """linear or int8."""
    head_bias: bool
    even_inputs: bool
    """Whether every linear layer has an even number of inputs."""
    linear_dtypes: frozenset[str]
    """Of the weights of linear layers that are not of 8 bits."""
    dtypes: frozenset[str]
    contiguous: bool
    plain_tensors: bool
    alignment: int
    devices: int
    """How many devices hold weights."""
    use: UsageSpec

    def __str__(self) -> str:
        kinds = dict.fromkeys(str(block) for block in self.blocks)
        return f"{self.model}({len(self.blocks)} × {', '.join(kinds)})"


def with_use(spec: Any, **changes: Any) -> Any:
    """A description of the same layers used otherwise."""
    return dataclasses.replace(spec, use=dataclasses.replace(spec.use, **changes))
