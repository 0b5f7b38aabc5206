"""The speaker encoder against nn.LSTM, through weights as Resemblyzer keeps them; and mel frames by their formula."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft
from weft.convert import resemblyzer
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.data.audio.mel import filters, mel_frames
from weft.models.audio.speaker_encoder import TINY


class Reference(nn.Module):
    """LSTMs, and the last state of the last one, projected, rectified and of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTM(40, 24, 3, batch_first=True), nn.Linear(24, 16)
        self.similarity_weight, self.similarity_bias = nn.Parameter(torch.tensor([9.0])), nn.Parameter(torch.tensor([-4.0]))

    def forward(self, frames: Tensor) -> Tensor:
        raw = self.linear(self.lstm(frames)[1][0][-1]).relu()
        return raw / raw.norm(dim=1, keepdim=True)


def package(folder: Path, content: Any) -> str:
    folder.mkdir()
    (folder / "voice_encoder.py").write_text("raise SystemExit\n")
    torch.save(content, folder / resemblyzer.WEIGHTS)
    return str(folder)


def test_converted_weights_give_the_same_vectors(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference, frames = Reference().eval(), torch.randn(3, 50, 40)
    source = package(tmp_path / "theirs", {"step": 1, "model_state": reference.state_dict(), "optimizer_state": {}})
    assert convert(source, tmp_path / "run").family == "resemblyzer"
    model: Any = weft.load(tmp_path / "run").model
    with torch.no_grad():
        torch.testing.assert_close(model(frames), reference(frames), atol=1e-6, rtol=0)
        lengths = torch.tensor([50, 20, 1])
        each = torch.cat([model(frames[row : row + 1, :length]) for row, length in enumerate(lengths.tolist())])
        torch.testing.assert_close(model(frames, lengths), each, atol=1e-6, rtol=0)
    with pytest.raises(CheckpointError, match="writes no pickled"):
        convert(str(tmp_path / "run"), tmp_path / "back")


class Hostile:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('code was run')",)


@pytest.mark.parametrize("content", [Hostile(), {"model_state": {"lstm.weight_ih_l0": Hostile()}}, {"model_state": 3}, [1]])
def test_what_is_no_data_is_refused(content: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no weights of Resemblyzer"):
        convert(package(tmp_path / "theirs", content), tmp_path / "run")


def test_the_logit_of_a_speaker_is_a_scaled_cosine() -> None:
    model = weft.recipe("speaker/voices", {"model": TINY, "model.classes": 3}).model.build().eval()
    frames = torch.randn(4, 9, 40)
    with torch.no_grad():
        logits: Tensor = model.classify(frames)  # type: ignore[operator]
        vectors: Tensor = model(frames)
        cosine = nn.functional.cosine_similarity(vectors[:, None], model.centroid.weight[None], dim=-1)  # type: ignore[union-attr,index]
    torch.testing.assert_close(logits, 10 * cosine - 5)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(4))


def test_mel_frames_are_the_power_in_triangles_of_area_one() -> None:
    """A tone lies in the band around its frequency, every 10 ms; 1000 Hz is mel 15, of 200/3 Hz each below."""
    rate, tone = 16000, 1000.0
    wave = torch.sin(2 * math.pi * tone * torch.arange(rate) / rate)[None]
    frames = mel_frames(wave, rate)
    assert frames.shape == (1, 101, 40)
    step = (15 + 27 * math.log(8) / math.log(6.4)) / 41  # mels between two bands, to 8000 Hz
    assert int(frames[0, 50].argmax()) == round(15 / step) - 1
    spacing = rate / 400
    torch.testing.assert_close((filters(rate, 400, 40).sum(1) * spacing)[20:], torch.ones(20), atol=0.05, rtol=0)
