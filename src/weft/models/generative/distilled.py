"""A teacher and its student (van den Oord et al., 2018, arXiv:1711.10433): a masked and an inverse autoregressive flow.

The teacher tells densities in one pass and draws in X passes, the student the other way round; after training the student is the
one that is sampled.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.iaf import IAFConfig
from weft.models.generative.maf import MAFConfig


@dataclass(frozen=True, kw_only=True)
class DistilledConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example, for both; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, for both; () takes it from the data, or leaves samples flat."""
    teacher: MAFConfig = field(default_factory=MAFConfig)
    """The flow that learns the data."""
    student: IAFConfig = field(default_factory=IAFConfig)
    """The flow that learns from the teacher."""

    def build(self) -> Distilled:
        return Distilled(self)


class Distilled(nn.Module):
    def __init__(self, config: DistilledConfig):
        super().__init__()
        check_sizes(config, features=1)
        self.config = config
        self.teacher = replace(config.teacher, features=config.features, image=config.image).build()
        self.student = replace(config.student, features=config.features, image=config.image).build()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the teacher's log p(x) (B,)."""
        return self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the teacher's log p(x) (B,)."""
        return self.teacher.log_prob(x)

    def draw(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """key (B,) -> the student's draws and their log-densities under itself."""
        return self.student.draw(key)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example of the student per key, in one pass."""
        return self.student.sample(key)


TINY = DistilledConfig(teacher=MAFConfig(layers=2, hidden=(16,)), student=IAFConfig(layers=2, hidden=(16,)))
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
