"""Constituency parsers that write the tree of a sentence token by token ("Grammar as a foreign language").

Both take sentences of a small grammar, or a treebank: a file, folder or archive of trees in brackets.
"""

from __future__ import annotations

from weft.data.trees.treebank import TreebankConfig
from weft.models.language.rnn_seq2seq import RNNSeq2SeqConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

TOKENS = Progress(metric="accuracy", goal="max")
"""Of all measures of training the one that follows F1 most closely; `weft evaluate` tells F1 itself."""


def transformer() -> Recipe:
    """From a sentence to its tree, by a Transformer.

    Run:      weft train parser/transformer
              weft evaluate runs/parser-transformer
              weft sample runs/parser-transformer "the old dog saw a letter of Anna ."
              weft train parser/transformer --data.path treebank/
    """
    return Recipe(
        data=TreebankConfig(),
        model=TransformerConfig(layers=2, heads=4, width=64, norm="pre", dropout=0.1),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="brackets", decode=True, beams=4, length_penalty=0.0),
        optim=adamw(3e-3),
        train=Train(steps=500, batch=32, log_every=50, eval_every=250, eval_examples=64),
        progress=TOKENS,
    )


def rnn() -> Recipe:
    """From a sentence to its tree, by recurrent networks with attention, as in the paper.

    Run:      weft train parser/rnn
              weft train parser/rnn --data.path treebank/
    """
    return Recipe(
        data=TreebankConfig(),
        model=RNNSeq2SeqConfig(cell="lstm", width=96, attention="additive", input_feeding=True),
        objective=Seq2SeqConfig(label_smoothing=0.0, scores="brackets", beams=4, length_penalty=0.0),
        optim=adamw(4e-3),
        train=Train(steps=400, batch=32, log_every=50, eval_every=200, eval_examples=64),
        progress=TOKENS,
    )


def adamw(lr: float) -> AdamW:
    """A rate that rises and falls as a cosine to a twentieth."""
    return AdamW(lr=lr, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50, min_lr_ratio=0.05))
