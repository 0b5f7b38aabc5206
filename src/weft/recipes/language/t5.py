"""T5: pretraining by cutting pieces out of a text, then any task as text to text."""

from __future__ import annotations

from weft.data.text.pairs import PairsConfig
from weft.data.text.sentinels import T5SpanCorruptionConfig
from weft.data.text.tasks import TasksConfig
from weft.models.language.t5 import T5Config
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def small() -> T5Config:
    """In the form of version 1.1: with a tied head a model has to unlearn first that a token follows itself."""
    return T5Config(layers=2, heads=4, head_dim=32, width=128, gated=True, tie_embeddings=False, dropout=0.0)


def relative(lr: float, schedule: Schedule) -> AdamW:
    """T5 was trained with Adafactor, of which these are the relative updates: its queries are drawn a hundred times smaller than its
    embeddings, so that updates of one size change the ones by a tenth and the others by a thousandth."""
    return AdamW(lr=lr, scale_parameter=True, betas=(0.9, 0.98), weight_decay=0.0, clip_norm=1.0, schedule=schedule)


def text() -> Recipe:
    """Pretraining on the docstrings of Python's standard library, or on your own text.

    Run:      weft train t5/text
              weft train t5/text --data.path my.txt
    """
    return Recipe(
        data=T5SpanCorruptionConfig(vocabulary=2000, context=96),
        model=small(),
        objective=Seq2SeqConfig(label_smoothing=0.0, decode=False),
        optim=relative(3e-2, Schedule(kind="cosine", warmup=100, min_lr_ratio=0.1)),
        train=Train(steps=450, batch=32, log_every=50, eval_every=150, eval_examples=256),
    )


def pairs() -> Recipe:
    """Text to text: your own pairs, from a pretrained model or from nothing.

    Run:      weft train t5/pairs --data.path pairs.tsv --init runs/t5-text
    """
    return Recipe(
        data=PairsConfig(tokenizer="byte_bpe", vocabulary=4000, max_length=96),
        model=small(),
        objective=Seq2SeqConfig(label_smoothing=0.0),
        optim=relative(1e-2, Schedule(kind="linear", warmup=100)),
        train=Train(steps=1000, batch=32, log_every=50, eval_every=250, eval_examples=256),
        progress=Progress(metric="token_bleu", goal="max"),
    )


def tasks() -> Recipe:
    """Several tasks as one: numbers in words, the sentiment of a sentence and questions about a paragraph, or your own files of pairs.

    Run:      weft train t5/tasks
              weft evaluate runs/t5-tasks
              weft sample runs/t5-tasks "sentiment: the soup was cold and the view was not great ."
              weft train t5/tasks --data.path translate=en_de.tsv,summarize=articles.tsv,sentiment=reviews.tsv
    """
    return Recipe(
        data=TasksConfig(tokenizer="byte_bpe", vocabulary=1000, max_length=120),
        model=small(),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="tasks", beams=1),
        optim=relative(2e-2, Schedule(kind="linear", warmup=100)),
        train=Train(steps=1000, batch=32, log_every=100, eval_every=250, eval_examples=256),
        progress=Progress(metric="exact", goal="max"),
    )


def novels() -> Recipe:
    """Pretraining of 11 M parameters on eighteen English novels, pieces of 15 % cut out.

    Run:      weft train t5/novels && weft train t5/sst2 --init runs/t5-novels
    """
    return Recipe(
        data=T5SpanCorruptionConfig(path="novels/novels_18.tar.xz", vocabulary=8000, context=256, validation=0.1),
        model=T5Config(layers=4, heads=4, head_dim=64, width=256, gated=True, tie_embeddings=False),
        objective=Seq2SeqConfig(label_smoothing=0.0, decode=False),
        optim=relative(2e-2, Schedule(kind="cosine", warmup=500, min_lr_ratio=0.05)),
        train=Train(steps=10_000, batch=64, log_every=200, eval_every=1000, eval_examples=512, save_every=2000),
    )


def sst2() -> Recipe:
    """SST-2 from text to text: the answer is the class as the file writes it; a hundredth of the training phrases selects.

    Run:      weft train t5/sst2 --init runs/t5-novels
              weft evaluate runs/t5-sst2 --data.path glue/SST-2/valid_from_sst_test.tsv
    """
    return Recipe(
        data=PairsConfig(path="glue/SST-2/train.tsv.gz", tokenizer="byte_bpe", vocabulary=8000, max_length=64, validation=0.01),
        model=T5Config(layers=4, heads=4, head_dim=64, width=256, gated=True, tie_embeddings=False),
        objective=Seq2SeqConfig(label_smoothing=0.0, beams=1),
        optim=relative(1e-2, Schedule(kind="linear", warmup=300)),
        train=Train(steps=4000, batch=64, log_every=200, eval_every=1000),
        progress=Progress(metric="accuracy", goal="max"),
    )
