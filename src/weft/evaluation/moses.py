"""Texts as Moses has them, by sacremoses: punctuation normalised, then cut into words, as translations were compared before sacrebleu.

With lower case in front that is the `lc.norm.tok` of the Multi30k files, the scale of the papers about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.errors import ConfigError, require

PREFIX = "moses-"


def cutter(tokenize: str) -> Callable[[str], str]:
    """What cuts texts of a language, named as "moses-de", into words with spaces between them."""
    language = tokenize.removeprefix(PREFIX)
    if not language.isalpha() or len(language) > 3:
        raise ConfigError(f"--tokenize {tokenize}: write the language of the targets behind moses-, as in moses-de")
    sacremoses: Any = require("sacremoses", "eval")
    normalizer, tokenizer = sacremoses.MosesPunctNormalizer(lang=language), sacremoses.MosesTokenizer(lang=language)

    def cut(text: str) -> str:
        words: str = tokenizer.tokenize(normalizer.normalize(text), return_str=True)
        return words

    return cut
