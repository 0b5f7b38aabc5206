from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import DataError
from weft.data.audio.sound_files import blocks, open_sound, read_sound

RATE = 8000
NOISE = (0.3 * np.random.Generator(np.random.PCG64(0)).standard_normal((20000, 2))).clip(-1, 1)


def wav(samples: bytes, rate: int = RATE, channels: int = 1, coding: int = 1, bits: int = 16, stated: int | None = None) -> bytes:
    block = channels * bits // 8
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, coding, channels, rate, rate * block % (1 << 32), block % 65536, bits)
    size = len(samples) if stated is None else stated
    return b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVE" + head + b"data" + struct.pack("<I", size) + samples


def refused(content: bytes, folder: Path, name: str = "bad.wav") -> str:
    (folder / name).write_bytes(content)
    found = read_sound(folder / name, RATE)
    assert isinstance(found, str), found
    assert "\n" not in found
    with pytest.raises(DataError, match=name) as caught:
        list(blocks(folder / name, RATE))
    assert "\n" not in str(caught.value)
    return found


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
@pytest.mark.parametrize("kind", ["WAV", "WAVEX", "RF64"])
def test_wav_files_are_read_as_libsndfile_does(tmp_path: Path, subtype: str, kind: str) -> None:
    library = pytest.importorskip("soundfile")
    if not library.check_format(kind, subtype):
        pytest.skip(f"no {kind} of {subtype}")
    library.write(tmp_path / "a.wav", NOISE, 11025, format=kind, subtype=subtype)
    expected, _ = library.read(tmp_path / "a.wav", dtype="float32", always_2d=True)
    with open_sound(tmp_path / "a.wav") as sound:
        assert (sound.rate, sound.channels, sound.samples) == (11025, 2, 20000)
        assert np.array_equal(sound.read(0, 10**12), expected)
        assert np.array_equal(sound.read(700, 30), expected[700:730])
        assert len(sound.read(10**9, 5)) == 0


@pytest.mark.parametrize("suffix", [".flac", ".ogg", ".mp3"])
def test_other_files_are_read_by_libsndfile(tmp_path: Path, suffix: str) -> None:
    library = pytest.importorskip("soundfile")
    library.write(tmp_path / f"a{suffix}", NOISE, 16000)
    wave = read_sound(tmp_path / f"a{suffix}", RATE)
    assert isinstance(wave, np.ndarray)
    assert abs(len(wave) - 10000) < 1200
    assert isinstance(read_sound((tmp_path / f"a{suffix}").read_bytes(), RATE), np.ndarray)


@pytest.mark.parametrize("rate", [8000, 11025, 16000])
def test_a_stream_of_blocks_is_the_whole(tmp_path: Path, rate: int) -> None:
    samples = (NOISE[:, 0] * 32767).astype("<i2").tobytes()
    (tmp_path / "a.wav").write_bytes(wav(samples, rate))
    whole = read_sound(tmp_path / "a.wav", RATE)
    parts = list(blocks(tmp_path / "a.wav", RATE, seconds=0.3))
    assert isinstance(whole, np.ndarray)
    assert len(parts) > 2
    assert np.abs(np.concatenate(parts) - whole).max() < 1e-6
    middle = read_sound(tmp_path / "a.wav", RATE, start=0.64, seconds=0.25)
    assert isinstance(middle, np.ndarray)
    assert len(middle) == 2000
    assert np.abs(middle - whole[5120:7120])[100:-100].max() < 1e-5


def test_headers_that_lie_are_one_sentence_each(tmp_path: Path) -> None:
    sound = bytes(2000)
    assert "no WAV file" in refused(b"hello", tmp_path)
    assert "no WAV file" in refused(b"", tmp_path)
    assert "holds no sound" in refused(wav(sound)[:36], tmp_path)
    assert "no samples" in refused(wav(b""), tmp_path)
    assert "0 samples a second" in refused(wav(sound, rate=0), tmp_path)
    assert "4,294,967,295 samples a second" in refused(wav(sound, rate=2**32 - 1), tmp_path)
    assert "channels" in refused(wav(sound, channels=0), tmp_path)
    assert "channels" in refused(wav(bytes(4000), channels=1000), tmp_path)
    assert "coding 2" in refused(wav(sound, coding=2, bits=4), tmp_path)
    assert "ends after 2,000 of its 90,000 bytes" in refused(wav(sound, stated=90_000), tmp_path)
    assert "not numbers" in refused(wav(np.full(500, np.nan, "<f4").tobytes(), coding=3, bits=32), tmp_path)
    assert "comes before" in refused(b"RIFF\0\0\0\0WAVEdata" + struct.pack("<I", 8) + bytes(8), tmp_path)
    assert "cut off" in refused(b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", 2) + bytes(2), tmp_path)
    endless = b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 100_000
    assert "holds no sound" in refused(endless, tmp_path)
    pytest.importorskip("soundfile")
    assert "libsndfile" in refused(b"fLaC" + bytes(100), tmp_path, "bad.flac")
    assert "libsndfile" in refused(wav(sound)[:20], tmp_path, "bad.ogg")


def test_a_flac_that_ends_early_or_says_too_much(tmp_path: Path) -> None:
    library = pytest.importorskip("soundfile")
    library.write(tmp_path / "a.flac", NOISE[:, 0], RATE)
    content = (tmp_path / "a.flac").read_bytes()
    refused(content[: len(content) // 2], tmp_path, "cut.flac")
    long = bytearray(content)
    long[21] |= 0x0F  # of the 36 bits of the number of samples
    refused(bytes(long), tmp_path, "long.flac")


def test_infinite_samples_are_clipped_and_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(np.full(500, np.inf, "<f4").tobytes(), coding=3, bits=32))
    wave = read_sound(tmp_path / "a.wav", RATE)
    assert isinstance(wave, np.ndarray)
    assert (wave == 1).all()
    os.mkfifo(tmp_path / "pipe.wav")
    assert "regular" in str(read_sound(tmp_path / "pipe.wav", RATE))
    assert "directory" in str(read_sound(tmp_path, RATE)).lower()


def test_ten_hours_are_read_in_little_memory(tmp_path: Path) -> None:
    """A sparse file: 288 million samples of silence, of which only what is asked for is read."""
    samples = 36_000 * RATE
    with (tmp_path / "long.wav").open("wb") as file:
        file.write(wav(b"", stated=2 * samples))
        file.truncate(44 + 2 * samples)
    tracemalloc.start()
    first = next(blocks(tmp_path / "long.wav", RATE, seconds=5.0))
    last = read_sound(tmp_path / "long.wav", RATE, start=35_990.0, seconds=5.0)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()
    assert len(first) == len(last) == 40_000
