"""What decoders of text have in common: tokens and positions put together, causal blocks, GPT-2's initialisation.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import check_shares
from weft.nn import init
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Order
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm
from weft.nn.position import rope_table, sinusoidal


class Decoder(nn.Module):
    positions: Tensor
    rotary: Tensor
    fp32_stream = False
    """Keep the residual stream in fp32 under autocast, as functions in C on a CPU take and give it; the trainer chooses."""

    def __init__(self, config: Any):
        super().__init__()
        c = self.config = config
        check_shares(c, "embedding_dropout", "attention_dropout", "residual_dropout")
        if c.width % c.heads:
            raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
        if c.position_embedding == "rotary" and c.width // c.heads % 2:
            raise ConfigError(f"rotary positions need heads of even width, not {c.width // c.heads} (model.width / model.heads)")
        self.embed = nn.Embedding(c.vocabulary, c.width)
        if c.position_embedding == "learned":
            self.position = nn.Embedding(c.context, c.width)
        elif c.position_embedding == "sinusoidal":
            self.register_buffer("positions", sinusoidal(c.context, c.width), persistent=False)
        else:
            self.register_buffer("rotary", rope_table(c.context, c.width // c.heads), persistent=False)
        self.dropout = Dropout(c.embedding_dropout)

    def _block(self, order: Order = "pre") -> Block:
        c = self.config
        feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation, bias=c.bias)
        return Block(self._attention(), feedforward, partial(LayerNorm, c.width, bias=c.bias), order=order, dropout=c.residual_dropout)

    def _attention(self) -> SelfAttention:
        c = self.config
        return SelfAttention(c.width, c.heads, causal=True, dropout=c.attention_dropout, bias=c.bias)

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                self._initialise_matrix(name, parameter)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def _initialise_matrix(self, name: str, parameter: Tensor) -> None:
        if name.endswith(("out.weight", "down.weight")):
            init.residual(parameter, self.config.layers)
        else:
            init.normal(parameter)

    def embedded(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """ids (B, T) -> tokens with their positions (B, T, D); positions (B, T) where not from 0 on."""
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        x = self.embed(ids)
        if self.config.position_embedding in ("learned", "sinusoidal"):
            table = self.position.weight if self.config.position_embedding == "learned" else self.positions
            x = x + (table[:t] if positions is None else table[positions.clamp(max=len(table) - 1)])  # what only fills up may stand beyond
        x = self.dropout(x)
        if torch.is_autocast_enabled(x.device.type) and not self.fp32_stream:  # else it is kept in the precision of products
            x = x.to(torch.get_autocast_dtype(x.device.type))
        embedded: Tensor = x
        return embedded

    def _rope_table(self, t: int, positions: Tensor | None = None) -> Tensor | None:
        """The rotary table of t positions (2, T, K), or of positions in each row (2, B, T, K); None where positions are told otherwise."""
        if self.config.position_embedding != "rotary":
            return None
        return self.rotary[:, :t] if positions is None else self.rotary[:, positions.clamp(max=self.rotary.size(1) - 1)]
