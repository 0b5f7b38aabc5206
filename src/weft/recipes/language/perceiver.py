"""Perceivers on text."""

from __future__ import annotations

from weft.data.text.python_source import PythonSourceConfig
from weft.models.language.perceiver import PerceiverConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def source() -> Recipe:
    """Character Perceiver with a learned basis on the source code of this Python installation.

    Beside the GPT of gpt/quickstart it shows what the bottleneck costs: positions from 64 on see the first 64 characters and
    their own, no other.

    Run:      weft train perceiver/source
    Expect:   validation loss about 2.17 after 1,000 steps, 2.05 in the first half of a window and 2.29 in the second, where
              the GPT reaches 1.24; two to three minutes on one CPU core.
    """
    return Recipe(
        data=PythonSourceConfig(context=128, megabytes=4.0),
        model=PerceiverConfig(layers=4, heads=4, width=128, latents=64, position_embedding="rotary"),
        objective=NextTokenConfig(),
        optim=AdamW(
            lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50, min_lr_ratio=0.1)
        ),
        train=Train(steps=1000, batch=32, log_every=50, eval_every=200, eval_examples=256, save_every=500),
    )
