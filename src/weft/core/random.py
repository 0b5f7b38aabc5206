"""Stateless random numbers, pure functions of a key: no generator state to save, no dependence on how a batch is split.

Every example of a batch carries an int64 key derived from (seed, draw number). Noise that belongs to an example
(corruption, negatives, latents, augmentation) is computed from its key by integer hashing (splitmix64, Steele et al. 2014),
on whatever device the key lives.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """splitmix64 of one Python integer."""
    value = (value + GOLDEN) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def seed_of(*parts: int | str) -> int:
    """One 63-bit seed from several numbers and names."""
    seed = 0
    for item in parts:
        seed = mix(seed ^ mix(zlib.crc32(item.encode()) if isinstance(item, str) else item & MASK))
    return seed >> 1


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's generators of the CPU and of this device. `torch.manual_seed` visits every kind of device, which takes longer than some
    operations of a small model."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(value: Tensor, bits: int) -> Tensor:
    """Logical right shift (int64's own shift copies the sign)."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    """splitmix64 of an int64 tensor; multiplication wraps."""
    value = value + _signed(GOLDEN)
    value = (value ^ _shift(value, 30)) * _signed(0xBF58476D1CE4E5B9)
    value = (value ^ _shift(value, 27)) * _signed(0x94D049BB133111EB)
    return value ^ _shift(value, 31)


def keys(seed: int, draws: Tensor) -> Tensor:
    """One key per draw number (B,)."""
    return _mix(draws ^ _signed(mix(seed)))


def _stream(name: str | int) -> int:
    """The stream constant of a name; a constant to torch.compile, which cannot trace zlib."""
    return _signed(mix(zlib.crc32(name.encode()) if isinstance(name, str) else name))


_stream._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result, which takes 2 s to import


def fold(key: Tensor, name: str | int | Tensor) -> Tensor:
    """Keys of an independent stream, given by name or number; a tensor of numbers gives as many streams."""
    return _mix(key ^ (_mix(name) if isinstance(name, Tensor) else _stream(name)))


def bits(key: Tensor, *shape: int) -> Tensor:
    """64 random bits per element: key (B,) -> int64 (B, *shape)."""
    # ^ 0 keeps the compiler from adding the 64-bit constant in 32-bit index arithmetic
    counter = _mix(torch.arange(math.prod(shape), device=key.device, dtype=torch.int64) ^ 0)
    return _mix(key.unsqueeze(-1) ^ counter).view(*key.shape, *shape)


def uniform(key: Tensor, *shape: int) -> Tensor:
    """float32 in [0, 1): key (B,) -> (B, *shape)."""
    return _shift(bits(key, *shape), 40).float() * 2.0**-24


def normal(key: Tensor, *shape: int) -> Tensor:
    """Standard normal by Box and Muller: key (B,) -> float32 (B, *shape)."""
    word = bits(key, *shape)
    radius = ((_shift(word, 40) + 1).float() * 2.0**-24).log().mul(-2.0).sqrt()
    angle = (_shift(word, 16) & 0xFFFFFF).float() * (2.0**-24 * 2.0 * math.pi)
    return radius * angle.cos()


def integers(key: Tensor, high: int, *shape: int) -> Tensor:
    """int64 in [0, high): key (B,) -> (B, *shape). The bias is below high / 2**63."""
    return _shift(bits(key, *shape), 1) % high


def permute(position: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Stateless shuffle: the element at each position of a shuffled range(size), a bijection computed in O(1) per element.

    A Feistel network over the next even power of two, walked until the value falls inside (Black & Rogaway, 2002).
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    low = np.uint64((1 << half) - 1)
    round_keys = [np.uint64(seed_of(seed, number)) for number in range(6)]
    value = position.astype(np.uint64)
    pending = np.arange(len(value))
    while len(pending):
        current = value[pending]
        left, right = current >> np.uint64(half), current & low
        for round_key in round_keys:
            left, right = right, left ^ (_mix_array(right ^ round_key) & low)
        current = (left << np.uint64(half)) | right
        value[pending] = current
        pending = pending[current >= size]
    return value.astype(np.int64)


def _mix_array(value: np.ndarray) -> np.ndarray:
    value = value + np.uint64(GOLDEN)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = value ^ (value >> np.uint64(31))
    return mixed
