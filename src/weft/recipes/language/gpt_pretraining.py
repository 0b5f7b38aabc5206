"""GPT-2's size on token shards, trained as in 2019 and as it is done now. `weft bench speedrun` has them race."""

from __future__ import annotations

from weft.data.shards.shard_windows import ShardsConfig
from weft.models.language.gpt import GPTConfig
from weft.models.language.speedrun_gpt import SpeedrunGPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW, Muon
from weft.training.schedule import Schedule
from weft.training.settings import Train


def classical() -> Recipe:
    """GPT-2 by the book: learned positions, GELU, a tied head, AdamW and a cosine; documents follow one another unmasked.

    Run:      weft train gpt/classical --data.path shards
    """
    return Recipe(
        data=ShardsConfig(context=1024),
        model=GPTConfig(layers=12, heads=12, width=768, activation="gelu_tanh"),
        objective=NextTokenConfig(),
        optim=AdamW(
            lr=1e-3,
            betas=(0.9, 0.95),
            weight_decay=0.1,
            clip_norm=1.0,
            schedule=Schedule(kind="cosine", warmup=40, min_lr_ratio=0.1),
        ),
        train=Train(steps=600, batch=32, log_every=10, eval_every=100, eval_examples=256, save_every=1000),
    )


def speedrun() -> Recipe:
    """The same size in a third of the time: Muon, rotary positions, QK-norm, squared ReLU, outputs that begin at zero, documents apart.

    Run:      weft data python --out corpus
              weft data build corpus/train.jsonl --out shards --tokenizer byte_bpe --vocabulary 32768
              weft train gpt/speedrun --data.path shards
    """
    return Recipe(
        data=ShardsConfig(context=1024, document_mask=True),
        model=SpeedrunGPTConfig(layers=12, heads=6, width=768),
        objective=NextTokenConfig(),
        optim=Muon(
            lr=5e-3,
            momentum=0.95,
            weight_decay=0.0,
            adamw_lr=1e-2,
            head_lr=6e-3,
            betas=(0.8, 0.95),
            schedule=Schedule(kind="linear", warmup=10, hold=0.4),
        ),
        train=Train(steps=400, batch=16, log_every=10, eval_every=50, eval_examples=256, save_every=1000),
    )
