"""The Transformer block: attention and a two-layer network, each with a residual and a norm before or after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from weft.nn.attention import SelfAttention
from weft.nn.dropout import Dropout, DropPath
from weft.nn.state import LayerKV

Order = Literal["pre", "post"]


class Block(nn.Module):
    """x + attention, x + feed-forward; norm first ("pre", GPT-2) or last ("post", 2017 and BERT)."""

    def __init__(
        self,
        attention: SelfAttention,
        feedforward: nn.Module,
        norm: Callable[[], nn.Module],
        *,
        order: Order = "pre",
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ):
        super().__init__()
        self.order, self.dropout, self.drop_path = order, Dropout(dropout), DropPath(drop_path)
        self.attention, self.feedforward = attention, feedforward
        self.norm1, self.norm2 = norm(), norm()

    def forward(self, x: Tensor, mask: Any = None, rotary: Tensor | None = None, layer_kv: LayerKV | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D); mask, rotary and layer_kv as `SelfAttention` takes them."""
        if self.order == "pre":
            x = x + self.drop_path(self.dropout(self.attention(self.norm1(x), mask, rotary, layer_kv)))
            x = x + self.drop_path(self.dropout(self.feedforward(self.norm2(x))))
        else:
            x = self.norm1(x + self.drop_path(self.dropout(self.attention(x, mask, rotary, layer_kv))))
            x = self.norm2(x + self.drop_path(self.dropout(self.feedforward(x))))
        return x


class Blocks(nn.ModuleList):
    """Blocks, one after another."""

    def forward(
        self, x: Tensor, masks: Sequence[Any] | None = None, rotary: Tensor | None = None, layer_kvs: Sequence[LayerKV] | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D); masks and layer_kvs: one for each block."""
        for number, block in enumerate(self):
            x = block(x, masks[number] if masks else None, rotary, layer_kvs[number] if layer_kvs else None)
        return x
