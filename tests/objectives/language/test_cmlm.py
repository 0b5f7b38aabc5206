"""Hidden targets: how many and which, what is predicted and counted, lengths that see no target, and END up to the last place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.models.language.nonautoregressive import NonAutoregressiveConfig
from weft.objectives.language.cmlm import CMLM, CMLMConfig

PAD, START, END = 0, 1, 2
V = 12


def batch() -> Batch:
    target = torch.tensor([[START, 5, 6, 7, END, PAD], [START, 7, END, PAD, PAD, PAD], [START, 5, 8, 9, 5, END], [PAD] * 6])
    source = torch.tensor([[5, 6, END, PAD], [7, END, PAD, PAD], [5, 5, 5, END], [PAD] * 4])
    lengths = {"source_length": torch.tensor([3, 2, 4, 0]), "target_length": torch.tensor([5, 3, 6, 0])}
    return {"source": source, "target": target, **lengths, "key": random.keys(7, torch.arange(4))}


def model(**settings: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"vocabulary": V, "context": 10, "layers": 1, "heads": 2, "width": 16, "dropout": 0.0}
    return NonAutoregressiveConfig(**{**sizes, **settings}).build()


def objective(**settings: Any) -> CMLM:
    return CMLM(CMLMConfig(start=START, end=END, **settings))


def many(number: int, length: int) -> Batch:
    """Equal targets of so many tokens, with different keys."""
    target = torch.tensor([[START, *range(3, 3 + length), END]]).expand(number, -1)
    whole = torch.full((number,), length + 2)
    return {"source": target, "source_length": whole, "target": target, "target_length": whole, "key": random.keys(1, torch.arange(number))}


def test_every_number_of_hidden_tokens_and_every_place_is_as_likely() -> None:
    given = many(6000, 5)
    made = objective()
    shown, filled, truth = made.hide(given)
    number = (truth != IGNORE).sum(1)
    assert torch.equal(number, made.hidden_number(given))
    assert torch.equal(number, (shown == START).sum(1))
    share = torch.bincount(number, minlength=6)[1:] / 6000
    assert (share - 0.2).abs().max() < 0.02
    each = (truth[:, :5] != IGNORE).float().mean(0)
    assert (each - 0.6).abs().max() < 0.03
    assert (filled == 6).all()
    assert (shown[:, 5] == END).all()  # END is always shown, and never predicted
    assert float(made.counts(given)["token"]) == float(number.sum())


def test_what_is_shown_and_what_is_predicted_make_up_the_target() -> None:
    given, made = batch(), objective()
    shown, filled, truth = made.hide(given)
    target = given["target"][:, 1:]
    assert torch.equal(torch.where(truth == IGNORE, shown, truth), target)
    assert filled.tolist() == [4, 2, 5, 0]
    assert (truth[3] == IGNORE).all()
    counts = made.counts(given)
    assert float(counts["length"]) == 3
    assert float(counts["token"]) == float((truth != IGNORE).sum())


def test_noise_belongs_to_the_pair() -> None:
    given, made = batch(), objective()
    whole = made.hide(given)[2]
    wider = given | {"target": F.pad(given["target"], (0, 3))}
    assert torch.equal(made.hide(wider)[2][:, :5], whole)
    for row in range(4):
        assert torch.equal(made.hide({name: value[row : row + 1] for name, value in given.items()})[2][0], whole[row])
    keyed = given | {"row_key": given["key"], "key": given["key"][:1]}  # a whole batch has one key, its rows their own
    assert torch.equal(made.hide(keyed)[2], whole)


@torch.no_grad()
def test_sums_are_those_of_the_hidden_tokens_and_of_the_lengths() -> None:
    given, network, made = batch(), model().eval(), objective(label_smoothing=0.0)
    shown, filled, truth = made.hide(given)
    terms = made(network, given, "")
    logs = network(given["source"], given["source_length"], shown, filled).log_softmax(-1)
    rows, places = (truth != IGNORE).nonzero(as_tuple=True)
    expected = -float(logs[rows, places, truth[rows, places]].sum())
    assert float(terms.sums["token"]) == pytest.approx(expected, rel=1e-5)
    assert float(terms.metrics["log_loss"]) == pytest.approx(expected, rel=1e-5)
    memory = network.encode(given["source"], given["source_length"])
    lengths = network.length_logits(memory, given["source_length"]).log_softmax(-1)
    assert float(terms.sums["length"]) == pytest.approx(-float(lengths[0, 2] + lengths[1, 0] + lengths[2, 3]), rel=1e-5)
    guessed = 1 + lengths[:3].argmax(-1)
    assert float(terms.metrics["length_error"]) == float((guessed - torch.tensor([3, 1, 4])).abs().sum())
    assert made.weights == {"length": 0.1}


def test_the_length_sees_no_target() -> None:
    network, made = model(), objective()
    given = batch()
    other = given | {"target": torch.where(given["target"] > END, V - 1, given["target"])}
    assert torch.equal(made(network, given, "").sums["length"], made(network, other, "").sums["length"])
    made(network, given, "").sums["length"].backward()
    assert all(p.grad is None for name, p in network.named_parameters() if name.startswith(("decoder.", "norm.")))
    assert network.difference.up.weight.grad.abs().sum() > 0


@torch.no_grad()
def test_targets_that_are_cut_are_followed_by_end() -> None:
    given, network, made = batch(), model(fixed_length=6).eval(), objective(fixed_length=6)
    shown, filled, truth = made.hide(given)
    assert (shown == START).all()
    assert filled.tolist() == [6, 6, 6, 0]
    assert truth[:2].tolist() == [[5, 6, 7, END, END, END], [7, END, END, END, END, END]]
    assert (truth[3] == IGNORE).all()
    assert float(made.counts(given)["token"]) == 18
    assert "length" not in made(network, given, "").sums
    assert objective(fixed_length=3).hide(given)[2][:3].tolist() == [[5, 6, 7], [7, END, END], [5, 8, 9]]
    with pytest.raises(ConfigError, match=r"--objective\.fixed_length 6 must be the same as --model\.fixed_length 0"):
        made(model(), given, "")


def test_two_passes_are_pulled_together_and_agree_without_dropout() -> None:
    given, network = batch(), model().train()
    torch.testing.assert_close(objective(r_drop=5.0)(network, given, "").sums, objective()(network, given, "").sums)
    noisy = model(dropout=0.3).train()
    losses = []
    for weight in (1e-9, 2.0):
        torch.manual_seed(1)
        losses.append(float(objective(r_drop=weight)(noisy, given, "").sums["token"].detach()))
    assert losses[0] < losses[1]


class Copies:
    """A model whose target is the source."""

    config = NonAutoregressiveConfig(vocabulary=V, context=10)
    longest = 20

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        return source

    def length_logits(self, memory: Tensor, lengths: Tensor) -> Tensor:
        return F.one_hot(lengths - 2, 10).float()

    def decode_parallel(self, target: Tensor, sizes: Tensor | None, memory: Tensor, lengths: Tensor | None = None) -> Tensor:
        return F.pad(memory, (0, max(0, target.size(1) - memory.size(1))))[:, : target.size(1)]

    def head(self, hidden: Tensor) -> Tensor:
        return F.one_hot(hidden, V).float() * 20


def test_validation_lets_the_model_answer() -> None:
    given, made = batch(), objective(candidates=1)
    found = made.measure(Copies(), given)["matches"]
    assert found.tolist()[:2] == [5, 6]  # 5 6, 7 and 5 5 5 against 5 6 7, 7 and 5 8 9 5
    assert found.tolist()[8:] == [6, 8]
    assert made.summary({"matches": found, "token": torch.tensor(0.5)})["token_bleu"] == 0.0
    assert objective(decode=False).measure(Copies(), given) == {}
    assert made.search(Copies()) == {"iterations": 10, "candidates": 1, "length_factor": 1.0}


def test_settings_that_make_no_sense() -> None:
    for name, value in (("label_smoothing", 1.0), ("length_weight", -1.0), ("r_drop", -0.1), ("fixed_length", -1)):
        with pytest.raises(ConfigError, match=rf"--objective\.{name} must be"):
            objective(**{name: value})
