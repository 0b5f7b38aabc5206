from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, DataLoader, TensorDataset
from weft.models.language.word2vec import Word2Vec, Word2VecConfig
from weft.objectives.language.negative_sampling import NegativeSamplingConfig
from weft.training.execution import choose
from weft.training.optimizer.settings import SGD, Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

JOINT = torch.tensor([[20, 2, 1, 1], [2, 10, 4, 2], [1, 3, 6, 8], [2, 1, 5, 12]])
"""Times that word w (row) stands by word c (column)."""


def pairs() -> dict[str, Tensor]:
    """Every pair as often as JOINT says."""
    centre, context = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    number = JOINT.flatten()
    return {"centre": centre.flatten().repeat_interleave(number), "context": context.flatten().repeat_interleave(number).unsqueeze(1)}


def train(model: Word2Vec, config: NegativeSamplingConfig, steps: int, repeat: int, lr: float) -> None:
    data = {name: tensor.repeat(repeat, *([1] * (tensor.ndim - 1))) for name, tensor in pairs().items()}
    settings = Train(steps=steps, batch=len(data["centre"]), device="cpu")
    objective = config.build()
    source = DataLoader(TensorDataset(data), 1, torch.device("cpu"))
    Trainer(model, objective, source, settings, Adam(lr=lr, schedule=Schedule(kind="linear")), choose(settings, model, objective)).fit()


def scores(model: Word2Vec) -> Tensor:
    return (model.centre.weight @ model.context.weight.mT).detach()


def test_the_loss_by_hand() -> None:
    torch.manual_seed(0)
    model = Word2VecConfig(vocabulary=4, width=3).build()
    torch.nn.init.normal_(model.centre.weight)
    torch.nn.init.normal_(model.context.weight)
    objective = NegativeSamplingConfig(negatives=2, frequencies=(5, 1, 3, 7)).build()
    key = random.keys(0, torch.arange(2))
    batch = {"centre": torch.tensor([1, 3]), "context": torch.tensor([[2, IGNORE], [0, 1]]), "key": key}
    negatives, table, expected, first = objective.draw(key, 2, 2).tolist(), scores(model), 0.0, 0
    for b, (centre, context) in enumerate(((1, (2, None)), (3, (0, 1)))):
        for c, word in enumerate(context):
            if word is not None:
                real, noise = float(table[centre, word]), [float(table[centre, n]) for n in negatives[b][c]]
                expected -= math.log(1 / (1 + math.exp(-real))) + sum(math.log(1 / (1 + math.exp(s))) for s in noise)
                first += all(real > s for s in noise)
    terms = objective(model, batch, "")
    assert terms.sums["loss"].item() == pytest.approx(expected, rel=1e-5)
    assert int(terms.metrics["ranked_first"]) == first
    assert float(objective.counts(batch)["loss"]) == 3


@pytest.mark.parametrize("power", [0.75, 1.0])
def test_noise_words_follow_the_power_of_their_frequency(power: float) -> None:
    frequencies = (0, 1000, 200, 5, 1, 0)
    objective = NegativeSamplingConfig(power=power, frequencies=frequencies).build()
    drawn = objective.draw(random.keys(0, torch.arange(20_000)), 10, 2)
    assert drawn.shape == (20_000, 10, 2)
    expected = torch.tensor(frequencies).double() ** power * (torch.tensor(frequencies) > 0)
    expected /= expected.sum()
    found = drawn.flatten().bincount(minlength=6) / drawn.numel()
    assert (found - expected).abs().max() < 5 * 0.5 / drawn.numel() ** 0.5
    assert found[0] == found[5] == 0


def test_the_optimum_is_pointwise_mutual_information_less_log_k() -> None:
    """Levy & Goldberg (2014): w c = log p(w, c) / (p(w) p(c)) - log k, where the tables are wide enough."""
    torch.manual_seed(0)
    model = Word2VecConfig(vocabulary=4, width=4).build()
    torch.nn.init.normal_(model.centre.weight, std=0.3)
    torch.nn.init.normal_(model.context.weight, std=0.3)
    frequencies = tuple(JOINT.sum(0).tolist())
    train(model, NegativeSamplingConfig(negatives=2, power=1.0, frequencies=frequencies), steps=300, repeat=25, lr=0.05)
    p = JOINT / JOINT.sum()
    expected = (p / (p.sum(1, keepdim=True) * p.sum(0))).log() - math.log(2)
    assert (scores(model) - expected).abs().max() < 0.1


def test_without_negatives_every_score_grows_and_the_vectors_say_nothing() -> None:
    frequencies = tuple(JOINT.sum(0).tolist())
    torch.manual_seed(0)
    held, free = (Word2VecConfig(vocabulary=4, width=4).build() for _ in range(2))
    train(held, NegativeSamplingConfig(negatives=2, frequencies=frequencies), steps=200, repeat=1, lr=0.2)
    train(free, NegativeSamplingConfig(negatives=0, frequencies=frequencies), steps=200, repeat=1, lr=0.2)
    cosine = torch.nn.functional.cosine_similarity(free.centre.weight[:, None], free.centre.weight, dim=-1)
    assert scores(free).min() > 10, "every pair, seen often or hardly ever, is called certain"
    assert cosine.min() > 0.8, "all vectors point the same way"
    assert scores(held).min() < -1


def test_ragged_micro_batches_equal_the_big_batch() -> None:
    data = pairs()
    data["context"] = torch.cat([data["context"], data["context"].masked_fill(data["centre"].unsqueeze(1) > 1, IGNORE)], dim=1)
    weights = []
    for micro in (0, 5):
        torch.manual_seed(0)
        model = Word2VecConfig(vocabulary=4, width=4).build()
        objective = NegativeSamplingConfig(frequencies=(1, 2, 3, 4)).build()
        settings = Train(steps=3, batch=23, micro_batch=micro, device="cpu")
        source = DataLoader(TensorDataset(data), 1, torch.device("cpu"))
        run = Trainer(model, objective, source, settings, SGD(lr=0.5), choose(settings, model, objective))
        for _ in range(3):
            run.run_step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], atol=1e-6, rtol=0)


def test_data_that_does_not_count_words_is_refused() -> None:
    with pytest.raises(ConfigError, match="frequencies"):
        NegativeSamplingConfig().build()
