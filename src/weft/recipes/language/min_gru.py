"""Language models of minimal recurrent units."""

from __future__ import annotations

from weft.data.text.token_windows import TextConfig
from weft.models.language.min_gru import MinGRUConfig
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig
from weft.recipes.base import Recipe
from weft.recipes.language.gpt import cosine
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train


def text() -> Recipe:
    """minGRU on your own text, character by character; minLSTM with --model.cell min_lstm.

    Run:      weft train min_gru/text --data.path my.txt
    """
    return Recipe(
        data=TextConfig(context=128, lanes=32),
        model=MinGRUConfig(dropout=0.1),
        objective=TruncatedBPTTConfig(),
        optim=AdamW(lr=4e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=2000, batch=32, log_every=50, eval_every=200, eval_examples=512, save_every=500),
    )
