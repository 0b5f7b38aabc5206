"""Learning-rate schedules as pure functions of a position counted in steps or in tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from weft.core.config import Config
from weft.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Schedule(Config):
    kind: Literal["constant", "linear", "cosine", "noam", "step"] = "constant"
    """Course of the learning rate after warm-up; noam (Vaswani et al., 2017) has its own warm-up and ignores `min_lr_ratio`."""
    unit: Literal["steps", "tokens"] = "steps"
    """What positions count."""
    warmup: int = 0
    """Length of the linear rise from 0, in units."""
    total: int = 0
    """Position at which the decay ends, in units; 0 is the end of training."""
    hold: float = 0.0
    """linear and cosine: share of the way from the end of the warm-up to the end of the decay at which the rate still has its peak."""
    min_lr_ratio: float = 0.0
    """Final learning rate, as a share of the peak one."""
    width: int = 512
    """noam: the model width d in d^-0.5."""
    every: int = 1000
    """step: units between drops."""
    milestones: tuple[int, ...] = ()
    """step: positions of the drops, in rising order; () drops `every` so many units."""
    drop: float = 0.1
    """step: factor of each drop."""

    def check(self, place: str) -> None:
        """Refuse numbers that cannot be, naming the flag."""
        for name, low in {"warmup": 0, "total": 0, "min_lr_ratio": 0, "width": 1, "every": 1, "drop": 0}.items():
            if not low <= getattr(self, name) < math.inf:
                raise ConfigError(f"--{place}.{name} must be at least {low} and finite, not {getattr(self, name)}")
        if list(self.milestones) != sorted({*self.milestones, *(() if min(self.milestones, default=1) >= 1 else (1,))}):
            raise ConfigError(f"--{place}.milestones must be rising positions of at least 1, not {self.milestones}")
        if not 0.0 <= self.hold <= 1.0:
            raise ConfigError(f"--{place}.hold must be between 0 and 1, not {self.hold}")

    def factor(self, position: float, end: float) -> float:
        """Share of the peak rate at a position (the first update is at 1 step, or at its own tokens)."""
        if self.kind == "noam":
            warmup = max(self.warmup, 1)
            position = max(position, 1e-9)
            return float(self.width**-0.5 * min(position**-0.5, position * warmup**-1.5))
        if position < self.warmup:
            return position / self.warmup
        if self.kind == "constant":
            return 1.0
        if self.kind == "step":
            drops = sum(position >= at for at in self.milestones) if self.milestones else position // self.every
            return float(self.drop**drops)
        total = self.total or end
        begin = self.warmup + self.hold * (total - self.warmup)
        share = min(1.0, max(0.0, position - begin) / max(total - begin, 1e-9))
        shape = 1.0 - share if self.kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * share))
        return self.min_lr_ratio + (1.0 - self.min_lr_ratio) * shape
