"""A speaker encoder: the voice of an utterance as one vector (Wan et al., 2017, arXiv:1710.10467).

LSTMs read mel frames; the last state of the last layer, projected and rectified, is brought to length 1. Voices are alike as far as
the cosine of their vectors is high. To learn, each speaker has a centroid, and w cos + b is its logit, as in the paper's softmax loss with
centroids that are learned instead of averaged.

Shapes: B batch, T frames, M mel channels, E size of the vector, C speakers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.base import ModelConfig, check_sizes
from weft.nn.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class SpeakerEncoderConfig(ModelConfig):
    of_task = ("classes",)

    mels: int = 0
    """Mel channels M of a frame; 0 takes it from the data."""
    width: int = 256
    """Size of the LSTM's states."""
    layers: int = 3
    """Layers of LSTMs."""
    embedding: int = 256
    """Size E of the vector of a voice."""
    classes: int = 0
    """Speakers C to learn from; 0 takes it from the data, and without any there are vectors only."""

    def build(self) -> SpeakerEncoder:
        return SpeakerEncoder(self)


class SpeakerEncoder(nn.Module):
    """A vector of length 1 for an utterance."""

    task_parts = ("centroid",)
    """What starts afresh when other speakers are learned."""

    def __init__(self, config: SpeakerEncoderConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, mels=1, width=1, layers=1, embedding=1, classes=0)
        self.lstm = Recurrent("lstm", c.mels, c.width, c.layers)
        self.linear = nn.Linear(c.width, c.embedding)
        self.scale = nn.Parameter(torch.tensor([10.0]))
        self.offset = nn.Parameter(torch.tensor([-5.0]))
        if c.classes:
            self.centroid = nn.Linear(c.embedding, c.classes, bias=False)

    def embed_voice(self, frames: Tensor, lengths: Tensor | None = None) -> Tensor:
        """frames (B, T, M), lengths (B,) -> vectors of length 1 (B, E), no number of which is negative."""
        _, state = self.lstm(frames, lengths)
        return F.normalize(F.relu(self.linear(state["h"][:, -1])), dim=-1)

    def classify(self, frames: Tensor, lengths: Tensor | None = None) -> Tensor:
        """frames (B, T, M), lengths (B,) -> logits of the speakers (B, C)."""
        cosine = F.linear(self.embed_voice(frames, lengths), F.normalize(self.centroid.weight, dim=-1))
        return self.scale.abs() * cosine + self.offset

    def forward(self, frames: Tensor, lengths: Tensor | None = None) -> Tensor:
        """frames (B, T, M), lengths (B,) -> vectors (B, E)."""
        return self.embed_voice(frames, lengths)


TINY = SpeakerEncoderConfig(mels=40, width=16, layers=2, embedding=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "resemblyzer": SpeakerEncoderConfig(mels=40)}
