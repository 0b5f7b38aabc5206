"""Speech without end and with its text known: what the program espeak-ng says, in many voices, at many pitches and speeds.

Utterance i is a function of the seed and i. Nothing is written to disk; the program gets a text on its input and has some seconds for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.audio.phones import LANGUAGES
from weft.data.audio.sound_files import read_sound
from weft.data.base import Problems
from weft.data.io.text import read_text

PROGRAM = "espeak-ng"
PATIENCE = 20.0
"""Seconds that an utterance may take."""
MOST_CHARACTERS = 1000
LOUDNESS = 0.02
"""Share of the loudest sample below which the ends of an utterance are silence, which is cut off."""


@dataclass(frozen=True, kw_only=True)
class Espeak(Config):
    number: int = 0
    """Utterances that espeak-ng speaks, where it is installed, to train on beside the sounds of a path or instead of them; 0 for none."""
    texts: str = ""
    """File with a text to speak on each line; empty for single digits."""
    voices: tuple[str, ...] = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-gb-x-gbclan", "en-gb-x-gbcwmd")
    """Languages and accents, as espeak-ng calls them; each is spoken in all of its variants."""
    pitch: tuple[int, int] = (20, 80)
    """Lowest and highest pitch, of 0 to 99."""
    speed: tuple[int, int] = (100, 220)
    """Slowest and fastest speech in words a minute."""
    seed: int = 0
    """Of the choices."""

    def check(self) -> None:
        if not 0 <= self.number <= 10_000_000:
            raise ConfigError(f"--data.espeak.number is from 0 to 10,000,000, not {self.number}")
        if not self.voices or not all(re.fullmatch(r"[a-z][a-z0-9-]{1,39}", voice) for voice in self.voices):
            raise ConfigError(f"--data.espeak.voices are names such as en-us, de or cmn (see espeak-ng --voices), not {self.voices}")
        for name, (low, high), (least, most) in (("pitch", self.pitch, (0, 99)), ("speed", self.speed, (80, 450))):
            if not least <= low <= high <= most:
                raise ConfigError(f"--data.espeak.{name} is a range within {least} to {most}, not {low} to {high}")


@dataclass(frozen=True)
class Order:
    """What one utterance is to be."""

    text: str
    voice: str
    pitch: int
    speed: int

    def spoken(self) -> str:
        """The text as it is said: a digit as the word of the language."""
        language = {"cmn": "zh", "zh": "zh", "de": "de"}.get(self.voice.partition("-")[0].partition("+")[0], "en")
        return LANGUAGES[language][int(self.text)] if re.fullmatch(r"[0-9]", self.text) else self.text


def speak(settings: Espeak, rate: int, problems: Problems) -> tuple[list[np.ndarray], list[Order]]:
    """The utterances as waves at a sample rate, and what each of them is."""
    texts = [line.strip() for line in read_text(settings.texts, problems).splitlines()] if settings.texts else [str(i) for i in range(10)]
    texts = [text for text in texts if text]
    if cut := sum(len(text) > MOST_CHARACTERS for text in texts):
        problems.add(f"texts of more than {MOST_CHARACTERS} characters, not spoken", settings.texts, cut)
    orders = choices(settings, [text for text in texts if len(text) <= MOST_CHARACTERS], variants())
    with ThreadPoolExecutor(4) as pool:
        waves = list(pool.map(partial(say, rate=rate), orders))
    kept = [(wave, order) for wave, order in zip(waves, orders, strict=True) if isinstance(wave, np.ndarray)]
    for wave, order in zip(waves, orders, strict=True):
        if isinstance(wave, str):
            problems.add("texts that espeak-ng did not speak", f"{order.text[:40]!r} ({wave})")
    if not kept:
        raise DataError(f"espeak-ng spoke none of {len(orders)} texts{problems.summary()}")
    return [wave for wave, _ in kept], [order for _, order in kept]


def choices(settings: Espeak, texts: Sequence[str], kinds: Sequence[str]) -> list[Order]:
    """Text, voice, pitch and speed of every utterance. All texts come before any comes again."""
    if not texts:
        raise DataError(f"{settings.texts}: holds no text to speak")
    found = []
    for number in range(settings.number):
        seed = random.seed_of(settings.seed, "espeak", number)

        def pick(name: str, size: int, seed: int = seed) -> int:
            return random.seed_of(seed, name) % size

        voice = f"{settings.voices[pick('voice', len(settings.voices))]}+{kinds[pick('variant', len(kinds))]}"
        pitch = settings.pitch[0] + pick("pitch", settings.pitch[1] - settings.pitch[0] + 1)
        speed = settings.speed[0] + pick("speed", settings.speed[1] - settings.speed[0] + 1)
        found.append(Order(texts[number % len(texts)], voice, pitch, speed))
    return found


@cache
def variants() -> tuple[str, ...]:
    """The voices that every language is spoken in."""
    listed = run(["--voices=variant"], "").decode("utf-8", errors="replace").splitlines()[1:]
    names = sorted({match[1] for line in listed if (match := re.search(r"!v/([A-Za-z0-9_-]+)", line))})
    return tuple(names) or ("m1",)


def say(order: Order, rate: int) -> np.ndarray | str:
    """An utterance without the silence at its ends, or why there is none."""
    words = ["-v", order.voice, "-p", str(order.pitch), "-s", str(order.speed), "--stdin", "--stdout"]
    try:
        wave = read_sound(run(words, order.spoken()), rate, name="spoken.wav")
    except (OSError, subprocess.SubprocessError) as error:
        return f"it took more than {PATIENCE:g} s" if isinstance(error, subprocess.TimeoutExpired) else type(error).__name__
    if isinstance(wave, str):
        return wave
    loud = np.flatnonzero(np.abs(wave) > LOUDNESS * np.abs(wave).max())
    return wave[loud[0] : loud[-1] + 1] if len(loud) else "it is silent"


def run(words: list[str], text: str) -> bytes:
    """What the program writes."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise DataError(f"{PROGRAM} is not installed (on Debian: apt-get install {PROGRAM}); set --data.espeak.number 0 to do without")
    return subprocess.run([program, *words], input=text.encode(), capture_output=True, timeout=PATIENCE, check=True).stdout
