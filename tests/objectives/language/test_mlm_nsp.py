from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch, DataLoader, TensorDataset
from weft.models.language.bert import BERT, TINY
from weft.objectives.language.mlm_nsp import MLMNSP, MLMNSPConfig
from weft.training.execution import choose
from weft.training.means import Means
from weft.training.optimizer.settings import SGD
from weft.training.settings import Train
from weft.training.trainer import Trainer

PAD, UNKNOWN, CLS, SEP, MASK, MARKS, VOCABULARY, T = 0, 1, 2, 3, 4, 5, 300, 40


def examples(size: int) -> dict[str, torch.Tensor]:
    """Pairs of random words of ragged lengths, some of them unknown."""
    key = random.keys(7, torch.arange(size))
    length = 6 + random.integers(random.fold(key, "length"), T - 5, 1)  # 6 … 40
    place = torch.arange(T)
    ids = MARKS + random.integers(random.fold(key, "words"), VOCABULARY - MARKS, T)
    ids = ids.masked_fill(random.uniform(random.fold(key, "unknown"), T) < 0.05, UNKNOWN)
    ids[:, 0] = CLS
    ids = ids.masked_fill((place == length - 1) | (place == length // 2), SEP).masked_fill(place >= length, PAD)
    segments = ((place > length // 2) & (place < length)).long()
    pair = random.integers(random.fold(key, "pair"), 2, 1).squeeze(1)
    return {"ids": ids, "segments": segments, "lengths": length.squeeze(1), "pair": pair}


def batch(size: int) -> Batch:
    return {**examples(size), "key": random.keys(0, torch.arange(size))}


def objective(**settings: float | bool) -> MLMNSP:
    return dataclasses.replace(MLMNSPConfig(vocabulary=VOCABULARY, special_tokens=MARKS, mask=MASK), **settings).build()  # type: ignore[arg-type]


def bert(dropout: float = 0.0) -> BERT:
    torch.manual_seed(0)
    return dataclasses.replace(TINY, vocabulary=VOCABULARY, context=T, dropout=dropout, attention_dropout=dropout, init_std=0.1).build()


@pytest.mark.parametrize("static", [False, True])
def test_rates_are_as_stated_within_half_a_percent(static: bool) -> None:
    data, masked = batch(30_000), objective(static=static)
    shown, place, truth = masked.corrupt(data)
    chosen = truth != IGNORE
    original, now = data["ids"].gather(1, place)[chosen], shown.gather(1, place)[chosen]
    assert abs(float(chosen.sum() / (data["ids"] >= MARKS).sum()) - 0.15) < 0.005
    assert abs(float((now == MASK).float().mean()) - 0.8) < 0.005
    assert abs(float((now == original).float().mean()) - 0.1 - 0.1 / (VOCABULARY - MARKS)) < 0.005
    other = now[(now != MASK) & (now != original)]
    assert other.min() >= MARKS
    assert len(set(other.tolist())) == VOCABULARY - MARKS, "any ordinary word may be put in"


def test_the_same_share_of_short_and_long_sequences() -> None:
    data, masked = batch(30_000), objective()
    number, ordinary = masked.number(data), (data["ids"] >= MARKS).sum(1)
    for short in (ordinary < 15, ordinary > 25):
        assert abs(float(number[short].sum() / ordinary[short].sum()) - 0.15) < 0.005
    assert ((number - 0.15 * ordinary).abs() < 1).all()


def test_marks_padding_and_unknown_words_are_never_touched() -> None:
    data = batch(3000)
    shown, place, truth = objective().corrupt(data)
    special = data["ids"] < MARKS
    assert torch.equal(shown[special], data["ids"][special])
    assert truth[truth != IGNORE].min() >= MARKS
    assert (place[truth != IGNORE] < data["lengths"].unsqueeze(1).expand_as(place)[truth != IGNORE]).all()
    unchosen = torch.ones_like(special).scatter(1, place, truth == IGNORE)
    assert torch.equal(shown[unchosen], data["ids"][unchosen])
    assert all(len(set(row.tolist())) == len(row) for row in place), "no place twice"


def test_counts_are_exact_and_known_before() -> None:
    data, masked = batch(257), objective()
    counts = masked.counts(data)
    assert float(counts["token"]) == int((masked.corrupt(data)[2] != IGNORE).sum())
    assert float(counts["pair"]) == 257


def test_a_sequence_that_comes_again_is_masked_anew_or_as_before() -> None:
    data = batch(200)
    later = {**data, "key": random.keys(1, torch.arange(200))}
    for static in (False, True):
        first, second = (objective(static=static).corrupt(given)[0] for given in (data, later))
        assert torch.equal(first, second) == static
    alike = {name: value[:1].expand(2, *value.shape[1:]).clone() for name, value in data.items()}
    alike["ids"][1, 1] += 1  # one token differs, and with it all that is drawn
    places = objective(static=True).corrupt(alike)[1]
    assert not torch.equal(*places)


@pytest.mark.parametrize("static", [False, True])
def test_corruption_does_not_depend_on_how_a_batch_is_cut_or_padded(static: bool) -> None:
    data, masked = batch(40), objective(static=static)
    shown, _, truth = masked.corrupt(data)
    part = {name: value[11:17] for name, value in data.items()}
    assert torch.equal(masked.corrupt(part)[0], shown[11:17])
    longer = {**data, "ids": F.pad(data["ids"], (0, 9), value=PAD)}
    padded, _, wider = masked.corrupt(longer)
    assert torch.equal(padded[:, :T], shown)
    assert torch.equal(wider[wider != IGNORE], truth[truth != IGNORE])


def test_extreme_rates() -> None:
    data = batch(50)
    shown, _, truth = objective(mask_rate=0.0).corrupt(data)
    assert torch.equal(shown, data["ids"])
    assert (truth == IGNORE).all()
    shown, _, _ = objective(mask_rate=1.0, mask_token_share=1.0, random_token_share=0.0).corrupt(data)
    assert torch.equal(shown == MASK, data["ids"] >= MARKS)


def test_the_loss_by_hand() -> None:
    data, masked, model = batch(6), objective(mask_rate=0.3), bert().eval()
    terms = masked(model, data, "")
    shown, place, truth = masked.corrupt(data)
    token = pair = 0.0
    right = 0
    for row in range(6):
        length = int(data["lengths"][row])
        hidden = model.hidden(shown[row : row + 1, :length], data["segments"][row : row + 1, :length])
        logits = model.head(hidden)[0].log_softmax(-1).detach()
        for where, word in zip(place[row].tolist(), truth[row].tolist(), strict=True):
            if word != IGNORE:
                token -= float(logits[where, word])
                right += int(logits[where].argmax()) == word
        pair -= float(model.pair(hidden)[0].log_softmax(-1).detach()[data["pair"][row]])
    assert terms.sums["token"].item() == pytest.approx(token, rel=1e-4)
    assert terms.sums["pair"].item() == pytest.approx(pair, rel=1e-4)
    assert int(terms.metrics["token_accuracy"]) == right


def test_two_terms_over_ragged_micro_batches_equal_one_big_batch() -> None:
    """Each term is divided by its own count of the whole batch; dividing by those of a micro-batch would be far off."""
    weights = []
    for micro in (0, 5, 1):
        model, masked = bert(), objective()
        settings = Train(steps=3, batch=13, micro_batch=micro, device="cpu", precision="fp32")
        source = DataLoader(TensorDataset(examples(64)), 1, torch.device("cpu"))
        run = Trainer(model, masked, source, settings, SGD(lr=0.1), choose(settings, model, masked))
        for _ in range(3):
            run.run_step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0], atol=1e-6, rtol=0)


def test_accuracies_are_means_over_their_own_counts() -> None:
    masked, model = objective(), bert().eval()
    with torch.no_grad():
        model.head.decoder.bias[17] = 1e4
        model.pair_head.bias[1] = 1e4
    means, data = Means(masked), batch(2000)
    means.add("", masked(model, data, ""), masked.counts(data))
    numbers = means.read()
    truth = masked.corrupt(data)[2]
    assert numbers["token_accuracy"] == pytest.approx(float((truth == 17).sum() / (truth != IGNORE).sum()), rel=1e-6)
    assert numbers["pair_accuracy"] == pytest.approx(float(data["pair"].float().mean()), rel=1e-6)
    assert numbers["loss"] == pytest.approx(numbers["token"] + numbers["pair"], rel=1e-6)


def test_shares_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        objective(mask_token_share=0.8, random_token_share=0.3)
