"""Llamas on text and on Python source."""

from __future__ import annotations

from weft.data.text.python_source import PythonSourceConfig
from weft.data.text.token_windows import TextConfig
from weft.models.language.llama import LlamaConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Recipe
from weft.recipes.language.gpt import cosine
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train


def python() -> Recipe:
    """Small Llama on the source code of this Python installation, character by character.

    Run:      weft train llama/python
    """
    return Recipe(
        data=PythonSourceConfig(context=128, megabytes=4.0),
        model=LlamaConfig(layers=4, heads=4, kv_heads=2, width=128),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=1000, batch=32, log_every=50, eval_every=200, eval_examples=256, save_every=500),
    )


def text() -> Recipe:
    """Llama on your own text.

    Run:      weft train llama/text --data.path my.txt
    """
    return Recipe(
        data=TextConfig(context=128),
        model=LlamaConfig(layers=4, heads=4, kv_heads=2, width=128),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=2000, batch=32, log_every=50, eval_every=200, eval_examples=512, save_every=500),
    )
