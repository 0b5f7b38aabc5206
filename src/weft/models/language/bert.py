"""BERT, a Transformer encoder read in both directions (Devlin et al., 2018, arXiv:1810.04805).

Pretraining has two heads: the token at a masked position, from its state (masked language model, MLM), and whether the
second sentence follows the first, from the state of the first token ([CLS]). A model for another task has that task's head instead.

Shapes: B batch, T time, D width, V vocabulary, C classes, N choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention, padding_mask
from weft.nn.bilstm import BiLSTM
from weft.nn.block import Block
from weft.nn.feed_forward import ACTIVATIONS, Activation, FeedForward
from weft.nn.norm import LayerNorm

Task = Literal["pretrain", "classify", "tag", "answer", "choose"]


@dataclass(frozen=True, kw_only=True)
class BERTConfig(ModelConfig):
    of_task = ("task", "classes", "lstm")

    task: Task = "pretrain"
    """What its head is for: pretrain, classify (a text or pair), tag (each token), answer (a span) or choose (among texts)."""
    classes: int = 0
    """Classes of classify or tag, 1 for a number instead of a class; 0 takes it from the data."""
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    segments: int = 2
    """Kinds of segment; a pair of sentences has two."""
    layers: int = 12
    """Number of blocks."""
    heads: int = 12
    """Attention heads per block."""
    width: int = 768
    """Size D of the states."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    dropout: float = 0.1
    """Share of the embedding and of each residual branch zeroed in training."""
    attention_dropout: float = 0.1
    """Share of the attention weights zeroed in training."""
    causal: bool = False
    """Let a token see only those before it, as GPT does: what reading in both directions is worth."""
    lstm: bool = False
    """Read the states once more with an LSTM in each direction before the head of a task: what that mends of reading left to right."""
    eps: float = 1e-12
    """Added to the variance in layer norms."""
    init_std: float = 0.02
    """Standard deviation of the initial weights; a narrow model learns sooner from larger ones, about 1 / sqrt(D)."""

    def build(self) -> BERT:
        return BERT(self)


class TokenHead(nn.Module):
    """A dense layer, then the embedding table as the output layer."""

    def __init__(self, config: BERTConfig, embedding: nn.Embedding):
        super().__init__()
        self.transform = nn.Linear(config.width, config.width)
        self.norm = LayerNorm(config.width, eps=config.eps)
        self.activation = ACTIVATIONS[config.activation]
        self.decoder = nn.Linear(config.width, embedding.num_embeddings)
        self.decoder.weight = embedding.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> logits (..., V)."""
        logits: Tensor = self.decoder(self.norm(self.activation(self.transform(hidden))))
        return logits


class BERT(nn.Module):
    """States of tokens that each see the whole sequence."""

    task_parts = ("head.", "pair_head.", "lstm.")
    """What starts afresh when a model that was trained for another task is finetuned."""

    def __init__(self, config: BERTConfig):
        super().__init__()
        c = self.config = config
        self.causal = c.causal and not c.lstm  # scores that look at both sides cannot continue a text
        check_sizes(c, vocabulary=1, context=1, segments=1, layers=1, heads=1, width=1, ffn_width=0, init_std=0)
        check_shares(c, "dropout", "attention_dropout")
        if c.width % c.heads:
            raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
        if c.lstm and (c.task == "pretrain" or c.width < 2):
            raise ConfigError("--model.lstm is for the head of a task, of a --model.width above 1; pretraining must not see what it tells")
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.position = nn.Embedding(c.context, c.width)
        self.segment = nn.Embedding(c.segments, c.width)
        self.norm = LayerNorm(c.width, eps=c.eps)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(self._block() for _ in range(c.layers))
        self.lstm = BiLSTM(c.width) if c.lstm else None
        self.pooler = nn.Linear(c.width, c.width)
        if c.task == "pretrain":
            self.head: nn.Module = TokenHead(c, self.embed)
            self.pair_head = nn.Linear(c.width, 2)
        else:
            check_sizes(c, classes=1 if c.task in ("classify", "tag") else 0)
            self.head = nn.Linear(c.width, {"answer": 2, "choose": 1}.get(c.task, c.classes))
        self.apply(self._initialise)

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=c.causal, dropout=c.attention_dropout)
        feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation)
        return Block(attention, feedforward, partial(LayerNorm, c.width, eps=c.eps), order="post", dropout=c.dropout)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.normal(module.weight, self.config.init_std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def hidden(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> the last layer's states (B, T, D).

        Without segments everything is segment 0; tokens from lengths on are padding, which no token sees.
        """
        x, mask = self._embedded(ids, segments, lengths)
        for block in self.blocks:
            x = block(x, mask)
        return self.lstm(x, lengths) if self.lstm else x

    def layers_of(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> list[Tensor]:
        """As `hidden`, but the states after the embedding and after every block, each (B, T, D)."""
        x, mask = self._embedded(ids, segments, lengths)
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], mask))
        return states

    def _embedded(self, ids: Tensor, segments: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The states before the first block (B, T, D), and which tokens are no padding (B, 1, 1, T)."""
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        kind = self.segment.weight[0] if segments is None else self.segment(segments)
        x: Tensor = self.dropout(self.norm(self.embed(ids) + self.position.weight[:t] + kind))
        mask = padding_mask(lengths, t)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        return x, mask

    def pooled(self, hidden: Tensor, lengths: Tensor | None = None) -> Tensor:
        """hidden (B, T, D), lengths (B,) -> one vector for the sequence (B, D).

        It is that of the first token or, read from left to right, of the last, which alone has seen all of them; of an LSTM in each
        direction it is where each of them ends.
        """
        state = hidden[:, 0]
        if self.config.causal or self.lstm:
            last = hidden[:, -1]
            if lengths is not None:
                last = hidden.gather(1, (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.size(2)))[:, 0]
            state = torch.cat((last[:, : self.lstm.middle], state[:, self.lstm.middle :]), dim=-1) if self.lstm else last
        vector: Tensor = torch.tanh(self.pooler(state))
        return vector

    def pair(self, hidden: Tensor, lengths: Tensor | None = None) -> Tensor:
        """hidden (B, T, D), lengths (B,) -> logits (B, 2) of: the second sentence follows, or does not."""
        logits: Tensor = self.pair_head(self.dropout(self.pooled(hidden, lengths)))
        return logits

    def classify(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> class logits (B, C)."""
        logits: Tensor = self.head(self.dropout(self.pooled(self.hidden(ids, segments, lengths), lengths)))
        return logits

    def tag(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> class logits of every token (B, T, C)."""
        logits: Tensor = self.head(self.dropout(self.hidden(ids, segments, lengths)))
        return logits

    def answer(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ids and segments (B, T), lengths (B,) -> scores of each token as the first and as the last of the answer, each (B, T)."""
        scores: Tensor = self.head(self.hidden(ids, segments, lengths))
        first, last = scores.unbind(-1)
        return first, last

    def choose(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, N, T), lengths (B, N) -> logits of the choices (B, N)."""
        b, n, _ = ids.shape
        flat = [part if part is None else part.flatten(0, 1) for part in (ids, segments, lengths)]
        logits: Tensor = self.head(self.dropout(self.pooled(self.hidden(*flat), flat[2]))).view(b, n)  # type: ignore[arg-type]
        return logits

    def forward(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> token logits (B, T, V), or what the head of another task gives every state."""
        logits: Tensor = self.head(self.hidden(ids, segments, lengths))
        return logits


TINY = BERTConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "base": BERTConfig(vocabulary=30522, context=512),
    "large": BERTConfig(vocabulary=30522, context=512, layers=24, heads=16, width=1024),
}
