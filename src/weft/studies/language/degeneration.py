"""What the likeliest text is like (Holtzman et al., 2019, arXiv:1904.09751): searched for, it repeats itself; drawn, it does not.

Passages that were not trained on are continued in several ways from their first tokens, and compared with how their authors went on:
how surprising each continuation is to the model itself, how much of it repeats what it said before (rep-n, the share of runs of n tokens
that occurred earlier in it), and how much of all continuations together is different (distinct-n). Text of people is neither the least
surprising nor repetitive. Without --run a small character model is trained first, two minutes on two cores.
Shapes: P passages, T tokens.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.api import train
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.text import read_text
from weft.inference.beam import Beam
from weft.inference.beam_models import continuations
from weft.inference.engine import Engine, generate_all
from weft.inference.generate import need_continuing
from weft.inference.request import Request, Sampling
from weft.recipes.base import recipe
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.runs.load import Loaded, load
from weft.studies.base import Finding

PEOPLE = "people"
SMALL = 1000
"""Tokens of a vocabulary below which they are letters, of which runs must be longer to mean anything."""
Texts = list[list[int]]


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    run: str = ""
    """A trained language model; none trains gpt/quickstart."""
    text: str = ""
    """A text file whose passages are continued; none takes the validation data of the run."""
    passages: int = 24
    """How many are continued."""
    prompt: int = 32
    """Tokens of each that are given."""
    tokens: int = 96
    """Tokens that are added."""
    beams: int = 8
    """Hypotheses of the beam search."""
    top_k: int = 40
    """Likeliest tokens among which one way of drawing chooses."""
    top_p: float = 0.95
    """Share of the probability among which another does."""
    ngram: int = 0
    """Length n of the runs of tokens that are looked for; 0 is 4, or 12 where tokens are letters."""
    steps: int = 0
    """Training steps where no run is given; 0 for those of the recipe."""
    seed: int = 0
    """Of the draws."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


def language_model(settings: Settings) -> Loaded:
    if settings.run:
        return load(settings.run, settings.device)
    with tempfile.TemporaryDirectory() as folder:
        changes = {"train.steps": settings.steps, "train.eval_every": settings.steps} if settings.steps else {}
        train(recipe("gpt/quickstart", changes), out=folder, progress=False)
        return load(folder, settings.device)


def passages(loaded: Loaded, settings: Settings) -> Texts:
    """Passages of prompt and continuation (P, T), spread over the text."""
    size = settings.prompt + settings.tokens
    if settings.text:
        ids = loaded.tokenizer.encode(read_text(settings.text, Problems())).tolist()
        found = [ids[first : first + size] for first in spread(len(ids) - size, settings.passages)]
    else:
        data: Any = loaded.recipe.data.build_with(loaded.tokenizer)
        if data.validation is None:
            raise DataError(f"{loaded.recipe.name} has no validation data to continue; name a text with --text")
        index = torch.tensor(spread(len(data.validation), settings.passages))
        found = [row[:size] for row in data.validation.batch(index, torch.zeros_like(index))["ids"].tolist()]
    found = [row for row in found if len(row) == size]
    if not found:
        raise ConfigError(f"no passage has {size} tokens; give fewer with --prompt and --tokens, or a longer --text")
    return found


def spread(length: int, number: int) -> list[int]:
    """So many places at equal distances."""
    return [length * place // number for place in range(number)] if length > 0 else []


def continued(loaded: Loaded, prompts: Texts, settings: Settings) -> dict[str, Texts]:
    """Each prompt continued in every way, by the name of the way."""
    drawn = {
        "greedy": {"temperature": 0.0},
        "drawn": {},
        f"drawn, top-k {settings.top_k}": {"top_k": settings.top_k},
        f"drawn, top-p {settings.top_p:g}": {"top_p": settings.top_p},
    }
    search = continuations(loaded.model, prompts, beam=Beam(settings.beams, 0.0), longest=settings.tokens, vocabulary=loaded.tokenizer.size)
    found = {f"beam {settings.beams}": [best[0].ids for best in search]}
    for name, how in drawn.items():
        sampling = Sampling(max_new_tokens=settings.tokens, ignore_end=True, seed=settings.seed, **how)  # type: ignore[arg-type]
        engine = Engine(loaded.model, loaded.tokenizer, sliding_context=True)
        answers = generate_all(engine, [Request(tuple(ids), sampling, number) for number, ids in enumerate(prompts)])
        found[name] = [[token.id for token in answer.tokens] for answer in answers]
    return found


@torch.inference_mode()
def surprise(loaded: Loaded, prompts: Texts, texts: Texts) -> float:
    """Perplexity of the continuations under the model."""
    model = loaded.model
    total = 0.0
    for prompt, text in zip(prompts, texts, strict=True):
        ids = torch.tensor([[*prompt, *text]], device=next(model.parameters()).device)
        chances = model.head(model.hidden(ids[:, :-1]))[0, len(prompt) - 1 :, : loaded.tokenizer.size].float().log_softmax(-1)
        total -= float(chances.gather(1, ids[0, len(prompt) :, None]).sum())
    return math.exp(total / sum(map(len, texts)))


def runs(text: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(text[place : place + n]) for place in range(len(text) - n + 1)]


def repeated(text: Sequence[int], n: int) -> list[bool]:
    """Of each run of n tokens whether it occurred before."""
    seen: set[tuple[int, ...]] = set()
    found = []
    for each in runs(text, n):
        found.append(each in seen)
        seen.add(each)
    return found


def repetition(texts: Texts, n: int) -> float:
    """rep-n: the share of runs that occurred before in the same text."""
    return mean([mean(repeated(text, n)) for text in texts])


def distinctness(texts: Texts, n: int) -> float:
    """distinct-n: different runs of all texts over all runs."""
    every = [each for text in texts for each in runs(text, n)]
    return len(set(every)) / max(1, len(every))


def mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def study(settings: Settings) -> Finding:
    """Continue the passages and compare."""
    loaded = language_model(settings)
    need_continuing(loaded.model, loaded.tokenizer)
    whole = passages(loaded, settings)
    prompts, own = [row[: settings.prompt] for row in whole], [row[settings.prompt :] for row in whole]
    n = settings.ngram or (12 if loaded.tokenizer.size < SMALL else 4)
    if not 1 <= n <= settings.tokens:
        raise ConfigError(f"--ngram must be from 1 to the {settings.tokens} tokens of a continuation, not {n}")
    texts = {**continued(loaded, prompts, settings), PEOPLE: own}
    return describe(texts, n, len(whole), settings, lambda some: surprise(loaded, prompts, some))


def describe(texts: dict[str, Texts], n: int, number: int, settings: Settings, perplexity: Callable[[Texts], float]) -> Finding:
    measured = {name: (perplexity(some), repetition(some, n), distinctness(some, n)) for name, some in texts.items()}
    curves = [
        Curve(name, [(n + place, mean(row)) for place, row in enumerate(zip(*(repeated(text, n) for text in some), strict=True))], f"c{i}")
        for i, (name, some) in enumerate(texts.items())
    ]
    figure = chart(f"share of continuations that repeat {n} tokens, by token", curves, tall=True, across="token")
    rows = tuple((name, f"{surprise:.2f}", f"{rep:.3f}", f"{distinct:.3f}") for name, (surprise, rep, distinct) in measured.items())
    claim = f"{number} passages continued by {settings.tokens} tokens after {settings.prompt}. {conclusion(measured, n)}"
    return Finding("Likeliest and drawn text", claim, ("continued by", "perplexity", f"rep-{n}", f"distinct-{n}"), rows, figure)


def conclusion(measured: dict[str, tuple[float, float, float]], n: int) -> str:
    """What the numbers say, in words."""
    beam = next(name for name in measured if name.startswith("beam"))
    near = min((name for name in measured if name != PEOPLE), key=lambda name: abs(math.log(measured[name][0] / measured[PEOPLE][0])))
    return (
        f"Of the text that beam search finds {measured[beam][1]:.0%} of all runs of {n} tokens were said before, of people's "
        f"{measured[PEOPLE][1]:.0%}; to the model its perplexity is {measured[beam][0]:.2f}, that of people's text "
        f"{measured[PEOPLE][0]:.2f}, to which '{near}' comes nearest ({measured[near][0]:.2f}, {measured[near][1]:.0%} repeated)."
    )
