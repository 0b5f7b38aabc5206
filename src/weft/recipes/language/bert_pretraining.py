"""BERT's pretraining on novels and encyclopedia articles, and what it is without each of its two ideas (Devlin et al., section 5.1)."""

from __future__ import annotations

import dataclasses

from weft.data.text.sentence_pairs import SentencePairsConfig
from weft.data.text.token_windows import TextConfig
from weft.models.language.bert import BERTConfig
from weft.objectives.language.mlm_nsp import MLMNSPConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

TEXTS = "novels/novels_18.tar.xz,wikipedia_sample/wiki.utf8.txt.gz"
MODEL = BERTConfig(layers=6, heads=12, width=384, context=512)
"""The size of MiniLM."""
OPTIM = AdamW(lr=6e-4, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=1000))
TRAIN = Train(steps=20_000, batch=32, log_every=200, eval_every=2000, eval_examples=2048, save_every=2000)
CONTEXT = 512
"""Half as many tokens leave too little to tell by whether two parts belong together: comparing their rarer words alone tells it for
93 % of held-out pairs there, and for 98 % of these."""


def pretrain() -> Recipe:
    """Masked tokens and sentence pairs, in pieces of words.

    Run:      weft train bert/pretrain && weft train bert/sst2 --init runs/bert-pretrain
    As BERT itself was trained, on short texts first, it learns more in less time:
              weft train bert/pretrain --data.context 128 --train.batch 128 --train.steps 12000 --out runs/short
              weft train bert/pretrain --init runs/short --train.steps 8000 --optim.lr 3e-4
    """
    data = SentencePairsConfig(
        path=TEXTS, tokenizer="wordpiece", vocabulary=16_000, context=CONTEXT, validation=0.1, same_document_rate=0.5
    )
    return Recipe(data=data, model=MODEL, objective=MLMNSPConfig(), optim=OPTIM, train=TRAIN)


def no_pairs() -> Recipe:
    """The same without sentence pairs: two parts that always follow each other, and only masked tokens.

    Run:      weft train bert/pretrain_no_pairs
    """
    made = pretrain()
    assert isinstance(made.data, SentencePairsConfig)
    return dataclasses.replace(made, data=dataclasses.replace(made.data, negative_rate=0.0), objective=MLMNSPConfig(pair_weight=0.0))


def left_to_right() -> Recipe:
    """The same size read from left to right, the next token predicted.

    Run:      weft train bert/pretrain_left_to_right
    """
    data = TextConfig(path=TEXTS, tokenizer="wordpiece", vocabulary=16_000, context=CONTEXT, validation=0.1)
    model = dataclasses.replace(MODEL, causal=True)
    return dataclasses.replace(pretrain(), data=data, model=model, objective=NextTokenConfig())
