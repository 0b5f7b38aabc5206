"""g2p-en (Park & Kim, 2019): GRUs from the letters of an English word to its phonemes, as its package has them in checkpoint20.npz.

Its letters and phonemes have tables and numbers of their own; here both are parts of one vocabulary, and each table has zeros for what
it does not know. A phoneme's logit is as before, and that of a letter so low that its probability is 0.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from weft.convert.family import Family
from weft.convert.table import Rename, Row, Table
from weft.core.errors import CheckpointError
from weft.data.tokenizers.base import CharacterTokenizer, WordTokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, PAD, START
from weft.data.tokenizers.two_sided import TwoSidedTokenizer
from weft.models.language.rnn_seq2seq import RNNSeq2SeqConfig

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B",
    "CH",
    "D",
    "DH",
    "F",
    "G",
    "HH",
    "JH",
    "K",
    "L",
    "M",
    "N",
    "NG",
    "P",
    "R",
    "S",
    "SH",
    "T",
    "TH",
    "V",
    "W",
    "Y",
    "Z",
    "ZH",
)
PHONEMES = sorted([*CONSONANTS, "UW", *(vowel + stress for vowel in VOWELS for stress in "012")])
"""Of ARPAbet, vowels with their stress, in the order of the file; UW stands there without one, too."""
IMPOSSIBLE = -1e4
"""A logit beside which every other makes the probability 0."""
ARRAYS = ("enc_emb", "dec_emb", "fc_w", "fc_b", *(f"{side}_{kind}" for side in ("enc", "dec") for kind in ("w_ih", "w_hh", "b_ih", "b_hh")))


def tokenizer() -> TwoSidedTokenizer:
    """Small letters, any other character unknown, and phonemes with spaces between them."""
    return TwoSidedTokenizer(
        CharacterTokenizer(ascii_lowercase + CharacterTokenizer.UNKNOWN), WordTokenizer([WordTokenizer.UNKNOWN, *PHONEMES])
    )


LETTERS = len(ascii_lowercase)
FIRST_PHONEME = NUM_SPECIAL + LETTERS + 1
VOCABULARY = FIRST_PHONEME + 1 + len(PHONEMES)
SOURCE_ROWS = [PAD, NUM_SPECIAL + LETTERS, END, *range(NUM_SPECIAL, NUM_SPECIAL + LETTERS)]
"""Our ids of its letters: <pad>, <unk>, </s>, a to z."""
TARGET_ROWS = [PAD, FIRST_PHONEME, START, END, *range(FIRST_PHONEME + 1, VOCABULARY)]
"""Our ids of its phonemes: <pad>, <unk>, <s>, </s>, AA0 to ZH."""


def settings(config: dict[str, Any]) -> RNNSeq2SeqConfig:
    return RNNSeq2SeqConfig(
        vocabulary=VOCABULARY,
        cell="gru",
        width=config["width"],
        embedding_width=config["embedding_width"],
        bidirectional=False,
        attention="none",
    )


def describe(c: RNNSeq2SeqConfig) -> dict[str, Any]:
    raise CheckpointError("weft reads the weights of g2p-en, but writes none")


class G2PTable(Table):
    """Tables of letters or of phonemes become tables of both."""

    def to_own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        own = super().to_own(tensors)
        for name, rows in (("embed.weight", SOURCE_ROWS), ("target_embed.weight", TARGET_ROWS), ("head.weight", TARGET_ROWS)):
            own[name] = spread(name, own[name], rows, 0.0)
        own["head.bias"] = spread("head.bias", own["head.bias"], TARGET_ROWS, IMPOSSIBLE)
        return own


def spread(name: str, values: Tensor, rows: list[int], fill: float) -> Tensor:
    """values (N, …) in these rows of a table of the whole vocabulary."""
    if len(values) != len(rows):
        raise CheckpointError(f"{name} has {len(values)} rows, not the {len(rows)} of g2p-en's alphabet")
    table = values.new_full((VOCABULARY, *values.shape[1:]), fill)
    table[torch.tensor(rows)] = values
    return table


def table(c: RNNSeq2SeqConfig) -> Table:
    rows: list[Row] = [
        Rename("enc_emb", "embed.weight"),
        Rename("dec_emb", "target_embed.weight"),
        Rename("fc_w", "head.weight"),
        Rename("fc_b", "head.bias"),
    ]
    for theirs, ours in (("enc", "encoder"), ("dec", "decoder.recurrent")):
        for kind, name in (("w", "weight"), ("b", "bias")):
            rows += [Rename(f"{theirs}_{kind}_{part}", f"{ours}.layers.0.{name}_{part}") for part in ("ih", "hh")]
    return G2PTable(rows)


FAMILY = Family("rnn_seq2seq/pairs", RNNSeq2SeqConfig, settings, describe, table)
