"""A small formant synthesiser: spoken digits of made-up voices, a pure function of a seed, the voice and the number of the take.

A voice is a pitch, a length of the vocal tract (which scales all formants), a tempo, breath, a tilt of its spectrum, and its own way with
each sound. Pulses and noise are shaped in short windows by the formants of the moment, which glide from target to target.
Shapes: B utterances, P steps of a word, T moments (every HOP seconds), F frequencies, N samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.data.audio.phones import DIGITS, steps

HOP, WINDOW = 0.004, 0.016
"""Seconds between two moments, and that the window around each takes."""
GLIDE, ATTACK = 0.045, 0.014
"""Seconds over which formants, and amplitudes, go from one target to the next."""
EDGE = 0.02
"""Seconds of silence before and behind a word."""
MOST_STEPS = max(len(steps(digit)) for digit in range(len(DIGITS)))
TABLE = torch.zeros(len(DIGITS), MOST_STEPS, 10)
"""Of every step of every digit: milliseconds, F1 to F4, voice, breath, hiss, centre, width; 0 milliseconds where a word has fewer."""
for _digit in range(len(DIGITS)):
    for _place, _step in enumerate(steps(_digit)):
        TABLE[_digit, _place] = torch.tensor([_step.milliseconds, *_step.formants, *_step[2:]])


@dataclass(frozen=True)
class Voices:
    """Properties of made-up voices, each (V,) or (V, …)."""

    pitch: Tensor
    tract: Tensor
    tempo: Tensor
    breath: Tensor
    tilt: Tensor
    declination: Tensor
    accent: Tensor
    """Own factors of formants 1 and 2 and of the duration of every step of every digit (V, 10, P, 3)."""


def make_voices(seed: int, number: int) -> Voices:
    """As many voices, of which the first are the same for any number."""
    key = random.keys(random.seed_of(seed, "voices"), torch.arange(number))

    def between(name: str, low: float, high: float) -> Tensor:
        return low + (high - low) * random.uniform(random.fold(key, name))

    deep = random.uniform(random.fold(key, "size"))  # large bodies have long tracts and deep voices, on the whole
    pitch = 230 * (85 / 230) ** (0.75 * deep + 0.25 * random.uniform(random.fold(key, "pitch")))
    tract = 1.18 - 0.26 * (0.8 * deep + 0.2 * random.uniform(random.fold(key, "tract")))
    accent = (0.07 * random.normal(random.fold(key, "accent"), len(DIGITS), MOST_STEPS, 3).clamp(-2, 2)).exp()
    accent[..., 2] = accent[..., 2] ** 2
    return Voices(
        pitch,
        tract,
        between("tempo", 0.75, 1.35),
        between("breath", 0.0, 0.25),
        between("tilt", 0.6, 1.5),
        between("fall", -0.05, 0.35),
        accent,
    )


def speak(voices: Voices, voice: Tensor, digit: Tensor, key: Tensor, rate: int) -> tuple[Tensor, Tensor]:
    """voice, digit and key (B,) -> waves (B, N) at a sample rate, 0 behind the end, and their lengths (B,)."""
    track, moments = _tracks(voices, voice, digit, key)
    hop = round(HOP * rate)
    samples = track.size(1) * hop
    excitation, noise = _source(voices, voice, track, key, rate, hop)
    wave = _shaped(excitation, noise, track, voices.tilt[voice], rate, hop)[:, :samples]
    length = moments * hop
    inside = torch.arange(samples) < length[:, None]
    wave = wave * inside
    loud = 0.25 * 10 ** (0.3 * (random.uniform(random.fold(key, "loudness")) - 0.5))
    peak = wave.abs().amax(1).clamp(min=1e-6)
    return wave * (2 * loud / peak)[:, None], length


def _tracks(voices: Voices, voice: Tensor, digit: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """What is aimed at in every moment (B, T, 9), without the duration, and the moments of each utterance (B,)."""
    aims = TABLE[digit]  # (B, P, 10)
    own = (0.03 * random.normal(random.fold(key, "own"), MOST_STEPS, 4).clamp(-2, 2)).exp()
    accent = voices.accent[voice, digit]
    hasty = (0.15 * random.normal(random.fold(key, "tempo")).clamp(-2, 2)).exp() * voices.tempo[voice]
    seconds = aims[..., 0] / 1000 * accent[..., 2] * own[..., 3] ** 2 / hasty[:, None]  # (B, P)
    formants = aims[..., 1:5] * voices.tract[voice][:, None, None]
    formants[..., :2] = formants[..., :2] * accent[..., :2] * own[..., :2]
    aims = torch.cat((formants, aims[..., 5:]), -1)  # (B, P, 9)
    number = (seconds / HOP).round().long()
    edge = round(EDGE / HOP)
    ends = number.cumsum(1) + edge  # (B, P)
    total = ends[:, -1] + edge
    moment = torch.arange(int(total.max())).expand(len(digit), -1)
    spoken = (moment >= edge) & (moment < ends[:, -1:])
    at = torch.searchsorted(ends, moment.contiguous(), right=True).clamp(max=MOST_STEPS - 1)
    last = (aims.new_zeros(number.shape).masked_fill(number > 0, 1).sum(1) - 1).long()  # the last step that takes time
    at = torch.minimum(at, last[:, None])
    track = aims.gather(1, at[..., None].expand(-1, -1, aims.size(2)))
    track[..., 4:7] = track[..., 4:7] * spoken[..., None]
    return torch.cat((_smooth(track[..., :4], GLIDE), _smooth(track[..., 4:7], ATTACK), _smooth(track[..., 7:], ATTACK)), -1), total


def _smooth(track: Tensor, seconds: float) -> Tensor:
    """track (B, T, C), averaged over a Hann window of so many seconds."""
    half = max(1, round(seconds / HOP / 2))
    window = torch.hann_window(2 * half + 3, periodic=False)[1:-1]
    flat = F.pad(track.mT.reshape(-1, 1, track.size(1)), (half, half), mode="replicate")
    return F.conv1d(flat, (window / window.sum())[None, None]).view(len(track), track.size(2), -1).mT


def _source(voices: Voices, voice: Tensor, track: Tensor, key: Tensor, rate: int, hop: int) -> tuple[Tensor, Tensor]:
    """What goes through the formants, pulses of the voice and breath, and the noise that goes past them: (B, N) each."""
    moments, samples = track.size(1), track.size(1) * hop
    time = torch.arange(moments) * (HOP / 0.5)
    sway = 0.06 * (random.uniform(random.fold(key, "melody"), 1) - 0.5) * torch.sin(6.3 * time)
    melody = (1 - voices.declination[voice][:, None] * (time - 0.3) + sway).clamp(min=0.5)
    pitch = voices.pitch[voice] * (0.08 * random.normal(random.fold(key, "pitch")).clamp(-2, 2)).exp()
    contour = (pitch[:, None] * melody).repeat_interleave(hop, 1) / rate  # (B, N), cycles a sample
    phase = contour.double().cumsum(1)
    pulse = (phase.floor().diff(dim=1, prepend=torch.zeros(len(phase), 1)) > 0).float()
    late = ((phase - phase.floor()) / contour).float().clamp(0, 1)  # how far behind the pulse the sample lies
    pulses = pulse * (1 - late)
    pulses[:, :-1] += (pulse * late)[:, 1:]
    voiced, breathed, hissed = (track[..., index].repeat_interleave(hop, 1) for index in (4, 5, 6))
    breathy, hissing = (random.normal(random.fold(key, name), samples) for name in ("breath", "hiss"))
    breath = breathed + voices.breath[voice][:, None] * voiced * 0.3
    strength = (rate / pitch).sqrt()[:, None]  # so that a second of deep voice has the power of one of a high voice
    return pulses * strength * voiced + 0.5 * breath * breathy, hissed * hissing


def _shaped(excitation: Tensor, noise: Tensor, track: Tensor, tilt: Tensor, rate: int, hop: int) -> Tensor:
    """Both sources through the vocal tract of the moment -> (B, N)."""
    window = round(WINDOW * rate)
    size, before = 2 * window, window // 2  # room for what rings on both sides of the window
    hann = torch.hann_window(window)
    frequency = torch.linspace(0, rate / 2, size // 2 + 1)  # (F,)
    tract = _resonances(track[..., :4], frequency) * (1 + frequency / 400) ** -tilt[:, None, None]
    past = torch.exp(-(((frequency - track[..., 7:8]) / track[..., 8:9]).clamp(max=0) ** 2)) * (frequency > 100)
    made = torch.zeros(())
    for source, response in ((excitation, tract), (noise, past)):
        framed = F.pad(source, (before, size)).unfold(1, window, hop)[:, : track.size(1)] * hann  # (B, T, W)
        made = made + torch.fft.rfft(F.pad(framed, (before, size - window - before))) * response
    made = torch.fft.irfft(made, size)
    added = F.fold(made.mT, (1, (made.size(1) - 1) * hop + size), (1, size), stride=(1, hop))[:, 0, 0]
    return added[:, window:] * hop / (window / 2)


def _resonances(formants: Tensor, frequency: Tensor) -> Tensor:
    """formants (B, T, 4), frequency (F,) -> the amplitude that as many resonators in a row let through (B, T, F), 1 at 0 Hz."""
    found = torch.ones(())
    for index, width in enumerate((60.0, 90.0, 140.0, 200.0)):
        centre, damping = formants[..., index : index + 1], width * width / 4
        at_zero = centre.square() + damping
        found = found * (at_zero.square() / (((frequency - centre).square() + damping) * ((frequency + centre).square() + damping)))
    return found.sqrt()
