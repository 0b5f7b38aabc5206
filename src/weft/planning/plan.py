"""`weft plan`: what a model needs on a machine, without allocating anything."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from weft.core.errors import CapabilityError, ConfigError, WeftError
from weft.planning import devices, scaling
from weft.planning.devices import Device
from weft.planning.footprint import Footprint, measure
from weft.planning.layout import ANY, Layout, Weights, weights
from weft.planning.memory import keeps
from weft.planning.search import MOST, Choice, Search
from weft.planning.subject import Subject
from weft.training.parallel.processes import LAYOUT

DAY = 86400.0
AGAIN = {"none": False, "selective": False, "full": True}
"""Whether blocks compute all but their inputs again, by what a recipe has them keep."""


@dataclass(frozen=True)
class PlanRequest:
    """What is asked beside the subject; 0 leaves a choice open."""

    gpus: int = 1
    tokens: float = 0.0
    mfu: float = 0.0
    micro_batch: int = 0
    activation_checkpointing: bool | None = None
    asked: Layout = ANY
    pue: float = devices.PUE
    carbon: float = devices.CARBON
    price: float = 0.0


@dataclass(frozen=True)
class TrainingPlan:
    subject: Subject
    device: Device
    request: PlanRequest
    footprint: Footprint
    weights: Weights
    choice: Choice

    @property
    def seconds(self) -> float:
        """Of a step."""
        if not self.request.mfu:
            return self.choice.time.total
        return self.flops_step / (self.request.mfu * self.device.peak * self.request.gpus)

    @property
    def logits(self) -> str:
        return "chunked" if self.footprint.logits else "whole"

    @property
    def activations(self) -> str:
        return "full" if self.choice.layout.activation_checkpointing else keeps(self.subject, self.footprint, self.device)

    @property
    def flops_step(self) -> float:
        """Model FLOPs of a step, which MFU counts: 6 N + 12 L D T for each token of a text, and as counted for examples without."""
        counts = self.footprint.counts
        return (counts.estimate if self.subject.tokens > 1 else counts.total) * self.subject.batch * self.subject.tokens

    @property
    def mfu(self) -> float:
        return self.flops_step / self.seconds / (self.device.peak * self.request.gpus)

    @property
    def rate(self) -> float:
        """Tokens per second on all devices."""
        return self.subject.batch * self.subject.tokens / self.seconds

    @property
    def tokens(self) -> float:
        return self.request.tokens or self.subject.total

    @property
    def days(self) -> float:
        return self.tokens / self.rate / DAY

    def energy(self) -> dict[str, float]:
        return devices.energy(self.device.watts, self.days * 24 * self.request.gpus, self.request.pue, self.request.carbon)

    @property
    def cost(self) -> float:
        return self.request.price * self.energy()["device_hours"]

    def facts(self) -> dict[str, Any]:
        """Everything as plain values."""
        counts, layout = self.footprint.counts, self.choice.layout
        flop = scaling.compute(counts.parameters, self.tokens)
        size, data = scaling.chinchilla_optimum(flop) if flop else (0.0, 0.0)
        return {
            "subject": self.subject.name,
            "device": self.device.name,
            "gpus": self.request.gpus,
            "parameters": counts.parameters,
            "parameters_by_part": counts.parts,
            "flops_per_token": {"forward": counts.forward, "backward": counts.backward, "total": counts.total},
            "flops_per_token_estimate": counts.estimate,
            "batch": self.subject.batch,
            "tokens_per_example": self.subject.tokens,
            "layout": {**vars(layout), "accumulation": layout.accumulation(self.subject.batch)},
            "memory": {**self.choice.need.parts, "tensors": self.choice.need.tensors, "total": self.choice.need.total},
            "compiled": self.footprint.compiled,
            "logits": self.logits,
            "activations": self.activations,
            "step_seconds": self.seconds,
            "step_seconds_by_part": {} if self.request.mfu else self.choice.time.parts,
            "mfu": self.mfu,
            "tokens_per_second": self.rate,
            "tokens": self.tokens,
            "flop": flop,
            "pf_days": scaling.pf_days(flop),
            "v100_years": scaling.v100_years(flop),
            "days": self.days,
            **self.energy(),
            **({"price": self.request.price, "cost": self.cost} if self.request.price else {}),
            "watts": self.device.watts,
            "pue": self.request.pue,
            "carbon_kg_per_kwh": self.request.carbon,
            "compute_optimal": {"parameters": size, "tokens": data} if self.subject.scaled else {},
            "chinchilla_loss": scaling.chinchilla_loss(counts.parameters, self.tokens) if flop and self.subject.scaled else None,
            "notes": self.subject.notes,
        }


def followed(subject: Subject, device: str) -> Footprint:
    """What a step does, from fake tensors."""
    try:
        return measure(subject, compiled=device != "cpu" and subject.train.compile != "off")
    except WeftError:
        raise
    except Exception as error:  # of whatever the model or its objective asks of numbers that are not there
        kind = type(error).__name__
        raise CapabilityError(f"{subject.name}: no plan, as a step of it cannot be followed without its numbers ({kind})") from error


def check(request: PlanRequest) -> None:
    """Refuse numbers of devices and shares that cannot be, before anything is built."""
    if not 1 <= request.gpus <= MOST:
        raise ConfigError(f"--gpus must be at least 1 and at most {MOST:,}, not {request.gpus}")
    if not 0.0 <= request.mfu < 1.0:
        raise ConfigError(f"--mfu must be a share below 1, such as 0.4, not {request.mfu}")
    given = {name: size for name in LAYOUT if (size := getattr(request.asked, name))}
    for name, size in given.items():
        if size < 0:
            raise ConfigError(f"--parallel.{name} must be at least 1, or 0 to leave it to the plan, not {size}")
    product = prod(given.values())
    if request.gpus % product or (len(given) == len(LAYOUT) and request.gpus != product):
        sizes = " x ".join(f"--parallel.{name} {size}" for name, size in given.items())
        trouble = f"does not divide --gpus {request.gpus}" if len(given) == 1 else f"is {product}, but --gpus is {request.gpus}"
        raise ConfigError(f"{sizes} {trouble}; say --gpus {product} or leave the sizes to the plan")


def make(subject: Subject, device: str = "h200", request: PlanRequest | None = None) -> TrainingPlan:
    """The plan of a subject, or a ConfigError that names the nearest layout that fits."""
    request = request or PlanRequest()
    check(request)
    kind = devices.find(device)
    footprint, held = followed(subject, device), weights(subject)
    again = (
        AGAIN.get(subject.train.activation_checkpointing) if request.activation_checkpointing is None else request.activation_checkpointing
    )
    search = Search(subject, footprint, held, kind, subject.batch, request.asked, request.micro_batch or subject.train.micro_batch, again)
    return TrainingPlan(subject, kind, request, footprint, held, search.choose(request.gpus))
