"""Translation without autoregression: all tokens of a target at once."""

from __future__ import annotations

from weft.core.config import override
from weft.data.text.number_words import NumberWordsConfig
from weft.data.text.pairs import PairsConfig
from weft.models.language.nonautoregressive import NonAutoregressiveConfig
from weft.objectives.language.cmlm import CMLMConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

BLEU = Progress(metric="token_bleu", goal="max")


def numbers() -> Recipe:
    """Numbers from digits to English words, all characters at once.

    Run:      weft train nat/numbers
              weft sample runs/nat-numbers 90210 --iterations 1
    """
    return Recipe(
        data=NumberWordsConfig(),
        model=NonAutoregressiveConfig(layers=2, heads=4, width=128, dropout=0.0),
        objective=CMLMConfig(label_smoothing=0.0, length_weight=0.5),
        optim=adamw(2e-3, warmup=50),
        train=Train(steps=500, batch=64, log_every=50, eval_every=250, eval_examples=64),
        progress=BLEU,
    )


def pairs() -> Recipe:
    """Your own pairs of texts: a TSV, CSV or JSONL file, or two texts with a line each.

    Run:      weft train nat/pairs --data.path pairs.tsv
              weft sample runs/transformer-pairs --input train.en --out distilled.de
              weft train nat/pairs --data.path train.en --data.target-path distilled.de
    """
    return Recipe(
        data=PairsConfig(tokenizer="byte_bpe", vocabulary=8000, max_length=96),
        model=NonAutoregressiveConfig(layers=4, heads=4, width=256, ffn_width=512, dropout=0.3),
        objective=CMLMConfig(),
        optim=adamw(1e-3, warmup=400),
        train=Train(steps=6000, batch=128, eval_every=500, eval_examples=512),
        progress=BLEU,
    )


def multi30k() -> Recipe:
    """English to German on Multi30k, of the size and in the batches of transformer/multi30k.

    Run:      weft train nat/multi30k && weft evaluate runs/nat-multi30k@average10 bleu --objective.iterations 4
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
        model=NonAutoregressiveConfig(layers=4, heads=8, width=512, ffn_width=1024, dropout=0.3),
        objective=CMLMConfig(r_drop=5.0),
        optim=adamw(1e-3, warmup=800),
        # eight widths of batches: compiling for each would take longer than it gains
        train=Train(steps=12000, batch=1, log_every=50, eval_every=600, save_every=300, keep_checkpoints=12, compile="off"),
        progress=BLEU,
    )


def multi30k_cut() -> Recipe:
    """The same in one pass of 64 positions, cut at the first END; no length is predicted.

    Run:      weft train nat/multi30k_cut && weft evaluate runs/nat-multi30k_cut@average10 bleu
    """
    return override(multi30k(), {"model.fixed_length": 64, "objective.fixed_length": 64})


def adamw(lr: float, warmup: int) -> AdamW:
    """A rate that rises for so many steps and then falls as a cosine to a twentieth."""
    schedule = Schedule(kind="cosine", warmup=warmup, min_lr_ratio=0.05)
    return AdamW(lr=lr, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=schedule)
