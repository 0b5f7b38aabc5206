from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, DataLoader, TensorDataset
from weft.kernels.c import word_vectors
from weft.models.language.word2vec import Word2Vec, Word2VecConfig
from weft.objectives.language.full_softmax import FullSoftmaxConfig
from weft.objectives.language.hierarchical_softmax import HierarchicalSoftmaxConfig
from weft.objectives.language.nce import NCEConfig
from weft.objectives.language.negative_sampling import NegativeSamplingConfig
from weft.training.execution import choose
from weft.training.optimizer.settings import SGD, Adam
from weft.training.settings import Train
from weft.training.trainer import Trainer

FREQUENCIES = (0, 40, 30, 20, 10, 6, 3, 3)
V = len(FREQUENCIES)


def model(width: int = 5, std: float = 0.5) -> Word2Vec:
    torch.manual_seed(0)
    made = Word2VecConfig(vocabulary=V, width=width).build()
    for table in (made.centre, made.context):
        torch.nn.init.normal_(table.weight, std=std)
    return made


def windows(number: int = 6) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    context = torch.randint(1, V, (number, 4), generator=generator)
    context[0, 2:] = IGNORE
    context[1] = IGNORE
    centre = torch.randint(1, V, (number,), generator=generator)
    return {"centre": centre, "context": context, "key": random.keys(0, torch.arange(number))}


def test_cbow_predicts_the_centre_from_the_mean_of_its_context() -> None:
    """The gradient by hand: E_data - E_model of the words' scores, and of it each context word has its share of the mean."""
    made, batch = model().double(), windows()
    objective = FullSoftmaxConfig(architecture="cbow", frequencies=FREQUENCIES, prior=False).build()
    loss = objective(made, batch, "").sums["loss"]
    loss.backward()
    into, out = (table.weight.detach() for table in (made.centre, made.context))
    expected, d_into, d_out = 0.0, torch.zeros_like(into), torch.zeros_like(out)
    for centre, context in zip(batch["centre"].tolist(), batch["context"].tolist(), strict=True):
        near = [word for word in context if word != IGNORE]
        if not near:
            continue
        hidden = torch.stack([into[word] for word in near]).mean(0)
        chances = torch.stack([torch.exp(out[w] @ hidden) for w in range(V)])
        chances /= chances.sum()
        expected -= math.log(chances[centre])
        model_mean = torch.stack([chances[w] * out[w] for w in range(V)]).sum(0)
        for word in near:
            d_into[word] -= (out[centre] - model_mean) / len(near)
        for w in range(V):
            d_out[w] -= (float(w == centre) - chances[w]) * hidden
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert made.centre.weight.grad is not None and made.context.weight.grad is not None
    assert (made.centre.weight.grad - d_into).abs().max() < 1e-12
    assert (made.context.weight.grad - d_out).abs().max() < 1e-12
    assert float(objective.counts(batch)["loss"]) == 5, "the window without a context predicts nothing"


def test_skip_gram_predicts_each_context_word() -> None:
    made, batch = model(), windows()
    objective = FullSoftmaxConfig(frequencies=FREQUENCIES, prior=False).build()
    chances = (made.centre.weight @ made.context.weight.mT).log_softmax(-1)
    pairs = [(a, b) for a, near in zip(batch["centre"].tolist(), batch["context"].tolist(), strict=True) for b in near if b != IGNORE]
    assert objective(made, batch, "").sums["loss"].item() == pytest.approx(-sum(chances[a, b].item() for a, b in pairs), rel=1e-5)
    assert float(objective.counts(batch)["loss"]) == len(pairs)


def test_hierarchical_softmax_sums_to_one_and_paths_are_huffmans() -> None:
    made = model()
    objective = HierarchicalSoftmaxConfig(frequencies=FREQUENCIES).build()
    hidden = torch.randn(3, 5)
    chances = objective.log_prob(made, hidden, torch.arange(V).expand(3, V)).exp()
    torch.testing.assert_close(chances.sum(1), torch.ones(3))
    depth = (objective.signs != 0).sum(1)
    assert depth[1] <= depth[4] <= depth[7] <= depth[0], "frequent words have shorter paths"
    assert int(objective.nodes.max()) == V - 2


def test_nce_tells_real_words_by_u_over_u_plus_k_q() -> None:
    """E238: p(real | w, h) = p / (k q + p), where k q depends on the word."""
    made = model()
    objective = NCEConfig(negatives=3, frequencies=FREQUENCIES, prior=False).build()
    batch = {"centre": torch.tensor([2]), "context": torch.tensor([[4]]), "key": random.keys(5, torch.arange(1))}
    q = torch.tensor(FREQUENCIES) / sum(FREQUENCIES)
    u = (made.centre.weight[2] @ made.context.weight.mT).exp()
    chance = u / (u + 3 * q)
    noise = objective.draw(batch["key"], 1, 3)[0, 0]
    expected = -chance[4].log() - sum((1 - chance[n]).log() for n in noise)
    assert objective(made, batch, "").sums["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_with_a_prior_an_untrained_model_tells_the_words_shares() -> None:
    made, batch = model(std=0.0), windows()
    told = FullSoftmaxConfig(architecture="cbow", frequencies=FREQUENCIES).build()(made, batch, "").sums["loss"].item()
    real = [w for w, near in zip(batch["centre"].tolist(), batch["context"].tolist(), strict=True) if max(near) >= 0]
    assert told == pytest.approx(-sum(math.log(FREQUENCIES[w] / (sum(FREQUENCIES) + 0.5)) for w in real), rel=1e-5)
    objective = NCEConfig(architecture="cbow", frequencies=FREQUENCIES).build()
    found = objective.measure(made, batch)
    assert abs(found["log_z"].item()) < 1e-5
    assert found["nll"].item() == pytest.approx(told, rel=1e-5)


def test_the_gradient_of_nce_becomes_that_of_the_likelihood() -> None:
    """The expected gradient over the noise; its cosine with the softmax's goes to 1 as k grows, where Z is 1."""
    hidden = torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = model().context.weight.detach().double()
    scores = (out @ hidden).log_softmax(0)  # Z = 1
    p, q = scores.exp(), torch.tensor(FREQUENCIES, dtype=torch.float64) / sum(FREQUENCIES)
    data = torch.tensor([0.0, 0.1, 0.3, 0.1, 0.2, 0.1, 0.1, 0.1], dtype=torch.float64)
    likelihood = data - p
    cosines = []
    for k in (1, 10, 100, 10_000):
        u = scores.clone().requires_grad_()
        against = u - (k * q).clamp(min=1e-300).log()
        softplus = torch.nn.functional.softplus
        seen = slice(1, None)  # noise never draws the unknown word
        (data * softplus(-against) + k * q * softplus(against))[seen].sum().neg().backward()
        assert u.grad is not None
        cosines.append(float(torch.cosine_similarity(u.grad[seen], likelihood[seen], dim=0)))
    assert cosines == sorted(cosines)
    assert cosines[-1] > 0.9999


def test_nce_learns_probabilities_with_a_z_near_one() -> None:
    joint = torch.tensor([[20, 2, 1, 1], [2, 10, 4, 2], [1, 3, 6, 8], [2, 1, 5, 12]])
    centre, context = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    number = joint.flatten() * 10
    data = {"centre": centre.flatten().repeat_interleave(number), "context": context.flatten().repeat_interleave(number).unsqueeze(1)}
    torch.manual_seed(0)
    made = Word2VecConfig(vocabulary=4, width=4).build()
    torch.nn.init.normal_(made.centre.weight, std=0.3)
    torch.nn.init.normal_(made.context.weight, std=0.3)
    objective = NCEConfig(negatives=20, prior=False, frequencies=tuple(joint.sum(0).tolist())).build()
    settings = Train(steps=150, batch=len(data["centre"]), device="cpu")
    source = DataLoader(TensorDataset(data), 1, torch.device("cpu"))
    Trainer(made, objective, source, settings, Adam(lr=0.05), choose(settings, made, objective)).fit()
    scores = (made.centre.weight @ made.context.weight.mT).detach()
    assert scores.logsumexp(-1).abs().max() < 0.08, "log Z"
    assert (scores.exp() - joint / joint.sum(1, keepdim=True)).abs().max() < 0.05
    batch = source.batch(0, 100)
    told = {name: value / 100 for name, value in objective.measure(made, batch).items()}
    assert abs(float(told["log_z"])) < 0.08
    assert objective.summary(told)["perplexity"] == pytest.approx(math.exp(float(told["nll"])))


TEXT = torch.tensor([[1, 2, 3, IGNORE, 4, 5, 1, 2, 6, 7, 1, 1], [3, 3, 1, 2, IGNORE, 1, 4, 7, 2, 1, IGNORE, IGNORE]], dtype=torch.int32)


def passages(number: int = 4, length: int = 60) -> dict[str, Tensor]:
    words = torch.multinomial(torch.tensor(FREQUENCIES).float(), number * length, True, generator=torch.Generator().manual_seed(3))
    words = words.view(number, length).to(torch.int32)
    words[:, ::17] = IGNORE
    return {"words": words, "key": random.keys(3, torch.arange(number))}


def test_windows_end_with_the_sentence_and_reach_over_what_is_dropped() -> None:
    batch = {"words": TEXT, "key": random.keys(0, torch.arange(2))}
    objective = FullSoftmaxConfig(frequencies=FREQUENCIES, window=2).build()
    rows = objective.passages(batch)
    assert rows["context"].shape == (2, 12, 4)
    assert rows["context"][0, 4, :2].tolist() == [IGNORE, IGNORE], "nothing before the beginning of a sentence"
    assert (rows["context"][0, 3] == IGNORE).all(), "where a sentence ends is no centre"
    reached = [[word for word in near if word != IGNORE] for near in rows["context"][0].tolist()]
    assert reached[6] in ([5, 2], [4, 5, 2, 6]), "one or two words on each side"
    rare = FullSoftmaxConfig(frequencies=FREQUENCIES, window=2, subsample=1e-2).build().passages(passages(40))
    often = FullSoftmaxConfig(frequencies=FREQUENCIES, window=2).build().passages(passages(40))
    kept, all_ = (int((found["context"] != IGNORE).any(-1).sum()) for found in (rare, often))
    shares = torch.tensor(FREQUENCIES) / sum(FREQUENCIES)
    expected = float((shares * (1e-2 / shares.clamp(min=1e-9)).sqrt().clamp(max=1)).sum())
    assert kept / all_ == pytest.approx(expected, abs=0.05)
    near = [rare["context"][:, :, place] for place in (1, 2)]
    assert sum(int((words != IGNORE).sum()) for words in near) / (2 * kept) > 0.6, (
        "the nearest that is kept is a neighbour, and not only where it stood beside the centre"
    )


C = [
    NegativeSamplingConfig(negatives=3, frequencies=FREQUENCIES, window=3, subsample=0.02, centres=8),
    NegativeSamplingConfig(architecture="cbow", negatives=3, frequencies=FREQUENCIES, window=3, centres=7),
    HierarchicalSoftmaxConfig(frequencies=FREQUENCIES, window=2, centres=8),
    HierarchicalSoftmaxConfig(architecture="cbow", frequencies=FREQUENCIES, window=5, centres=16, subsample=0.1),
]


@pytest.mark.parametrize("config", C, ids=lambda config: f"{type(config).__name__[:-6]}-{config.architecture}")
@pytest.mark.parametrize(("width", "limit"), [(5, 0), (37, 3), (100, 0)])
def test_updates_in_c_are_those_of_pytorch(config: Any, width: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not word_vectors.serves():
        pytest.skip("no C compiler")
    found = []
    config = dataclasses.replace(config, row_limit=limit)
    for serves in (word_vectors.serves, lambda *tables: False):
        monkeypatch.setattr(word_vectors, "serves", serves)
        made, objective = model(width, 0.3), config.build()
        terms, counts = objective.update(made, passages(), "", 0.05)
        found.append((terms.sums["loss"].float(), counts["loss"].float(), made.centre.weight.detach(), made.context.weight.detach()))
    torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=2e-5)
    assert (found[0][2] - model(width, 0.3).centre.weight).abs().max() > 0.01


@pytest.mark.parametrize("config", C[:3], ids=lambda config: f"{type(config).__name__[:-6]}-{config.architecture}")
def test_validation_in_c_tells_the_same_loss_and_changes_nothing(config: Any) -> None:
    made, objective = model(20, 0.3), config.build()
    before = [p.detach().clone() for p in made.parameters()]
    expected = objective(made, passages(), "").sums["loss"].item()
    with torch.no_grad():
        assert objective(made, passages(), "").sums["loss"].item() == pytest.approx(expected, rel=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))


@pytest.mark.parametrize("config", C[:3], ids=lambda config: f"{type(config).__name__[:-6]}-{config.architecture}")
def test_any_number_of_threads_gives_the_same_bytes(config: Any) -> None:
    if not word_vectors.serves():
        pytest.skip("no C compiler")
    found, before = set(), torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 16):
            torch.set_num_threads(threads)
            made = model(20)
            terms, _ = config.build().update(made, passages(2, 80), "", 0.05)
            tables = b"".join(p.detach().numpy().tobytes() for p in made.parameters())
            found.add((float(terms.sums["loss"]), tables))
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1


def trainer(config: Any, micro: int = 0, **settings: Any) -> Trainer:
    made, objective = model(20), config.build()
    train = Train(steps=4, batch=4, micro_batch=micro, device="cpu")
    source = DataLoader(TensorDataset({"words": passages(12)["words"]}), 1, torch.device("cpu"))
    return Trainer(made, objective, source, train, SGD(lr=0.05, **settings), choose(train, made, objective))


def test_micro_batches_make_the_same_updates() -> None:
    weights = []
    for micro in (0, 1, 3):
        run = trainer(C[0], micro)
        run.fit()
        weights.append(run.model.centre.weight.detach())  # type: ignore[union-attr]
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])


def test_only_plain_sgd_can_be_many_updates() -> None:
    with pytest.raises(ConfigError, match="plain SGD"):
        trainer(C[0], clip_norm=1.0)


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    run = trainer(C[0])
    with torch.no_grad():
        run.model.centre.weight.fill_(torch.nan)  # type: ignore[union-attr]
    with pytest.raises(Exception, match="not finite"):
        run.fit()


def test_frequent_words_do_not_overshoot_where_their_gradients_are_limited() -> None:
    """Hundreds of gradients of a word in one update: without a limit their sum goes too far, and farther each time."""
    largest = {}
    for limit in (0, 4):
        made = model(20)
        config = dataclasses.replace(C[0], centres=200, row_limit=limit)
        for _ in range(20):
            config.build().update(made, passages(2, 200), "", 0.1)
        largest[limit] = float(made.context.weight.detach().abs().max())
    assert largest[4] < 2
    assert not largest[0] < 1e6


def test_a_limit_needs_rows_that_are_known() -> None:
    with pytest.raises(ConfigError, match="row_limit"):
        FullSoftmaxConfig(frequencies=FREQUENCIES, centres=4, row_limit=2).build()
    with pytest.raises(ConfigError, match="row_limit"):
        NegativeSamplingConfig(frequencies=FREQUENCIES, row_limit=2).build()


def test_skip_gram_has_the_gradient_of_every_words_softmax() -> None:
    """By hand: each pair gives the centre its context's vector less the model's mean of all, and every word its share of the centre's."""
    made, batch = model().double(), windows()
    FullSoftmaxConfig(frequencies=FREQUENCIES, prior=False).build()(made, batch, "").sums["loss"].backward()
    into, out = (table.weight.detach() for table in (made.centre, made.context))
    d_into, d_out = torch.zeros_like(into), torch.zeros_like(out)
    for centre, context in zip(batch["centre"].tolist(), batch["context"].tolist(), strict=True):
        chances = (out @ into[centre]).softmax(0)
        for word in (word for word in context if word != IGNORE):
            d_into[centre] -= out[word] - chances @ out
            d_out += chances[:, None] * into[centre]
            d_out[word] -= into[centre]
    assert made.centre.weight.grad is not None and made.context.weight.grad is not None
    assert (made.centre.weight.grad - d_into).abs().max() < 1e-12
    assert (made.context.weight.grad - d_out).abs().max() < 1e-12


def test_passages_need_a_window() -> None:
    with pytest.raises(ConfigError, match="window"):
        FullSoftmaxConfig(frequencies=FREQUENCIES).build().passages(passages())
