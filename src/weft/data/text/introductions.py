"""Introductions and their answers, in English and Chinese, with invented names: what a model must copy, as it never saw them.

"你好 我 是 库洛洛" is answered by "库洛洛 你好 很 高兴 认识 你". No name occurs in two pairs, so those of validation are new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.text.pairs import PairsConfig

ENGLISH = (
    ("Hello, I am {a}.", "Hello {a}, nice to meet you!"),
    ("My name is {a}.", "Good morning {a}, how are you?"),
    ("Good evening, my name is {a} and I come from far away.", "Good evening {a}, sit down with us."),
    ("This is my friend {a}.", "Welcome, {a}!"),
    ("I have a letter for {a}.", "I will give it to {a} tomorrow."),
    ("{a} is at the door.", "Please ask {a} to come in."),
    ("I am {a}, and this is {b}.", "Hello {a} and hello {b}!"),
    ("Please tell {a} that {b} is late.", "{a}, I hear that {b} is late."),
    ("Is {a} older than {b}?", "No, {b} is older than {a}."),
    ("Who wrote this, {a} or {b}?", "It was {b}, not {a}."),
)
CHINESE = (
    ("你好 我 是 {a}", "{a} 你好 很 高兴 认识 你"),
    ("我 的 名字 叫 {a}", "早上 好 {a} 你 好 吗"),
    ("这 是 我 的 朋友 {a}", "欢迎 你 {a}"),
    ("请 把 这 本 书 给 {a}", "好 的 我 明天 给 {a}"),
    ("我 是 {a} 他 是 {b}", "{a} 你好 {b} 你好"),
    ("{a} 比 {b} 高 吗", "不 {b} 比 {a} 高"),
)
ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
CHARACTERS = "阿巴贝波达迪多法费戈格哈基卡科库拉莱洛鲁玛米莫纳尼诺帕佩奇萨塞索塔特图瓦维西亚伊"
SYLLABLES = len(ONSETS) * len(VOWELS)
MOST = min(SYLLABLES, len(CHARACTERS)) ** 3 // 2
"""Pairs, of two names each at most."""


def english_name(number: int) -> str:
    """The names by number, of three syllables: 0 is "Bababa"."""
    syllables = [divmod(digit, len(VOWELS)) for digit in digits(number, SYLLABLES)]
    return "".join(ONSETS[onset] + VOWELS[vowel] for onset, vowel in syllables).capitalize()


def chinese_name(number: int) -> str:
    """The names by number, of three characters: 0 is "阿阿阿"."""
    return "".join(CHARACTERS[digit] for digit in digits(number, len(CHARACTERS)))


def digits(number: int, base: int) -> tuple[int, int, int]:
    return number // base**2 % base, number // base % base, number % base


@dataclass(frozen=True, kw_only=True)
class IntroductionsConfig(PairsConfig):
    file_source = "pairs"

    max_length: int = 64
    """Longest text in tokens; longer ones are truncated."""
    pairs: int = 5000
    """How many are made, as many in English as in Chinese."""
    seed: int = 0
    """Of the names."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if not 2 <= self.pairs <= MOST:
            raise ConfigError(f"--data.pairs must be from 2 to {MOST:,}, not {self.pairs}: no name is used twice")
        made = [self._pair(number, *names) for number, names in enumerate(self._names())]
        cut = max(1, int(len(made) * (1 - self.validation)))
        return made[:cut], made[cut:]

    def _names(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """Two English and two Chinese names for each pair, all of them different."""
        places = np.arange(2 * self.pairs)
        drawn = [random.permute(places, size**3, random.seed_of(self.seed, "names", size)) for size in (SYLLABLES, len(CHARACTERS))]
        english, chinese = [english_name(number) for number in drawn[0].tolist()], [chinese_name(number) for number in drawn[1].tolist()]
        return [((english[i], english[i + 1]), (chinese[i], chinese[i + 1])) for i in range(0, 2 * self.pairs, 2)]

    @staticmethod
    def _pair(number: int, english: tuple[str, str], chinese: tuple[str, str]) -> tuple[str, str]:
        """Languages take turns, and so do the sentences of each."""
        sentences, (a, b) = (CHINESE, chinese) if number % 2 else (ENGLISH, english)
        source, target = sentences[number // 2 % len(sentences)]
        return source.format(a=a, b=b), target.format(a=a, b=b)
