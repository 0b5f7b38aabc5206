"""weft as a model of lm-evaluation-harness, in this process: lm_eval.simple_evaluate(model=adapter("runs/mine"), tasks=["lambada_openai"]).

`register()` makes it known there as "weft", for model="weft" and model_args="checkpoint=runs/mine".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from weft.core.errors import CapabilityError, require
from weft.evaluation.fewshot.request_types import written
from weft.evaluation.fewshot.scoring import Score, Scorer, Tokens
from weft.runs.load import Loaded, load

NAME = "weft"
MOST_TOKENS = 256
"""Written where a task sets no limit, as in the harness."""


@cache
def register() -> type:
    """The adapter's class, known to the harness as "weft"; a package that is not installed is named with its extra."""
    base = require("lm_eval.api.model", "eval").TemplateLM
    kind: type = require("lm_eval.api.registry", "eval").register_model(NAME)(make_class(base))
    return kind


def adapter(model: Loaded | str | Path, **settings: Any) -> Any:
    """A model of ours as one of the harness."""
    return register()(model, **settings)


def make_class(base: Any) -> type:
    """The adapter over the harness's base class, which is imported only when it is wanted."""

    class WeftLM(base):  # type: ignore[misc]
        def __init__(self, checkpoint: Loaded | str | Path, batch_size: int | str = 64, device: str = "auto", **others: Any):
            super().__init__()
            self.loaded = checkpoint if isinstance(checkpoint, Loaded) else load(checkpoint, device or "auto")
            batch = int(batch_size) if str(batch_size).isdecimal() else 64  # "auto": a batch is bounded by its tokens anyway
            self.scorer = Scorer(self.loaded, batch)
            self.batch_size = batch

        @property
        def eot_token_id(self) -> int:
            return int(getattr(self.loaded.tokenizer, "special_tokens", {}).get("end", self.scorer.first()))

        @property
        def prefix_token_id(self) -> int:
            return self.scorer.first()

        @property
        def max_length(self) -> int:
            return self.scorer.context

        @property
        def tokenizer_name(self) -> str:
            return str(self.loaded.path)

        def tok_encode(self, string: str, **others: Any) -> list[int]:
            return list(self.scorer.encode(string))

        def tok_decode(self, tokens: Sequence[int], **others: Any) -> str:
            return str(self.loaded.tokenizer.decode(list(tokens)))

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            """Log-probability of each continuation, and whether it is what greedy decoding gives."""
            return [(score.logprob, score.greedy) for score in self.scorer.score([moved(*request.args) for request in requests])]

        def _loglikelihood_tokens(self, requests: Sequence[Any], **others: Any) -> list[tuple[float, bool]]:
            pairs: list[tuple[Tokens, Tokens]] = [(tuple(before), tuple(after)) for _, before, after in requests]
            return [(score.logprob, score.greedy) for score in self.scorer.score_tokens(pairs)]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
            """Log-probability of each whole text, in windows where it is longer than the context."""
            texts = [self.scorer.encode(request.args[0]) for request in requests]
            scores = iter(self.scorer.score_tokens([((self.prefix_token_id,), text) for text in texts if text]))
            found = [next(scores) if text else Score((), True) for text in texts]
            return [self.scorer.charged(score, request.args[0]).logprob for score, request in zip(found, requests, strict=True)]

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            """What the model writes up to one of the texts that end it."""
            return [self._write(*request.args) for request in requests]

        def _write(self, prompt: str, settings: dict[str, Any]) -> str:
            if settings.get("do_sample") and settings.get("temperature", 1.0) > 0:
                raise CapabilityError("weft's adapter writes the likeliest token only; ask the harness for do_sample=False")
            until = settings.get("until") or []
            most = int(settings.get("max_gen_toks", settings.get("max_new_tokens", MOST_TOKENS)))
            return written(self.loaded, [prompt], most, [until] if isinstance(until, str) else list(until), self.scorer)[0]

    return WeftLM


def moved(context: str, continuation: str) -> tuple[str, str]:
    """Space at the end of a context put in front of its continuation, where tokens have it; the harness does the same."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation
