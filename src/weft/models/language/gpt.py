"""GPT, a decoder-only Transformer (Radford et al., 2018 and 2019).

Finetuned for a task it is the same model with one linear layer more, which reads the state of a sequence's last token.

Shapes: B batch, T time, D width, V vocabulary, C classes, N sequences of an example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.models.language.decoder import Decoder
from weft.nn.block import Blocks, Order
from weft.nn.decoder_stack import DecoderStack
from weft.nn.document_mask import document_mask, document_positions
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import Activation
from weft.nn.norm import LayerNorm
from weft.nn.state import KVCache


@dataclass(frozen=True, kw_only=True)
class GPTConfig(ModelConfig):
    of_task = ("classes",)

    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    layers: int = 6
    """Number of blocks."""
    heads: int = 6
    """Attention heads per block."""
    width: int = 384
    """Size D of the residual stream."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    position_embedding: Literal["learned", "sinusoidal", "rotary"] = "learned"
    """Position embedding: learned, sinusoidal or rotary (RoPE)."""
    norm: Order = "pre"
    """Layer norm before each branch (GPT-2) or after each sum (GPT-1)."""
    sliding_window: int = 0
    """Tokens that every second block looks back at, itself included (GPT-3's banded layers); 0 for all. A mask, which saves no time."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    tie_embeddings: bool = True
    """Share the embedding with the output head."""
    bias: bool = True
    """Biases in linear layers and norms."""
    embedding_dropout: float = 0.0
    """Share of the embedding zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""
    residual_dropout: float = 0.0
    """Share of each residual branch zeroed in training."""
    classes: int = 0
    """Outputs C of the layer for a task, 1 to score choices; 0 takes it from the data, and there is none where those have no classes."""
    task_dropout: float = 0.1
    """Share of what that layer reads zeroed in training."""

    def build(self) -> GPT:
        return GPT(self)


class GPT(Decoder):
    """Next-token logits from the tokens so far."""

    task_parts = ("task_head.",)
    """What starts afresh when a model that was trained for another task is finetuned."""
    token_tables = ("embed.weight", "head.weight")
    """What has a row for each token, and grows where finetuning adds tokens."""

    def __init__(self, config: GPTConfig):
        c = config
        check_sizes(c, vocabulary=1, context=1, layers=1, heads=1, width=1, ffn_width=0, sliding_window=0, classes=0)
        check_shares(c, "task_dropout")
        super().__init__(config)
        self.blocks = Blocks(self._block(c.norm) for _ in range(c.layers))
        self.norm = LayerNorm(c.width, bias=c.bias) if c.norm == "pre" else nn.Identity()
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        if c.classes:
            self.task_dropout = Dropout(c.task_dropout)
            self.task_head = nn.Linear(c.width, c.classes)
        self._initialise()
        if c.tie_embeddings:
            self.head.weight = self.embed.weight

    def new_state(self) -> KVCache:
        """An empty KV cache for `hidden`, in the precision of the weights."""
        c = self.config
        return KVCache(c.layers, c.heads, c.width // c.heads, c.context, self.embed.weight)

    def hidden(self, ids: Tensor, state: KVCache | None = None, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """ids (B, T) -> the last layer's normed states (B, T, D); with a state, ids stand behind what it holds.

        lengths (B,) of the new tokens change nothing: the keys and values of padding are not counted, so nothing sees them. With
        documents (B, T), numbers that never fall along a row, each is read as if it stood alone.
        """
        positions, mask, layer_kvs = state.extend(ids.size(1)) if state else (None, None, None)
        table = self._rope_table(ids.size(1), positions)  # RoPE depends on distances only, which are the same in a document and in its row
        if documents is not None:
            mask = document_mask(documents, self._takes_blocks)
        window_mask = self._sliding_window_mask(ids, positions, mask) if self.config.sliding_window else mask
        masks = None if window_mask is None and mask is None else [window_mask if window else mask for window in self.windows]
        x = self.embedded(ids, positions if documents is None else document_positions(documents))
        out: Tensor = self.norm(self._through_blocks(x, masks, table, layer_kvs))
        return out

    def _through_blocks(self, x: Tensor, masks: Any, rope_table: Tensor | None, layer_kvs: Any) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        out: Tensor = self.blocks(x, masks, rope_table, layer_kvs)
        return out

    def decoder_stack(self) -> DecoderStack:
        c = self.config
        return DecoderStack(
            positions=c.position_embedding,
            windows=tuple(self.windows),
            parts=("position", "dropout", "task_dropout", "task_head"),
            weights=("positions", "rotary"),
        )

    @property
    def _takes_blocks(self) -> bool:
        """Whether its attention serves blocks of documents: nothing is dropped, and all blocks look as far."""
        dropped = self.config.attention_dropout and self.training
        return not dropped and not self.config.sliding_window and self.blocks[0].attention.document_blocks  # type: ignore[union-attr, return-value]

    @property
    def windows(self) -> list[int]:
        """How many tokens each block looks back at; 0 for all."""
        return [self.config.sliding_window if number % 2 else 0 for number in range(len(self.blocks))]

    def _sliding_window_mask(self, ids: Tensor, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        """True (1 or B, 1, T, S) where a key is near enough; without a mask, what lies ahead is the attention's own affair."""
        queries = torch.arange(ids.size(1), device=ids.device)[None] if positions is None else positions
        keys = torch.arange(ids.size(1) if mask is None else mask.size(-1), device=ids.device)
        near: Tensor = (queries[:, :, None] - keys < self.config.sliding_window).unsqueeze(1)
        return near if mask is None else near & mask

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits

    def last_state(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """hidden (..., T, D), lengths (...) -> the state of each sequence's last token, which has seen all of it (..., D)."""
        last = (lengths - 1)[..., None, None].expand(*lengths.shape, 1, hidden.size(-1))
        state: Tensor = self.task_dropout(hidden.gather(-2, last).squeeze(-2))
        return state

    def class_logits(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """hidden (B, T, D), lengths (B,) -> (B, C); of (B, N, T, D), such as both orders of a pair, the N states are added first."""
        state = self.last_state(hidden, lengths)
        logits: Tensor = self.task_head(state.sum(1) if state.ndim == 3 else state)
        return logits

    def choice_logits(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """hidden (B, N, T, D), lengths (B, N) -> a score for each of N choices (B, N)."""
        if self.config.classes != 1:
            raise ConfigError(f"--model.classes must be 1 to score choices, not {self.config.classes}")
        logits: Tensor = self.task_head(self.last_state(hidden, lengths)).squeeze(-1)
        return logits


TINY = GPTConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
DROPOUT: dict[str, Any] = {"embedding_dropout": 0.1, "attention_dropout": 0.1, "residual_dropout": 0.1}


def gpt2(layers: int, heads: int, width: int) -> GPTConfig:
    return GPTConfig(vocabulary=50257, context=1024, layers=layers, heads=heads, width=width, activation="gelu_tanh", **DROPOUT)


def gpt3(layers: int, heads: int, width: int) -> GPTConfig:
    # the paper gives no width of the band
    return GPTConfig(vocabulary=50257, context=2048, layers=layers, heads=heads, width=width, activation="gelu_tanh", sliding_window=256)


PRESETS = {
    "tiny": TINY,
    "char": GPTConfig(layers=6, heads=6, width=384),
    "gpt1": GPTConfig(vocabulary=40478, context=512, layers=12, heads=12, width=768, norm="post", activation="gelu_tanh", **DROPOUT),
    "gpt2": gpt2(12, 12, 768),
    "gpt2-medium": gpt2(24, 16, 1024),
    "gpt2-large": gpt2(36, 20, 1280),
    "gpt2-xl": gpt2(48, 25, 1600),
    "gpt3-125m": gpt3(12, 12, 768),
    "gpt3-350m": gpt3(24, 16, 1024),
    "gpt3-760m": gpt3(24, 16, 1536),
    "gpt3-1.3b": gpt3(24, 16, 2048),  # the paper's 24 heads of 128 do not make 2048
    "gpt3-2.7b": gpt3(32, 32, 2560),
    "gpt3-6.7b": gpt3(32, 32, 4096),
    "gpt3-13b": gpt3(40, 40, 5120),  # printed as 5140, which 40 heads of 128 do not make
    "gpt3-175b": gpt3(96, 96, 12288),
}
