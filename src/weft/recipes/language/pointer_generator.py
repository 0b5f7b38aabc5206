"""Encoders and decoders that copy words of the source."""

from __future__ import annotations

from weft.data.text.introductions import IntroductionsConfig
from weft.data.text.pairs import PairsConfig
from weft.models.language.pointer_generator import PointerGeneratorConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def names() -> Recipe:
    """Answers to people who introduce themselves by names that were never seen.

    Run:      weft train pointer_generator/names
              weft sample runs/pointer_generator-names "你好 我 是 库洛洛"
    """
    return Recipe(
        data=IntroductionsConfig(tokenizer="words", min_count=3, oov_words=4, max_length=32),
        model=PointerGeneratorConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1),
        objective=Seq2SeqConfig(label_smoothing=0.0),
        optim=adamw(2e-3, warmup=50),
        train=Train(steps=300, batch=64, log_every=50, eval_every=100, eval_examples=500),
        progress=Progress(metric="exact", goal="max"),
    )


def pairs() -> Recipe:
    """Your own pairs of texts by words, those that are not in the vocabulary copied: a TSV, CSV or JSONL file, or two texts.

    Run:      weft train pointer_generator/pairs --data.path pairs.tsv
    """
    return Recipe(
        data=PairsConfig(tokenizer="words", vocabulary=20_000, min_count=2, oov_words=32, max_length=128),
        model=PointerGeneratorConfig(layers=4, heads=4, width=256, ffn_width=512, norm="pre", dropout=0.3),
        objective=Seq2SeqConfig(label_smoothing=0.0),
        optim=adamw(1e-3, warmup=400),
        train=Train(steps=4000, batch=64, eval_every=500, eval_examples=512),
        progress=Progress(metric="token_bleu", goal="max"),
    )


def adamw(lr: float, warmup: int) -> AdamW:
    """A rate that rises for so many steps and then falls as a cosine to a twentieth."""
    schedule = Schedule(kind="cosine", warmup=warmup, min_lr_ratio=0.05)
    return AdamW(lr=lr, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=schedule)
