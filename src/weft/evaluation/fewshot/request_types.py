"""Three ways to ask a language model: which answer is likeliest, is this word what it would say, what does it say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from weft.data.tokenizers.unknown import warn_unknown
from weft.evaluation.fewshot.scoring import Score, Scorer
from weft.evaluation.fewshot.templates import Item, Prompt
from weft.inference.engine import Engine, generate_all
from weft.inference.generate import encode_prompt
from weft.inference.request import Request, Sampling
from weft.runs.load import Loaded

Rule = Literal["sum", "token", "byte", "unconditional"]
Metric = Callable[[str, Item], dict[str, tuple[float, ...]]]


@dataclass(frozen=True)
class Outcome:
    """What came of one prompt."""

    statistics: dict[str, tuple[float, ...]]
    """Of each metric, to be added over all prompts; the first is the task's own."""
    said: str
    """The answer that was chosen or written."""
    truncated_tokens: int = 0
    """Tokens at the beginning of the prompt that did not fit the model's context."""
    details: dict[str, Any] = field(default_factory=dict)


class RequestType(Protocol):
    def __call__(self, loaded: Loaded, scorer: Scorer, prompts: Sequence[Prompt]) -> list[Outcome]: ...


@dataclass(frozen=True)
class MultipleChoice:
    """The likeliest of several answers (Brown et al., 2020, section 2.4).

    Rules: "sum" takes the log-probability of an answer as it is, "token" and "byte" divide it by the answer's length, and
    "unconditional" takes from it that of the same answer after `neutral`, which favours no question.
    """

    rule: Rule = "token"
    partial: bool = False
    """Score what follows the answers, which is the same after each (Trinh and Le, 2018)."""
    neutral: str = "Answer:"

    def __call__(self, loaded: Loaded, scorer: Scorer, prompts: Sequence[Prompt]) -> list[Outcome]:
        pairs = [self.pair(prompt, answer) for prompt in prompts for answer in prompt.item.answers]
        alone = [(self.neutral, continuation) for _, continuation in pairs] if self.rule == "unconditional" else []
        scores = scorer.score(pairs + alone)
        free = iter(scores[len(pairs) :]) if alone else None
        found, begin = [], 0
        for prompt in prompts:
            own = scores[begin : begin + len(prompt.item.answers)]
            found.append(self.outcome(prompt, own, [next(free) for _ in own] if free else []))
            begin += len(own)
        return found

    def pair(self, prompt: Prompt, answer: str) -> tuple[str, str]:
        return (prompt.text + prompt.gap + answer, prompt.after) if self.partial else (prompt.text, prompt.gap + answer)

    def outcome(self, prompt: Prompt, scores: list[Score], alone: list[Score]) -> Outcome:
        by_rule: dict[str, list[float]] = {
            "sum": [score.logprob for score in scores],
            "token": [score.per_token for score in scores],
            "byte": [score.per_byte for score in scores],
        }
        if alone:
            by_rule["unconditional"] = [score.logprob - free.logprob for score, free in zip(scores, alone, strict=True)]
        chosen = {rule: values.index(max(values)) for rule, values in by_rule.items()}
        right = {rule: (float(place == prompt.item.right),) for rule, place in chosen.items()}
        others = {} if self.partial else {f"accuracy_{rule}": value for rule, value in right.items()}  # the same text has one length
        details = {"answers": prompt.item.answers, "scores": by_rule, "greedy": [score.greedy for score in scores]}
        said = prompt.item.answers[chosen[self.rule]]
        return Outcome({"accuracy": right[self.rule], **others}, said, max(score.truncated_tokens for score in scores), details)


@dataclass(frozen=True)
class LogLikelihood:
    """Whether the answer is what the model would say, token by token, and how likely it holds it."""

    def __call__(self, loaded: Loaded, scorer: Scorer, prompts: Sequence[Prompt]) -> list[Outcome]:
        scores = scorer.score([(prompt.text, prompt.gap + prompt.item.answer) for prompt in prompts])
        return [
            Outcome(
                {"accuracy": (float(score.greedy),), "perplexity": (-score.logprob,)},
                prompt.item.answer if score.greedy else "",
                score.truncated_tokens,
                {"logprobs": score.logprobs},
            )
            for prompt, score in zip(prompts, scores, strict=True)
        ]


@dataclass(frozen=True)
class GenerateUntil:
    """What the model writes, always taking the likeliest token, up to a text or a number of tokens."""

    metric: Metric
    """What was written, and the item -> statistics of each metric."""
    tokens: int = 32
    until: str = "\n"

    def __call__(self, loaded: Loaded, scorer: Scorer, prompts: Sequence[Prompt]) -> list[Outcome]:
        said = written(loaded, [prompt.text for prompt in prompts], self.tokens, (self.until,), scorer)
        lost = [max(0, len(scorer.encode(prompt.text)) - scorer.context) for prompt in prompts]
        return [Outcome(self.metric(text, p.item), text.strip(), cut) for text, p, cut in zip(said, prompts, lost, strict=True)]


def written(loaded: Loaded, prompts: Sequence[str], tokens: int, until: Sequence[str], scorer: Scorer) -> list[str]:
    """What a model writes after each prompt, up to the first of some texts or its own end token."""
    sampling = Sampling(temperature=0.0, max_new_tokens=tokens, stop=tuple(text for text in until if text))
    warn_unknown(loaded.tokenizer, prompts, "prompts of the task")
    ids = [tuple(encode_prompt(loaded.tokenizer, prompt).tolist())[-scorer.context :] for prompt in prompts]
    engine = Engine(loaded.model, loaded.tokenizer, slots=scorer.batch, sliding_context=True)

    def on_done(done: int) -> None:
        if scorer.progress:
            scorer.progress(done, len(prompts))

    return [answer.text for answer in generate_all(engine, [Request(each, sampling) for each in ids], on_done)]
