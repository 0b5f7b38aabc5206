"""Speculative decoding: a draft model proposes a few tokens, the target model reads them at once and accepts those it could have said.

Leviathan et al., 2022, arXiv:2211.17192: a proposal x, drawn from q, is accepted with probability min(1, p(x) / q(x)), and where it is not,
a token is drawn from what p has more than q. So the answer has the target model's distribution exactly, and at temperature 0 it is the
target model's own. Shapes: V vocabulary, N proposals, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.inference.engine import ActiveRequest, end_tokens
from weft.inference.penalties import counts
from weft.inference.request import Answer, Request, Token
from weft.inference.runner import ModelRunner
from weft.inference.sampler import Sampler
from weft.nn.state import Snapshot


@dataclass
class Speculation:
    answer: Answer
    target_steps: int
    """How often the target model was run."""
    proposed: int
    accepted: int
    """Proposals of the draft model, and how many of them the target model accepted."""

    @property
    def acceptance_rate(self) -> float:
        """Share of the proposals that were accepted."""
        return self.accepted / max(1, self.proposed)


@torch.inference_mode()
def speculate(model: Any, draft: Any, tokenizer: Any, request: Request, *, num_draft_tokens: int = 4) -> Speculation:
    """An answer of the target model, helped by a draft model of the same tokens that proposes so many tokens ahead."""
    check(model, draft, tokenizer, request, num_draft_tokens)
    active, sampler = ActiveRequest(1, request, tokenizer), Sampler([request], tokenizer.size, next(model.parameters()).device)
    ends = end_tokens(tokenizer)
    target, drafter = Verifier(model, request.ids[:-1]), ModelRunner(draft)
    drafter.add_rows(1)
    done, text, tokens = Speculation(Answer("", (), "", request.sampling.seed), 0, 0, 0), "", list[Token]()
    room = min([context - len(request.ids) for context in (target.runner.context, drafter.context) if context], default=0)
    while True:
        ids = [*request.ids, *active.answer]
        left = [request.sampling.max_new_tokens, *([room] if room else [])]
        number = min(num_draft_tokens, *(limit - len(active.answer) - 1 for limit in left))
        proposals, draft_probs, snapshot = propose(drafter, sampler, ids, max(number, 0), tokenizer.size)
        logits = model.head(target.read(ids, proposals))[:, : tokenizer.size]
        target_probs = torch.cat([sampler.probabilities(each) for each in logits.split(1)])
        accepted, last = accept_draft(target_probs, draft_probs, proposals, partial(draw_at, sampler, len(ids)))
        target.accept(accepted)
        drafter.rewind(0, len(ids) + accepted, snapshot)
        done.target_steps, done.proposed, done.accepted = done.target_steps + 1, done.proposed + len(proposals), done.accepted + accepted
        for index, number in enumerate([*proposals[:accepted], last]):
            token = Token(number)
            if request.sampling.logprobs >= 0:
                chosen = torch.tensor([number], device=logits.device)
                [token] = Sampler.logprobs(logits[index : index + 1], chosen, request.sampling.logprobs)
            delta = active.push(token, ends, room)
            text, tokens = text + delta.text, [*tokens, token]
            if delta.finish_reason:
                done.answer = Answer(text, tuple(tokens), delta.finish_reason, request.sampling.seed)
                return done


Proposals = tuple[list[int], list[Tensor], Snapshot | None]
"""Tokens, the distribution (V,) that each was drawn from, and the drafter's state before them where it cannot be truncated."""


class Verifier:
    """The target model, which reads proposals and takes back those that are not accepted.

    A KV cache is truncated. A state that cannot be is kept in two rows, read together: one gets the tokens that are settled, the other the
    proposals behind them too, and the one that is right takes the place of both.
    """

    def __init__(self, model: Any, ids: Sequence[int]):
        self.runner = ModelRunner(model)
        self.truncates = self.runner.state is None or self.runner.state.can_truncate
        self.runner.add_rows(1 if self.truncates else 2)
        self.accepted_length, self.proposed = 0, 0
        if ids:
            self.runner.prefill([ids] * len(self.runner))

    def read(self, ids: Sequence[int], proposals: Sequence[int]) -> Tensor:
        """All tokens that are settled, and proposals behind them -> hidden states of the last token and of the proposals (N + 1, D)."""
        new = list(ids[len(self.runner.ids[0]) :])
        self.accepted_length, self.proposed = len(ids), len(proposals)
        return self.runner.prefill([*([] if self.truncates else [new]), [*new, *proposals]])[-1][-self.proposed - 1 :]

    def accept(self, accepted: int) -> None:
        """So many of the proposals are settled too."""
        if self.truncates:
            self.runner.rewind(0, self.accepted_length + accepted, None)
        else:
            row = 1 if accepted == self.proposed else 0
            self.runner.select([row, row])


def check(model: Any, draft: Any, tokenizer: Any, request: Request, num_draft_tokens: int) -> None:
    request.sampling.check()
    if num_draft_tokens < 1:
        raise ConfigError(f"a draft model must propose at least one token ahead, not {num_draft_tokens}")
    if counts(request.sampling):
        raise ConfigError("penalties change with every token, so proposals cannot be read at once; leave them out, or the draft model")
    if request.constraint is not None:
        raise ConfigError("a constraint goes on with every token, so proposals cannot be read at once; leave it out, or the draft model")
    if request.sampling.max_new_tokens < 1 or not request.ids:
        raise ConfigError("a prompt and room for at least one token are needed")
    sizes = {name: int(made.config.vocabulary) for name, made in (("model", model), ("draft", draft))}
    if min(sizes.values()) < tokenizer.size:
        raise ConfigError(f"the draft model must know the same {tokenizer.size} tokens; its vocabulary has {sizes['draft']}")


def propose(drafter: ModelRunner, sampler: Sampler, ids: list[int], number: int, size: int) -> Proposals:
    """So many tokens after these ids."""
    proposals, draft_probs = list[int](), list[Tensor]()
    if not number:
        return proposals, draft_probs, None
    states = drafter.prefill([ids[len(drafter.ids[0]) :]])[0]
    snapshot = drafter.snapshot(0)
    for index in range(number):
        probabilities = sampler.probabilities(drafter.model.head(states[-1:])[:, :size])[0]
        draft_probs.append(probabilities)
        proposals.append(draw(probabilities, draw_at(sampler, len(ids) + index, "guess")))
        if index + 1 < number:
            states = drafter.prefill([proposals[-1:]])[0]
    return proposals, draft_probs, snapshot


def accept_draft(target_probs: Tensor, draft_probs: list[Tensor], proposals: list[int], share: Callable[[str], float]) -> tuple[int, int]:
    """target_probs (N + 1, V): the target model's own distributions -> how many proposals are accepted, and the token after them."""
    for index, (number, proposed) in enumerate(zip(proposals, draft_probs, strict=True)):
        if share(f"keep {index}") * float(proposed[number]) >= float(target_probs[index, number]):
            rest = (target_probs[index] - proposed).clamp(min=0)
            return index, draw(rest / rest.sum(), share("rest"))
    return len(proposals), draw(target_probs[-1], share("rest"))


def draw(probabilities: Tensor, share: float) -> int:
    """The token at a share of the way through the distribution (V,)."""
    sums = probabilities.cumsum(0)
    return int(torch.searchsorted(sums, share * float(sums[-1]), right=True).clamp(max=int(probabilities.nonzero().max())))


def draw_at(sampler: Sampler, position: int, name: str) -> float:
    """A number in [0, 1) for a purpose at a position of the text."""
    key = random.fold(random.fold(sampler.keys, name), position)
    return float(random.integers(key, 1 << 53).double() * 2.0**-53)
