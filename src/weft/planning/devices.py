"""What a plan knows of machines: memory, rates, links, watts.

Rates are what large operations reach, not what a data sheet promises. Those of the H200 and of the CPU were measured (a product
of 8192³ in bf16 at 782 TFLOP/s, a copy at 4.3 TB/s; 2048³ at 380 GFLOP/s on two cores); the others are the data sheet's, lowered
in the proportion the H200 shows. Links are per GPU and direction, at about 80 % of what is printed.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.core import registry
from weft.core.errors import ConfigError

GiB = 1 << 30


@dataclass(frozen=True)
class Device:
    name: str
    memory: float
    """Bytes that a process can use."""
    peak: float
    """FLOP/s in bf16 by the data sheet: what MFU is a share of."""
    products: float
    """FLOP/s of a matrix product, apart from the time its operands travel."""
    copy: float
    """Bytes/s of reading and writing together."""
    attention: tuple[float, float]
    """FLOP/s of fused attention forward and backward, for heads of 64."""
    intra_node: float
    """Bytes/s to another device of the same machine."""
    inter_node: float
    """Bytes/s to another machine."""
    per_node: int
    """Devices in a machine."""
    watts: float
    """Drawn by one device and its share of the machine."""
    context: float
    """Bytes that a process holds before its first tensor."""
    launch: float
    """Seconds that the smallest kernel takes."""
    slack: float
    """Time of a whole step over the sum of its parts: launches, small kernels, waiting."""


DEVICES = {
    "h200": Device(
        "NVIDIA H200", memory=139.0 * GiB, peak=989e12, products=838e12, copy=4.3e12, attention=(330e12, 250e12),
        intra_node=360e9, inter_node=40e9, per_node=8, watts=1000.0, context=0.7 * GiB, launch=2.5e-6, slack=1.0,
    ),
    "h100": Device(
        "NVIDIA H100 SXM", memory=79.0 * GiB, peak=989e12, products=800e12, copy=2.9e12, attention=(330e12, 250e12),
        intra_node=360e9, inter_node=40e9, per_node=8, watts=1000.0, context=0.7 * GiB, launch=2.5e-6, slack=1.0,
    ),
    "a100": Device(
        "NVIDIA A100 80GB", memory=79.0 * GiB, peak=312e12, products=265e12, copy=1.75e12, attention=(150e12, 110e12),
        intra_node=240e9, inter_node=20e9, per_node=8, watts=600.0, context=0.6 * GiB, launch=3e-6, slack=1.0,
    ),
    "cpu": Device(
        "two CPU cores", memory=8.0 * GiB, peak=0.76e12, products=0.38e12, copy=42e9, attention=(0.1e12, 0.1e12),
        intra_node=10e9, inter_node=1e9, per_node=1, watts=30.0, context=0.4 * GiB, launch=1e-5, slack=1.3,
    ),
}  # fmt: skip
"""The slack of the GPUs is the mean of measured over estimated times of a step of GPT-2, 124M, 350M and 1.5B, on an H200: 0.94 to 1.06."""

PUE = 1.2
"""Energy of a data centre over that of its machines."""
CARBON = 0.4
"""Kilograms of CO2 for a kilowatt-hour, about the world's mean."""


def find(name: str) -> Device:
    if name not in DEVICES:
        raise ConfigError(f"--device: no device is called {name!r}{registry.nearest(name, list(DEVICES))}")
    return DEVICES[name]


def energy(watts: float, hours: float, pue: float = PUE, carbon: float = CARBON) -> dict[str, float]:
    """What so many hours of devices that draw so much take: kWh at the socket of the data centre, and kilograms of CO2."""
    kwh = hours * watts / 1000 * pue
    return {"device_hours": hours, "kwh": kwh, "co2_kg": kwh * carbon}
