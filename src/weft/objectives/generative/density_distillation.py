"""Density distillation (van den Oord et al., 2018, Parallel WaveNet, arXiv:1711.10433): a student learns a teacher's density.

The teacher learns the data by maximum likelihood; it tells densities in one pass, but draws slowly. The student draws x in one
pass and knows its own log q(x); the teacher tells log p(x) of these draws, and the student makes KL(q || p) = E_q [log q - log p]
small. It never sees the data, and no z ever goes from teacher to student. Both learn side by side, in two turns of a step.

Batch: point (B, X), or another input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from weft.data.base import Batch
from weft.models.base import Densities, Model, SamplesWithLogProb
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count

LEFT_OUT = 3.0
"""Nats by which the student's density of an example must be below the teacher's to count as left out."""
NAMES = {"teacher_loss": "teacher_nats", "student_loss": "kl", "teacher_covered": "covered"}
"""Of the reported numbers; what is measured once bears the name of the first turn."""


class Student(Densities, SamplesWithLogProb, Protocol):
    """Draws quickly, and tells the density of what it drew."""


class TeacherAndStudent(Model, Protocol):
    """Two densities, of which one teaches the other."""

    teacher: Densities
    student: Student


@dataclass(frozen=True, kw_only=True)
class DensityDistillationConfig(ObjectiveConfig):
    unit = "nats per example"

    input: str = "point"
    """Name of the input in a batch."""

    def build(self) -> DensityDistillation:
        return DensityDistillation(self)


class DensityDistillation(Objective):
    """Of a model with a `teacher` that offers Densities and a `student` that offers Draws."""

    autocast = False
    turns = (Turn("teacher", ("teacher",)), Turn("student", ("student",), fresh=False))

    def __init__(self, config: DensityDistillationConfig):
        super().__init__()
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["key"]), like=batch["key"])}

    def forward(self, model: TeacherAndStudent, batch: Batch, turn: str) -> Terms:
        if turn == "teacher":
            return Terms({"loss": -model.teacher.log_prob(batch[self.config.input]).sum()})
        x, own = model.student.draw(batch["key"])
        return Terms({"loss": (own - model.teacher.log_prob(x)).sum()})

    def measure(self, model: TeacherAndStudent, batch: Batch) -> dict[str, Tensor]:
        """The share of the data that the student knows too, told by the slow way: reverse KL lets it leave some out."""
        x = batch[self.config.input]
        return {"covered": (model.student.log_prob(x) > model.teacher.log_prob(x) - LEFT_OUT).float().sum()}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        """The loss is what the teacher does not know of the data and the student not of the teacher."""
        numbers = super().summary(means)
        found = {"loss": numbers.get("teacher_loss", 0.0) + numbers.get("student_loss", 0.0)}
        return found | {NAMES.get(name, name): value for name, value in numbers.items()}
