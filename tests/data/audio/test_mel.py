"""Features against librosa's, recorded in tests/fixtures/audio/librosa.npz (its entry `origin` says by which version)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.audio.features import Features
from weft.data.audio.mel import cepstrum, decibels, mel_frames

RECORDED = np.load(Path(__file__).parents[2] / "fixtures" / "audio" / "librosa.npz")
RATE = 8000


@pytest.mark.parametrize("case", ["slaney", "htk", "htk_slaney_norm"])
def test_log_mel_and_mfcc_are_librosas(case: str) -> None:
    settings = json.loads(str(RECORDED[f"{case}_settings"]))
    power = mel_frames(
        torch.from_numpy(RECORDED["wave"])[None],
        RATE,
        settings["n_mels"],
        window=settings.get("win_length", settings["n_fft"]),
        hop=settings["hop_length"],
        fft=settings["n_fft"],
        low=settings.get("fmin", 0.0),
        high=settings.get("fmax", 0.0),
        scale="htk" if settings["htk"] else "slaney",
        norm=settings["norm"] == "slaney",
    )
    level = decibels(power)
    assert np.abs(level[0].numpy() - RECORDED[f"{case}_log_mel"]).max() < 1e-4
    assert np.abs(cepstrum(level, 13, settings["lifter"])[0].numpy() - RECORDED[f"{case}_mfcc"]).max() < 1e-4


@pytest.mark.parametrize("kind", ["log_mel", "mfcc"])
def test_features_do_not_depend_on_what_else_is_in_the_batch(kind: str) -> None:
    features = Features(kind=kind, mels=20)  # type: ignore[arg-type]
    wave = torch.from_numpy(RECORDED["wave"])
    lengths = torch.tensor([1000, 4000, 2345])
    batch = torch.stack([torch.nn.functional.pad(wave[:length], (0, 4000 - length)) for length in lengths.tolist()])
    found, frames = features(batch, lengths, RATE), features.frames_of(lengths, RATE)
    assert frames.tolist() == [13, 51, 30]
    for row, length, number in zip(found, lengths.tolist(), frames.tolist(), strict=True):
        alone = features(wave[None, :length], torch.tensor([length]), RATE)[0]
        assert torch.allclose(row[:number], alone, atol=2e-4)
        assert (row[number:] == 0).all()
        assert abs(float(row[:number].mean())) < 1e-4
        assert torch.allclose(row[:number].square().mean(0), torch.ones(features.size), atol=1e-3)


def test_silence_has_features() -> None:
    found = Features()(torch.zeros(2, 800), torch.tensor([800, 0]), RATE)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"hop": 0.0},
        {"window": 1e9},
        {"fft": 10},
        {"low": 4000.0},
        {"high": 9000.0},
        {"mels": 0},
        {"kind": "mfcc", "mels": 5},
        {"lifter": -1},
        {"hop": float("nan")},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"--data\.features"):
        Features(**wrong).check(RATE)  # type: ignore[arg-type]
