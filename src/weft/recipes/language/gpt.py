"""Character and byte GPTs."""

from __future__ import annotations

from weft.data.shards.shard_windows import ShardsConfig
from weft.data.text.python_source import PythonSourceConfig
from weft.data.text.token_windows import TextConfig
from weft.models.language.gpt import GPTConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def cosine(warmup: int, floor: float = 0.1) -> Schedule:
    return Schedule(kind="cosine", warmup=warmup, min_lr_ratio=floor)


def quickstart() -> Recipe:
    """Character GPT on the source code of this Python installation.

    Run:      weft train gpt/quickstart
    Expect:   validation loss about 1.24 (1.78 bits per byte) after 1,000 steps; two minutes on two CPU cores.
    """
    return Recipe(
        data=PythonSourceConfig(context=128, megabytes=4.0),
        model=GPTConfig(layers=4, heads=4, width=128, position_embedding="rotary"),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=1000, batch=32, log_every=50, eval_every=200, eval_examples=256, save_every=500),
    )


def text() -> Recipe:
    """Character GPT on your own text.

    Run:      weft train gpt/text --data.path my.txt
    """
    return Recipe(
        data=TextConfig(context=128),
        model=GPTConfig(layers=4, heads=4, width=128, position_embedding="rotary", residual_dropout=0.1),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(50)),
        train=Train(steps=2000, batch=32, log_every=50, eval_every=200, eval_examples=512, save_every=500),
    )


def byte_level() -> Recipe:
    """Byte GPT on the source code of this Python installation.

    Run:      weft train gpt/bytes
    """
    return Recipe(
        data=PythonSourceConfig(tokenizer="bytes", context=256, megabytes=8.0),
        model=GPTConfig(layers=6, heads=6, width=384, position_embedding="rotary"),
        objective=NextTokenConfig(),
        optim=AdamW(lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(100)),
        train=Train(steps=2000, batch=32, eval_every=250, eval_examples=512),
    )


def shakespeare_char() -> Recipe:
    """Character GPT, about 10 M parameters, on tiny Shakespeare.

    Run:      weft train gpt/shakespeare_char
    Expect:   best validation loss 1.467 near step 1,750, then overfitting; under a minute on one H200.
    """
    return Recipe(
        data=TextConfig(path="tinyshakespeare/input.txt", context=256),
        model=GPTConfig(layers=6, heads=6, width=384, bias=False, embedding_dropout=0.2, attention_dropout=0.2, residual_dropout=0.2),
        objective=NextTokenConfig(),
        optim=AdamW(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, clip_norm=1.0, schedule=cosine(100)),
        train=Train(steps=5000, batch=64, eval_every=250, log_every=50, save_every=1000),
    )


def shakespeare_cpu() -> Recipe:
    """Small character GPT on tiny Shakespeare, for a CPU.

    Run:      weft train gpt/shakespeare_cpu
    Expect:   validation loss 1.75 after 2,000 steps; about a minute on two CPU cores.
    """
    return Recipe(
        data=TextConfig(path="tinyshakespeare/input.txt", context=64),
        model=GPTConfig(layers=4, heads=4, width=128, bias=False, position_embedding="rotary"),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1, clip_norm=1.0, schedule=cosine(100)),
        train=Train(steps=2000, batch=12, eval_every=250, log_every=50),
    )


def novels() -> Recipe:
    """GPT of 14 M parameters on eighteen English novels, in pieces of words.

    Run:      weft train gpt/novels && weft sample runs/gpt-novels "It was a dark"
    """
    return Recipe(
        data=TextConfig(path="novels/novels_18.tar.xz", tokenizer="byte_bpe", vocabulary=8000, context=256, validation=0.02),
        model=GPTConfig(layers=6, heads=6, width=384, position_embedding="rotary", attention_dropout=0.1, residual_dropout=0.1),
        objective=NextTokenConfig(),
        optim=AdamW(lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(300)),
        train=Train(steps=6000, batch=64, log_every=100, eval_every=500, eval_examples=512, save_every=1000),
    )


def shards() -> Recipe:
    """GPT of GPT-2's size (124 M parameters with its vocabulary) on token shards of your own, of one folder or a weighted mixture.

    Run:      weft data build corpus.jsonl --out shards --tokenizer path/to/gpt2
              weft train gpt/shards --data.path shards
              weft train gpt/shards --data.path web books wiki --data.weights 0.6 0.3 0.1
    """
    return Recipe(
        data=ShardsConfig(context=1024),
        model=GPTConfig(layers=12, heads=12, width=768, position_embedding="rotary", bias=False),
        objective=NextTokenConfig(),
        optim=AdamW(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=cosine(700)),
        train=Train(steps=20_000, batch=480, micro_batch=32, log_every=10, eval_every=250, eval_examples=640, save_every=1000),
    )
