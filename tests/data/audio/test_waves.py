from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.audio.waves import AudioConfig
from weft.data.base import UNLABELLED, Dataset

soundfile = pytest.importorskip("soundfile")


def save(path: Path, seconds: float = 0.5, rate: int = 8000, channels: int = 1, pitch: float = 200.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = 0.5 * np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate)
    soundfile.write(path, np.stack([wave] * channels, axis=1), rate, subtype="PCM_16")


def everything(dataset: Dataset | None) -> dict[str, torch.Tensor]:
    assert dataset is not None
    index = torch.arange(len(dataset))
    return dataset.batch(index, index)


def test_classes_from_names_and_lengths_kept(tmp_path: Path) -> None:
    for i in range(10):
        save(tmp_path / "recordings" / f"{i % 2}_theo_{i}.wav", seconds=0.1 * (i + 1))
    data = AudioConfig(path=str(tmp_path), sample_rate=8000, seconds=0.5, validation=0.2).build()
    assert data.info["class_names"] == ["0", "1"]
    assert (data.info["samples"], data.info["training_examples"], data.info["validation_examples"]) == (4000, 8, 2)
    batch = everything(data.train)
    assert batch["wave"].shape == (8, 4000)
    assert batch["wave"].dtype == torch.float32
    for wave, length in zip(batch["wave"], batch["length"].tolist(), strict=True):
        assert 0 < length <= 4000
        assert (wave[length:] == 0).all()
        assert abs(float(wave[:length].abs().max()) - 0.5) < 0.01
    assert not data.problems.counts


def test_classes_from_folders_channels_averaged_and_rates_made_one(tmp_path: Path) -> None:
    save(tmp_path / "low" / "a_1.wav", rate=8000)
    save(tmp_path / "low" / "b.flac", rate=16000, channels=2)
    save(tmp_path / "high" / "c.wav", rate=11025)
    save(tmp_path / "loose.wav", rate=44100)
    data = AudioConfig(path=str(tmp_path), sample_rate=8000, seconds=0.4, validation=0.0).build()
    assert data.info["class_names"] == ["high", "low"]
    batch = everything(data.train)
    assert batch["label"].tolist() == [0, UNLABELLED, 1, 1]
    assert batch["length"].tolist() == [3200] * 4
    reference = batch["wave"][2]
    assert (batch["wave"] - reference).abs().max() < 0.07


def test_unusable_files_are_counted_and_named(tmp_path: Path) -> None:
    save(tmp_path / "1_a.wav")
    save(tmp_path / "2_b.wav")
    (tmp_path / "3_broken.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    (tmp_path / "4_empty.wav").touch()
    soundfile.write(tmp_path / "5_silent.wav", np.zeros(0), 8000)
    soundfile.write(tmp_path / "6_nan.wav", np.full(100, np.nan), 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "7_loud.wav", np.full(100, np.inf), 8000, subtype="FLOAT")
    (tmp_path / "notes.txt").touch()
    data = AudioConfig(path=str(tmp_path), sample_rate=8000, validation=0.0).build()
    assert data.info["class_names"] == ["1", "2", "7"]
    assert data.problems.counts == {"files with another suffix, not read": 1, "sound files that cannot be read": 4}
    assert torch.isfinite(everything(data.train)["wave"]).all()


def test_nothing_usable_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no sound file"):
        AudioConfig(path=str(tmp_path)).build()
    (tmp_path / "a.wav").touch()
    with pytest.raises(DataError, match="none of its 1 sound files"):
        AudioConfig(path=str(tmp_path)).build()
    with pytest.raises(DataError, match="is a file"):
        AudioConfig(path=str(tmp_path / "a.wav")).build()


@pytest.mark.parametrize(
    "wrong", [{"sample_rate": 0}, {"seconds": 0.0}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"validation": 1.0}]
)
def test_settings_that_make_no_sense(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="--data"):
        AudioConfig(path=str(tmp_path), **wrong).build()  # type: ignore[arg-type]


def test_a_folder_to_validate_on_is_numbered_as_training(tmp_path: Path) -> None:
    save(tmp_path / "mine" / "a_1.wav")
    save(tmp_path / "mine" / "b_1.wav")
    save(tmp_path / "yours" / "b_2.wav")
    save(tmp_path / "yours" / "z_2.wav")
    data = AudioConfig(path=str(tmp_path / "mine"), validation_path=str(tmp_path / "yours"), sample_rate=8000).build()
    assert everything(data.validation)["label"].tolist() == [1, UNLABELLED]
    assert "z_2.wav" in data.problems.lines()[0]
    again = AudioConfig(path=str(tmp_path / "yours"), sample_rate=8000, validation=0.0).build_with(data.tokenizer)
    assert again.info["classes"] == 2


def test_a_file_that_ends_early_is_left_out_and_named(tmp_path: Path) -> None:
    for name in ("0_whole", "1_short", "1_piped", "1_other"):
        save(tmp_path / f"{name}.wav")
    whole = (tmp_path / "0_whole.wav").read_bytes()
    (tmp_path / "1_short.wav").write_bytes(whole[:5000])
    (tmp_path / "1_piped.wav").write_bytes(whole[:40] + b"\xff\xff\xff\xff" + whole[44:])
    data = AudioConfig(path=str(tmp_path), sample_rate=8000, seconds=0.1, validation=0.0).build()
    assert data.info["training_examples"] == 3
    assert data.problems.places == {
        "sound files that cannot be read": [f"{tmp_path / '1_short.wav'} (it ends after 4,956 of its 8,000 bytes of sound)"]
    }
