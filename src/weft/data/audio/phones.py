"""The sounds of the English digits, as targets of a formant synthesiser (Klatt, 1980; formants near those of Peterson and Barney, 1952).

Every sound is one or more steps of (milliseconds, formants F1 to F4 in Hz, voice, breath, hiss, centre and width of the hiss in Hz).
Voice, breath and hiss are amplitudes of pulses and noise through the formants and of noise past them; a stop is silence and a burst.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """What the synthesiser aims at for some time."""

    milliseconds: float
    formants: tuple[float, float, float, float]
    voice: float = 1.0
    breath: float = 0.0
    hiss: float = 0.0
    centre: float = 4000.0
    width: float = 1000.0


def vowel(milliseconds: float, f1: float, f2: float, f3: float, voice: float = 1.0) -> Step:
    return Step(milliseconds, (f1, f2, f3, 3500.0), voice)


NEUTRAL = (500.0, 1500.0, 2500.0, 3500.0)
ALVEOLAR = (350.0, 1700.0, 2600.0, 3500.0)
LABIAL = (350.0, 1000.0, 2300.0, 3400.0)
VELAR = (350.0, 1900.0, 2300.0, 3400.0)
PHONES: dict[str, tuple[Step, ...]] = {
    "iy": (vowel(120, 280, 2250, 2950),),
    "ih": (vowel(90, 400, 1950, 2550),),
    "eh": (vowel(110, 550, 1800, 2500),),
    "ah": (vowel(120, 640, 1200, 2450),),
    "ax": (vowel(60, 500, 1450, 2450, 0.8),),
    "ao": (vowel(120, 560, 850, 2450),),
    "uw": (vowel(170, 310, 900, 2250),),
    "ow": (vowel(90, 520, 950, 2400), vowel(90, 360, 800, 2300)),
    "ay": (vowel(110, 720, 1200, 2450), vowel(90, 380, 2050, 2600)),
    "ey": (vowel(80, 480, 1950, 2550), vowel(80, 330, 2200, 2700)),
    "w": (vowel(60, 300, 650, 2200, 0.7),),
    "r": (vowel(70, 380, 1150, 1600, 0.8),),
    "n": (Step(80, (270.0, 1150.0, 2300.0, 3300.0), 0.35),),
    "s": (Step(110, ALVEOLAR, 0.0, 0.0, 0.5, 5200, 1700),),
    "z": (Step(85, ALVEOLAR, 0.25, 0.0, 0.3, 5200, 1700),),
    "f": (Step(95, LABIAL, 0.0, 0.02, 0.12, 5000, 4500),),
    "v": (Step(60, LABIAL, 0.35, 0.0, 0.06, 5000, 4500),),
    "th": (Step(85, ALVEOLAR, 0.0, 0.02, 0.09, 5500, 3500),),
    "t": (Step(50, ALVEOLAR, 0.0), Step(15, ALVEOLAR, 0.0, 0.1, 0.5, 4200, 1500), Step(40, ALVEOLAR, 0.0, 0.25, 0.1, 4500, 2000)),
    "k": (Step(50, VELAR, 0.0), Step(18, VELAR, 0.0, 0.2, 0.45, 2100, 600), Step(25, VELAR, 0.0, 0.25, 0.05, 2500, 1000)),
    "t_end": (Step(55, ALVEOLAR, 0.0), Step(15, ALVEOLAR, 0.0, 0.05, 0.3, 4200, 1500), Step(30, ALVEOLAR, 0.0, 0.1, 0.06, 4500, 2000)),
}
DIGITS: tuple[tuple[str, ...], ...] = (
    ("z", "iy", "r", "ow"),
    ("w", "ah", "n"),
    ("t", "uw"),
    ("th", "r", "iy"),
    ("f", "ao", "r"),
    ("f", "ay", "v"),
    ("s", "ih", "k", "s"),
    ("s", "eh", "v", "ax", "n"),
    ("ey", "t_end"),
    ("n", "ay", "n"),
)
ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GERMAN = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
CHINESE = ("零", "一", "二", "三", "四", "五", "六", "七", "八", "九")
LANGUAGES = {"en": ENGLISH, "de": GERMAN, "zh": CHINESE}


def steps(digit: int) -> tuple[Step, ...]:
    """The word of a digit as steps."""
    return tuple(step for phone in DIGITS[digit] for step in PHONES[phone])


def digits_in_words(digits: list[int], language: str) -> str:
    """[3, 7] -> "three seven", "drei sieben" or "三七"."""
    return ("" if language == "zh" else " ").join(LANGUAGES[language][digit] for digit in digits)
