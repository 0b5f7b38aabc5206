"""Averaged SGD: all weights since some step count alike (Ruppert, 1988; Polyak & Juditsky, 1992), begun by hand or by the validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.core.untrusted import checked, measured, natural
from weft.training.hooks import EMA, State, Validation

if TYPE_CHECKING:
    from weft.training.trainer import Trainer


class PolyakAverage(EMA):
    """The mean of the weights; before it begins, the weights themselves. Validation and the checkpoint's users see it."""

    def __init__(self, start: int, nonmono: int):
        """start: the first step that counts; 0: begin where a validation is worse than the best but of the last `nonmono` (NT-ASGD)."""
        super().__init__(0.0)
        self.began, self.start_step, self.nonmono = start, start, nonmono
        self.values: list[float] = []
        """Of all validations so far, the smaller the better."""
        self.seen = 0

    def share(self, trainer: Trainer) -> float:
        validation = next((hook for hook in trainer.hooks if isinstance(hook, Validation)), None)
        if not self.began and validation and validation.latest_step > self.seen:
            self.look(validation, trainer.step)
        return 1.0 / (trainer.step - self.began + 1) if 0 < self.began <= trainer.step else 1.0

    def look(self, validation: Validation, step: int) -> None:
        """Begin at this step where the latest validation shows no progress."""
        value = validation.latest[validation.metric] * (1 if validation.goal == "min" else -1)
        if len(self.values) > self.nonmono and value > min(self.values[: len(self.values) - self.nonmono]):
            self.began = step
        self.values.append(value)
        self.seen = validation.latest_step

    def state(self) -> State:
        return {}, {"began": self.began, "seen": self.seen, "values": self.values}

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None:
        super().load_state(tensors, plain)
        for name, value in checked(plain, {"began": natural, "seen": natural, "values": [measured]} if plain else {}).items():
            setattr(self, name, value)
