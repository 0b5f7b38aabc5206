"""Whether a model knows the response to a dialogue among others: recall@1 (Lowe et al., 2015, arXiv:1506.08909).

Dialogues are taken in groups of so many; to each all responses of its group are offered. A response is scored by how much likelier the
dialogue makes it: its log-probability less the mean of those after PRIORS dialogues of training, so that what may always be said wins
nothing by that. Beside it stands the cosine of TF-IDF vectors of dialogue and response, of frequencies of training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from weft.core.errors import ConfigError, DataError
from weft.data.split import shuffled
from weft.evaluation.evaluate import change_data
from weft.inference.translate import PAD, start_and_end
from weft.metrics.text_errors import words
from weft.models.base import EncoderDecoder, need
from weft.runs.load import Loaded

MOST, PRIORS, ROWS = 1000, 8, 128
"""Dialogues that are looked at, dialogues of training that a response is compared with, and pairs that a model reads at once."""
Pair = tuple[str, str]


def recall_at_1(loaded: Loaded, data: Any, argument: str) -> dict[str, float]:
    """argument: responses to choose from."""
    if not argument.isdecimal() or not 2 <= int(argument) <= 100:
        raise ConfigError(f"recall_at_1 wants the number of responses to choose from, 2 to 100, as recall_at_1=10, not {argument!r}")
    need(loaded.model, EncoderDecoder)
    held = change_data(loaded.recipe.data, data).build_with(loaded.tokenizer)
    if held.validation is None or not hasattr(held.validation, "texts"):
        raise DataError("recall_at_1 needs validation data of dialogues and their responses")
    training: Sequence[Pair] = held.train.texts if hasattr(held.train, "texts") else held.train.pairs.texts  # type: ignore[attr-defined]
    found = groups(held.validation.texts, int(argument))
    if not found:
        raise DataError(f"there are fewer than {argument} dialogues with different responses to choose from")
    priors = [training[i][0] for i in shuffled(len(training), "priors")[:PRIORS]]
    vectors = TFIDF(training)
    right = sum(model_right(loaded, group, priors) for group in found)
    plain = sum(best(vectors.similarities(group)) for group in found)
    number = sum(map(len, found))
    return {"recall_at_1": right / number, "tfidf_recall_at_1": plain / number, "chance_recall_at_1": 1 / int(argument)}


def groups(pairs: Sequence[Pair], size: int) -> list[list[Pair]]:
    """Dialogues in groups in which no dialogue and no response occurs twice, in an order of chance."""
    found: list[list[Pair]] = [[]]
    for i in shuffled(len(pairs), "responses")[: 4 * MOST]:
        context, response = pairs[i]
        if all(context != other and response != said for other, said in found[-1]):
            found[-1].append((context, str(response)))
        if len(found[-1]) == size:
            if len(found) * size >= MOST:
                return found
            found.append([])
    return [group for group in found if len(group) == size]


@torch.no_grad()
def model_right(loaded: Loaded, group: Sequence[Pair], priors: Sequence[str]) -> int:
    contexts, responses = [context for context, _ in group], [response for _, response in group]
    every = [(context, response) for context in [*contexts, *priors] for response in responses]
    scores = torch.cat([logprobs(loaded, every[first : first + ROWS]) for first in range(0, len(every), ROWS)])
    table = scores.view(-1, len(responses))  # dialogues by responses
    return best(table[: len(group)] - table[len(group) :].mean(0))


def best(table: Tensor) -> int:
    """Scores of responses (columns) to dialogues (rows) -> how many dialogues have their own at the top."""
    return int((table.argmax(1) == torch.arange(len(table), device=table.device)).sum())


def logprobs(loaded: Loaded, pairs: Sequence[Pair]) -> Tensor:
    """The log-probability of each response to its dialogue (N,)."""
    model: Any = loaded.model
    device, (start, end) = next(model.parameters()).device, start_and_end(loaded.tokenizer)
    room = getattr(model.config, "context", 0) or 1 << 30
    sources = [torch.tensor([*loaded.tokenizer.encode(source).tolist()[: room - 1], end]) for source, _ in pairs]
    owners = [loaded.tokenizer.for_source(source) for source, _ in pairs]
    wanted = [
        torch.tensor([start, *owner.encode_target(target).tolist()[: room - 2], end])
        for owner, (_, target) in zip(owners, pairs, strict=True)
    ]
    lengths = torch.tensor([len(row) for row in sources], device=device)
    target = pad_sequence(wanted, batch_first=True, padding_value=PAD).to(device)
    source = pad_sequence(sources, batch_first=True, padding_value=PAD).to(device)
    logits = model.head(model.hidden(source, lengths, target[:, :-1])).float()
    sizes = torch.tensor([len(row) for row in wanted], device=device)
    inside = torch.arange(1, target.size(1), device=device) < sizes[:, None]
    picked: Tensor = logits.log_softmax(-1).gather(-1, target[:, 1:, None]).squeeze(-1)
    return picked.masked_fill(~inside, 0.0).sum(1)


class TFIDF:
    """Vectors of texts: each word by how often it occurs and how few texts of training have it."""

    def __init__(self, pairs: Sequence[Pair]):
        self.texts = len(pairs)
        self.having = Counter(word for pair in pairs for word in set(words(" ".join(pair))))

    def vector(self, text: str) -> dict[str, float]:
        """Of length 1, or of 0 where a text has no word."""
        weights = {word: number * math.log((1 + self.texts) / (1 + self.having[word])) for word, number in Counter(words(text)).items()}
        size = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / size for word, weight in weights.items()}

    def similarities(self, group: Sequence[Pair]) -> Tensor:
        contexts, responses = ([self.vector(pair[side]) for pair in group] for side in (0, 1))
        return torch.tensor(
            [[sum(weight * other.get(word, 0.0) for word, weight in one.items()) for other in responses] for one in contexts]
        )
