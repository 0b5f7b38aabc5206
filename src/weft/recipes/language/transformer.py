"""The encoder–decoder Transformer on pairs of texts."""

from __future__ import annotations

from weft.data.text.number_words import NumberWordsConfig
from weft.data.text.pairs import PairsConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam, AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

BLEU = Progress(metric="token_bleu", goal="max")


def numbers() -> Recipe:
    """Numbers from digits to English words, character by character.

    Run:      weft train transformer/numbers
              weft sample runs/transformer-numbers 90210
    """
    return Recipe(
        data=NumberWordsConfig(),
        model=TransformerConfig(layers=2, heads=4, width=128, norm="pre"),
        objective=Seq2SeqConfig(label_smoothing=0.0),
        optim=AdamW(
            lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50, min_lr_ratio=0.05)
        ),
        train=Train(steps=500, batch=64, log_every=50, eval_every=250, eval_examples=64),
        progress=BLEU,
    )


def pairs() -> Recipe:
    """Your own pairs of texts: a TSV, CSV or JSONL file, or two texts with a line each.

    Run:      weft train transformer/pairs --data.path pairs.tsv
              weft train transformer/pairs --data.path train.en --data.target-path train.de
    """
    return Recipe(
        data=PairsConfig(tokenizer="byte_bpe", vocabulary=8000, max_length=96),
        model=TransformerConfig(layers=4, heads=4, width=256, ffn_width=512, dropout=0.3),
        objective=Seq2SeqConfig(),
        optim=noam(),
        train=Train(steps=4000, batch=128, eval_every=500, eval_examples=512),
        progress=BLEU,
    )


def multi30k() -> Recipe:
    """English to German on Multi30k, in batches of about equally many tokens.

    Run:      weft train transformer/multi30k && weft evaluate runs/transformer-multi30k@average10 bleu
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
        model=TransformerConfig(layers=4, heads=8, width=512, ffn_width=1024, norm="pre", dropout=0.3),
        objective=Seq2SeqConfig(r_drop=5.0),
        optim=noam(512),
        # eight widths of batches: compiling for each would take longer than it gains
        train=Train(steps=6000, batch=1, log_every=50, eval_every=300, save_every=300, keep_checkpoints=12, compile="off"),
        progress=BLEU,
    )


def noam(width: int = 256, warmup: int = 800) -> Adam:
    """The paper's optimiser: Adam, with a rate that rises for so many steps and then falls with the square root."""
    return Adam(lr=1.0, betas=(0.9, 0.98), eps=1e-9, schedule=Schedule(kind="noam", warmup=warmup, width=width))
