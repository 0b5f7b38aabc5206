"""The encoder–decoder Transformer on pairs of texts."""

from __future__ import annotations

import dataclasses

from weft.data.text.number_words import NumberWordsConfig
from weft.data.text.pairs import PairsConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.language.minimum_risk import MinimumRiskConfig
from weft.objectives.language.policy_gradient import PolicyGradientConfig
from weft.objectives.language.scheduled_sampling import ScheduledSamplingConfig
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


def numbers_scheduled() -> Recipe:
    """Numbers to English words by scheduled sampling: the decoder reads ever more of its own characters.

    Run:      weft train transformer/numbers_scheduled
    Others:   weft train transformer/pairs --data.path pairs.tsv --objective.type scheduled_sampling
    """
    made = numbers()
    return dataclasses.replace(
        made, objective=ScheduledSamplingConfig(label_smoothing=0.0, decay="linear", decay_steps=600, min_epsilon=0.5)
    )


def numbers_risk() -> Recipe:
    """Minimum-risk training on BLEU: a trained model of numbers in words, made better at whole answers.

    Run:      weft train transformer/numbers --train.steps 150
              weft train transformer/numbers_risk --init runs/transformer-numbers
    Others:   weft train transformer/pairs --data.path pairs.tsv --init runs/transformer-pairs --objective.type minimum_risk --out runs/risk
    """
    return risk(numbers(), MinimumRiskConfig(label_smoothing=0.0))


def numbers_policy() -> Recipe:
    """The same by policy gradient, REINFORCE with the other answers' mean reward as a baseline.

    Run:      weft train transformer/numbers --train.steps 150
              weft train transformer/numbers_policy --init runs/transformer-numbers
    """
    return risk(numbers(), PolicyGradientConfig(label_smoothing=0.0))


def risk(made: Recipe, objective: MinimumRiskConfig | PolicyGradientConfig) -> Recipe:
    """A recipe that goes on from a trained model, at a small constant rate."""
    optim = Adam(lr=5e-4, betas=(0.9, 0.98), clip_norm=1.0, schedule=Schedule(kind="constant"))
    return dataclasses.replace(
        made, objective=objective, optim=optim, train=Train(steps=60, batch=32, log_every=10, eval_every=20, eval_examples=500)
    )


def multi30k_risk() -> Recipe:
    """Minimum-risk training on BLEU of a translator of Multi30k.

    Run:      weft train transformer/multi30k
              weft train transformer/multi30k_risk --init runs/transformer-multi30k@average10
              weft evaluate runs/transformer-multi30k_risk bleu
    Control:  weft train transformer/multi30k_risk --init runs/transformer-multi30k@average10 --objective.reward constant --out runs/control
    """
    made = multi30k()
    optim = Adam(lr=1e-5, betas=(0.9, 0.98), clip_norm=1.0, schedule=Schedule(kind="constant", warmup=50))
    train = dataclasses.replace(made.train, steps=1000, eval_every=100, save_every=100)
    data = dataclasses.replace(made.data, batch_tokens=1600)  # type: ignore[call-arg]
    return dataclasses.replace(made, data=data, objective=MinimumRiskConfig(), optim=optim, train=train)


def noam(width: int = 256, warmup: int = 800) -> Adam:
    """The paper's optimiser: Adam, with a rate that rises for so many steps and then falls with the square root."""
    return Adam(lr=1.0, betas=(0.9, 0.98), eps=1e-9, schedule=Schedule(kind="noam", warmup=warmup, width=width))
