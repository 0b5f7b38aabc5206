"""Multilayer perceptron (Rumelhart, Hinton & Williams, 1986): h = f(W x + b), layer after layer.

Shapes: B batch, X flattened input, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.nn import init
from weft.nn.dropout import Dropout

Activation = Literal["none", "sigmoid", "tanh", "relu", "leaky_relu"]
Initial = Literal["he", "xavier_uniform", "normal"]


@dataclass(frozen=True, kw_only=True)
class MLPConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    classes: int = 0
    """Number of classes C; 0 takes it from the data."""
    hidden: tuple[int, ...] = (512,)
    """Widths of the hidden layers; none makes the classifier linear."""
    activation: Activation = "relu"
    """Non-linearity after each hidden layer; with none the layers amount to one matrix."""
    dropout: float = 0.0
    """Share of each hidden layer zeroed in training."""
    weight_init: Initial = "he"
    """Initialisation of the weights: he for relu, xavier_uniform for sigmoid and tanh, normal is N(0, 0.02²). Biases are 0."""

    def build(self) -> MLP:
        return MLP(self)


def activate(name: Activation) -> nn.Module:
    """The non-linearity of that name, as a layer."""
    if name == "leaky_relu":
        return nn.LeakyReLU(0.2)
    return {"none": nn.Identity, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU}[name]()


class Layers(nn.Module):
    """Fully connected layers of the given sizes, an activation and dropout between them."""

    def __init__(self, sizes: Sequence[int], *, activation: Activation = "relu", dropout: float = 0.0, initial: Initial = "he"):
        super().__init__()
        if min(sizes) < 1:
            raise ConfigError(
                f"layers of sizes {tuple(sizes)}: each must be at least 1; sizes that the data does not tell are set with --model"
            )
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"--model.dropout must be at least 0 and below 1, not {dropout}")
        layers: list[nn.Module] = []
        for first, second in pairwise(sizes[:-1]):
            layers += [nn.Linear(first, second), activate(activation), Dropout(dropout)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-2], sizes[-1])
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.NAMED[initial](module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, first size) -> (B, last size)."""
        out: Tensor = self.head(self.body(x))
        return out


class MLP(Layers):
    """Class logits of a flattened example."""

    def __init__(self, config: MLPConfig):
        c = config
        check_sizes(c, classes=1)
        super().__init__((c.features, *c.hidden, c.classes), activation=c.activation, dropout=c.dropout, initial=c.weight_init)
        self.config = config

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) of X numbers each -> logits (B, C)."""
        return super().forward(x.flatten(1))

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> logits (B, C)."""
        logits: Tensor = self(x)
        return logits


TINY = MLPConfig(hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": MLPConfig(features=784, hidden=(512,), classes=10)}
