"""WAV files: PCM of 8 to 32 bits, float, A-law and mu-law, of any number of channels, read a stretch at a time.

Nothing that a header says is believed: it is held against the bytes there are, and no more is read than what was asked for.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import BinaryIO

import numpy as np

MOST_CHUNKS = 1000
"""Chunks of a file before its sound."""
UNKNOWN_LENGTH = 0x7FFF0000
"""Stated bytes from which the length is unknown: the file was written to a pipe, or is larger than the field can say."""
PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
DTYPES = {(PCM, 8): "u1", (PCM, 16): "<i2", (PCM, 32): "<i4", (FLOAT, 32): "<f4", (FLOAT, 64): "<f8", (A_LAW, 8): "u1", (MU_LAW, 8): "u1"}


class WavFile:
    """The sound of an open WAV file. A ValueError says what is wrong with one."""

    def __init__(self, file: BinaryIO):
        self.file = file
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        start, stated = self._find_sound(end)
        self.start, there = start, end - start
        if stated > there and stated < UNKNOWN_LENGTH:
            raise ValueError(f"it ends after {there:,} of its {stated:,} bytes of sound")
        self.samples = min(stated, there) // self.block

    def _find_sound(self, end: int) -> tuple[int, int]:
        """Read the header; where the sound begins, and how many bytes of it are stated."""
        head = self.file.read(12)
        if len(head) < 12 or head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
            raise ValueError("it is no WAV file, whatever its name says")
        long, known = 0, False
        for _ in range(MOST_CHUNKS):
            chunk = self.file.read(8)
            if len(chunk) < 8:
                break
            name, size = chunk[:4], struct.unpack("<I", chunk[4:])[0]
            if name == b"data":
                if not known:
                    raise ValueError("its sound comes before what says how it is coded")
                return self.file.tell(), long if size == 0xFFFFFFFF and long else size
            content = self.file.read(min(size, 40))
            if name == b"ds64" and len(content) >= 16:
                long = struct.unpack("<Q", content[8:16])[0]
            if name == b"fmt ":
                self._read_format(content)
                known = True
            self.file.seek(size - len(content) + size % 2, os.SEEK_CUR)
            if self.file.tell() > end:
                break
        raise ValueError("it holds no sound")

    def _read_format(self, content: bytes) -> None:
        if len(content) < 16:
            raise ValueError("what says how it is coded is cut off")
        self.coding, self.channels, self.rate, _, self.block, self.bits = struct.unpack("<HHIIHH", content[:16])
        if self.coding == EXTENSIBLE and len(content) >= 26:
            self.coding = struct.unpack("<H", content[24:26])[0]
        if (self.coding, self.bits) not in DTYPES and (self.coding, self.bits) != (PCM, 24):
            raise ValueError(f"its sound has {self.bits} bits in coding {self.coding}; PCM, float, A-law and mu-law are read")
        if self.block != self.channels * (self.bits // 8) or not self.channels:
            raise ValueError(f"it has {self.channels} channels of {self.bits} bits in {self.block} bytes")

    def read(self, first: int, count: int) -> np.ndarray:
        """Samples from `first` on, at most `count`, as float32 (samples, channels)."""
        first = min(first, self.samples)
        count = min(count, self.samples - first)
        self.file.seek(self.start + first * self.block)
        data = self.file.read(count * self.block)
        data = data[: len(data) // self.block * self.block]
        return decode(data, self.coding, self.bits).reshape(-1, self.channels)


def decode(data: bytes, coding: int, bits: int) -> np.ndarray:
    """Bytes of sound as float32; whole numbers are scaled to [-1, 1)."""
    if (coding, bits) == (PCM, 24):
        parts = np.frombuffer(data, dtype="u1").reshape(-1, 3).astype(np.int32)
        whole = (parts[:, 0] << 8) | (parts[:, 1] << 16) | (parts[:, 2] << 24)
        return (whole >> 8).astype(np.float32) / (1 << 23)
    raw = np.frombuffer(data, dtype=DTYPES[coding, bits])
    if coding in (A_LAW, MU_LAW):
        return np.take(companded(coding), raw)
    if coding == FLOAT:
        with np.errstate(all="ignore"):
            return raw.astype(np.float32)
    return (raw.astype(np.float32) - 128) / 128 if bits == 8 else (raw.astype(np.float64) / (1 << (bits - 1))).astype(np.float32)


@cache
def companded(coding: int) -> np.ndarray:
    """What each of the 256 codes of A-law or mu-law stands for (ITU-T G.711), in [-1, 1]."""
    code = np.arange(256)
    if coding == MU_LAW:
        code = ~code & 0xFF
        size = (((code & 0x0F) << 3) + 0x84 << ((code & 0x70) >> 4)) - 0x84
        return np.where(code & 0x80, -size, size).astype(np.float32) / (1 << 15)
    code = code ^ 0x55
    step, part = (code & 0x70) >> 4, code & 0x0F
    size = np.where(step == 0, (part << 4) + 8, ((part << 4) + 0x108) << np.maximum(step - 1, 0))
    return np.where(code & 0x80, size, -size).astype(np.float32) / (1 << 15)
