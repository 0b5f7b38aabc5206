"""What networks that name the class of an image share: features, and a linear head over them.

Shapes: B batch, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from weft.core.errors import ConfigError


def check_image(image: Sequence[int]) -> None:
    if len(image) != 3 or min(image) < 1:
        raise ConfigError(f"--model.image must be channels, height and width, such as 3 32 32, not {tuple(image)}")


def check_stages(blocks: Sequence[int], channels: Sequence[int]) -> None:
    if len(blocks) != len(channels) or not blocks or min(*blocks, *channels) < 1:
        raise ConfigError(
            f"--model.blocks and --model.channels must be as many numbers of at least 1, not {tuple(blocks)} and {tuple(channels)}"
        )


class ImageClassifier(nn.Module):
    task_parts = ("head.",)
    """What starts afresh when a model that was trained for other classes is finetuned."""
    config: Any
    head: nn.Linear

    def as_image(self, x: Tensor) -> Tensor:
        """x (B, C * H * W) of the shape that the model was made for, or (B, C, H, W) of any sides -> (B, C, H, W)."""
        return x if x.ndim == 4 else x.reshape(len(x), *self.config.image)

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F)."""
        raise NotImplementedError

    def classify_features(self, features: Tensor) -> Tensor:
        """features (B, F) -> class logits (B, classes)."""
        logits: Tensor = self.head(features)
        return logits

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, classes)."""
        return self.classify_features(self.features(x))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, classes)."""
        return self.classify(x)
