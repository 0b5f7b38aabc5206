"""The recurrent encoder and decoder on pairs of texts."""

from __future__ import annotations

import dataclasses

from weft.data.text.number_words import NumberWordsConfig
from weft.data.text.pairs import PairsConfig
from weft.data.text.symbol_strings import SymbolStringsConfig
from weft.models.language.rnn_seq2seq import RNNSeq2SeqConfig
from weft.objectives.language.minimum_risk import MinimumRiskConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam, AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

BLEU = Progress(metric="token_bleu", goal="max")


def numbers() -> Recipe:
    """Numbers from digits to English words, character by character.

    Run:      weft train rnn_seq2seq/numbers
              weft sample runs/rnn_seq2seq-numbers 90210
    """
    return Recipe(
        data=NumberWordsConfig(),
        model=RNNSeq2SeqConfig(cell="gru", width=128),
        objective=Seq2SeqConfig(label_smoothing=0.0),
        optim=adam(4e-3),
        train=Train(steps=400, batch=64, log_every=50, eval_every=200, eval_examples=64),
        progress=BLEU,
    )


def reverse() -> Recipe:
    """Strings of letters from the last to the first; --data.task copy has them as they are, --model.attention none a fixed memory.

    Run:      weft train rnn_seq2seq/reverse
              weft sample runs/rnn_seq2seq-reverse badcafe
    """
    return Recipe(
        data=SymbolStringsConfig(),
        model=RNNSeq2SeqConfig(cell="gru", width=64),
        objective=Seq2SeqConfig(label_smoothing=0.0, beams=1),
        optim=adam(1e-2),
        train=Train(steps=400, batch=64, log_every=50, eval_every=200, eval_examples=256),
        progress=BLEU,
    )


def pairs() -> Recipe:
    """Your own pairs of texts: a TSV, CSV or JSONL file, or two texts with a line each.

    Run:      weft train rnn_seq2seq/pairs --data.path pairs.tsv
              weft train rnn_seq2seq/pairs --data.path train.en --data.target-path train.de
    """
    return Recipe(
        data=PairsConfig(tokenizer="byte_bpe", vocabulary=8000, max_length=96),
        model=RNNSeq2SeqConfig(width=256, input_feeding=True, dropout=0.3),
        objective=Seq2SeqConfig(),
        optim=adam(2e-3),
        train=Train(steps=4000, batch=128, eval_every=500, eval_examples=512),
        progress=BLEU,
    )


def multi30k() -> Recipe:
    """English to German on Multi30k, in batches of about equally many tokens; --model.attention none is the same without attention.

    Run:      weft train rnn_seq2seq/multi30k && weft evaluate runs/rnn_seq2seq-multi30k@average5 bleu
    """
    data = PairsConfig(
        path="multi30k/train.en.gz",
        target_path="multi30k/train.de.gz",
        validation_path="multi30k/val.en.gz",
        validation_target_path="multi30k/val.de.gz",
        tokenizer="byte_bpe",
        vocabulary=8000,
        max_length=96,
        batch_tokens=3200,
    )
    return Recipe(
        data=data,
        model=RNNSeq2SeqConfig(width=512, embedding_width=256, attention="additive", input_feeding=True, tie_embeddings=True, dropout=0.4),
        objective=Seq2SeqConfig(r_drop=5.0),
        optim=adam(1e-3, weight_decay=1e-4),
        train=Train(steps=6000, batch=1, log_every=50, eval_every=300, save_every=300, keep_checkpoints=12),
        progress=BLEU,
    )


def multi30k_risk() -> Recipe:
    """Minimum-risk training on BLEU of a recurrent translator of Multi30k.

    Run:      weft train rnn_seq2seq/multi30k
              weft train rnn_seq2seq/multi30k_risk --init runs/rnn_seq2seq-multi30k@average5
    Control:  weft train rnn_seq2seq/multi30k_risk --init runs/rnn_seq2seq-multi30k@average5 --objective.reward constant --out runs/control
    """
    made = multi30k()
    optim = Adam(lr=3e-5, betas=(0.9, 0.98), clip_norm=1.0, schedule=Schedule(kind="constant", warmup=50))
    train = dataclasses.replace(made.train, steps=1000, eval_every=100, save_every=100)
    data = dataclasses.replace(made.data, batch_tokens=1600)  # type: ignore[call-arg]
    return dataclasses.replace(made, data=data, objective=MinimumRiskConfig(), optim=optim, train=train)


def adam(lr: float, weight_decay: float = 0.0) -> AdamW:
    """Adam with gradients clipped, as recurrent networks need them, and a rate that falls to a twentieth."""
    schedule = Schedule(kind="cosine", warmup=50, min_lr_ratio=0.05)
    return AdamW(lr=lr, weight_decay=weight_decay, clip_norm=1.0, schedule=schedule)
