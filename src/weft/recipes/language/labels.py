"""Multi-label classification: a sigmoid for each label, or the labels written one after the other.

Both take mixed paragraphs of docstrings, whose packages are the labels, or your own CSV, TSV or JSONL file.
"""

from __future__ import annotations

from weft.data.annotated.label_set_pairs import LabelSetPairsConfig
from weft.data.annotated.label_sets import LabelSetsConfig
from weft.models.language.fasttext import FastTextConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.objectives.multi_label import MultiLabelConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam, AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def sigmoid() -> Recipe:
    """Which labels a text has, each told by itself from the mean of the vectors of its words and n-grams.

    Run:      weft train labels/sigmoid
              weft train labels/sigmoid --data.path documents.jsonl --data.text body --data.label topics
    """
    return Recipe(
        data=LabelSetsConfig(),
        model=FastTextConfig(width=64, output="one_vs_all"),
        objective=MultiLabelConfig(),
        optim=Adam(lr=1e-2, schedule=Schedule(kind="linear")),
        train=Train(steps=600, batch=64, log_every=100, eval_every=200, save_every=200, keep_checkpoints=1),
        progress=Progress(metric="micro_f1", goal="max"),
    )


def generated() -> Recipe:
    """The labels of a text as a sequence, the most frequent first; how many there are is the model's to say.

    Run:      weft train labels/generated
              weft evaluate runs/labels-generated
              weft train labels/generated --data.path documents.jsonl --data.text body --data.label topics
    """
    return Recipe(
        data=LabelSetPairsConfig(max_length=160, vocabulary=8000),
        model=TransformerConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="label_sets", beams=4, length_penalty=0.0),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50)),
        train=Train(steps=600, batch=32, log_every=100, eval_every=200, eval_examples=256),
        progress=Progress(metric="exact", goal="max"),
    )
