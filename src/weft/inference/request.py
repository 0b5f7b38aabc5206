"""What a text model is asked for, and what comes back: the words that the engine, the server and the commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.constraint import Constraint
from weft.inference.mask_predict import MaskPredict

GREEDY = 0.0
"""The temperature at which the likeliest token is taken."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, and when to stop."""

    max_new_tokens: int = 200
    """Most tokens to add."""
    temperature: float = 1.0
    """0 takes the likeliest token; higher values flatten the distribution."""
    top_k: int = 0
    """Draw among so many likeliest tokens; 0 for all."""
    top_p: float = 1.0
    """Draw among the fewest likeliest tokens whose probability reaches this (Holtzman et al., 2019)."""
    min_p: float = 0.0
    """Leave out tokens less likely than this share of the likeliest (Nguyen et al., 2024)."""
    repetition_penalty: float = 1.0
    """Divide positive logits, and multiply negative ones, of tokens that occurred in prompt or answer (Keskar et al., 2019)."""
    presence_penalty: float = 0.0
    """Taken from the logit of every token that the answer holds already."""
    frequency_penalty: float = 0.0
    """Taken from the logit of a token for each time that the answer holds it."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of single tokens."""
    stop: tuple[str, ...] = ()
    """Stop sequences: texts that end the answer, which keeps what stands before the first of them."""
    stop_tokens: tuple[int, ...] = ()
    """Tokens that end the answer, beside the model's own END."""
    ignore_end: bool = False
    """Go on past the model's own END."""
    seed: int = 0
    """An answer is a function of the prompt, these settings and its number among several."""
    logprobs: int = -1
    """How many alternatives to each token come with their log-probabilities; with -1 none, not even the token's own."""

    def check(self) -> None:
        """Refuse settings that choose nothing."""
        for name, low, high in (
            ("max_new_tokens", 0, 1 << 31),
            ("temperature", 0.0, 100.0),
            ("top_k", 0, 1 << 31),
            ("min_p", 0.0, 1.0),
            ("presence_penalty", -100.0, 100.0),
            ("frequency_penalty", -100.0, 100.0),
            ("logprobs", -1, 1 << 31),
        ):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, not {getattr(self, name)}")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0.0 < self.repetition_penalty <= 100.0:
            raise ConfigError(f"repetition_penalty must be above 0 and at most 100, not {self.repetition_penalty}")
        if any(not text for text in self.stop):
            raise ConfigError("a stop sequence must not be empty")


@dataclass(frozen=True)
class Request:
    """A prompt to be continued."""

    ids: tuple[int, ...]
    """Tokens of the prompt, at least one; of the source, where a model answers one and `source` does not hold it."""
    sampling: Sampling = Sampling()
    number: int = 0
    """Which of several answers to the same prompt this is."""
    prompt_logprobs: bool = False
    """Tell log-probabilities of the prompt's own tokens too."""
    mask_predict: MaskPredict | None = None
    """How a model that makes all tokens at once does so; None leaves it to the model."""
    source_text: str = ""
    """The text of a source, where its tokenizer can answer with words of it that have no token (`Tokenizer.for_source`)."""
    source: Tensor | None = field(default=None, compare=False)
    """Features (S, …) that a model answers in place of tokens, such as frames of sound or patches of an image, as its `encode` takes
    them without the batch."""
    constraint: Constraint | None = field(default=None, compare=False)
    """What the answer may say, token by token."""


@dataclass(frozen=True)
class Token:
    """A token, and what else was likely at its position."""

    id: int
    logprob: float | None = None
    """Under the model itself, before temperature, penalties or bias; None for a prompt's first token, or where not asked for."""
    alternatives: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens with their log-probabilities, likeliest first, the token itself among them."""


@dataclass(frozen=True)
class Delta:
    """What an answer gained since the last delta. The last one carries the finish reason."""

    text: str
    """Text that can no longer change: held back are characters that are not whole yet, and what may become a stop sequence."""
    tokens: tuple[Token, ...] = ()
    finish_reason: str = ""
    """"stop" (END or a stop token), "stop sequence", "length", "context" or "cancelled"; empty while the answer goes on."""


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    text: str
    tokens: tuple[Token, ...]
    """Those that were added, the one that ended the answer included."""
    finish_reason: str
    seed: int
    prompt: tuple[Token, ...] = ()
    """The prompt's tokens, where their log-probabilities were asked for."""
