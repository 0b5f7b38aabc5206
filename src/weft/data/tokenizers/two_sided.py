"""Sources and targets with a tokenizer each, such as letters and phonemes, in one vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import registry
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, Seq2SeqTokenizer


class TwoSidedTokenizer(Seq2SeqTokenizer):
    """PAD, START and END, then the tokens of sources, then those of targets."""

    name = "two_sided"

    def __init__(self, source: Tokenizer, target: Tokenizer):
        super().__init__(source)
        self.target, self.first_target = target, self.size
        self.size = self.first_target + target.size

    def encode_target(self, text: str) -> np.ndarray:
        return self.target.encode(text).astype(np.int64) + self.first_target

    def decode(self, ids: list[int]) -> str:
        """The target up to the first END; what holds tokens of sources only is read as one."""
        stop = ids.index(END) if END in ids else len(ids)
        said = [number - self.first_target for number in ids[:stop] if number >= self.first_target]
        if said:
            return self.target.decode(said)
        return self.inner.decode([number - NUM_SPECIAL for number in ids[:stop] if number >= NUM_SPECIAL])

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "target": self.target.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TwoSidedTokenizer:
        source, target = (registry.find("tokenizers", data[side]["type"]).from_json(data[side]) for side in ("inner", "target"))
        return cls(source, target)
