"""What a language model learns when one context goes on in several ways: the shares with which it does.

Of the sentences 我是人, 你很强, 我爆零了 and 我是吊打, three begin with 我; two go on with 是 and one with 爆. The likelihood is largest
where the model says just that: 2/3, 1/3, and nothing for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import IGNORE
from weft.data.tokenizers.base import CharacterTokenizer
from weft.models.base import ModelConfig
from weft.models.language.gpt import GPTConfig
from weft.models.language.rnn import RNNLMConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

SENTENCES = ("我是人", "你很强", "我爆零了", "我是吊打")
CONTEXT, END, EVERY = "我", "。", 5
MODELS: dict[str, ModelConfig] = {
    "LSTM": RNNLMConfig(layers=1, width=32),
    "GPT": GPTConfig(layers=1, heads=2, width=32),
}


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    steps: int = 200
    """Of training, all sentences at each."""
    lr: float = 0.01
    """Learning rate, Adam's."""
    seed: int = 1
    """Of the weights."""


def counted() -> dict[str, float]:
    """How often each character follows the context."""
    follow = [sentence[1] for sentence in SENTENCES if sentence.startswith(CONTEXT)]
    return {character: follow.count(character) / len(follow) for character in dict.fromkeys(follow)}


def batch(tokenizer: CharacterTokenizer) -> dict[str, Tensor]:
    """ids (4, T), and targets (4, T): each sentence with its end, IGNORE behind it."""
    rows = [tokenizer.encode(sentence + END).tolist() for sentence in SENTENCES]
    longest = max(map(len, rows)) - 1
    ids = torch.tensor([(row[:-1] + [0] * longest)[:longest] for row in rows])
    return {"ids": ids, "targets": torch.tensor([(row[1:] + [IGNORE] * longest)[:longest] for row in rows])}


def train(settings: Settings, config: ModelConfig) -> list[tuple[int, dict[str, float]]]:
    """The shares of all characters behind the context, every few steps."""
    tokenizer = CharacterTokenizer("".join(sorted({*"".join(SENTENCES), END})))
    torch.manual_seed(settings.seed)
    sizes = {"vocabulary": tokenizer.size, **({"context": 8} if hasattr(config, "context") else {})}
    model = type(config)(**{**vars(config), **sizes}).build()
    objective, given = NextTokenConfig().build(), batch(tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    context, found = torch.from_numpy(tokenizer.encode(CONTEXT))[None].long(), []
    for step in range(settings.steps + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                shares = model.head(model.hidden(context))[0, -1].softmax(-1).tolist()  # type: ignore[operator]
            found.append((step, dict(zip(tokenizer.characters, shares, strict=True))))
        optimizer.zero_grad()
        (objective(model, given, "").sums["loss"] / objective.counts(given)["loss"]).backward()
        optimizer.step()
    return found


def study(settings: Settings) -> Finding:
    """Train a recurrent model and a Transformer on the four sentences."""
    if settings.steps < EVERY:
        raise ConfigError(f"expected steps ≥ {EVERY}, found {settings.steps}")
    wanted = counted()
    found = {name: train(settings, config) for name, config in MODELS.items()}
    curves: list[Curve] = []
    rows: list[tuple[str, ...]] = [("the sentences", *(f"{share:.3f}" for share in wanted.values()), "0.000")]
    for name, points in found.items():
        for character in wanted:
            label = f"{name}, {character}"
            curves.append(Curve(label, [(step, shares[character]) for step, shares in points], f"c{len(curves)}"))
        last = points[-1][1]
        rest = sum(share for character, share in last.items() if character not in wanted)
        rows.append((name, *(f"{last[character]:.3f}" for character in wanted), f"{rest:.3f}"))
    claim = (
        f"Behind {CONTEXT} the sentences {', '.join(SENTENCES)} go on with {' and '.join(f'{c} ({s:.3f})' for c, s in wanted.items())}; "
        f"after {settings.steps} steps on all of them the models say so, too."
    )
    figure = chart(f"share of a character behind {CONTEXT}, by step", curves, tall=True, across="step")
    return Finding("A toy corpus", claim, ("", *wanted, "all others"), tuple(rows), figure)
