"""Targets made at once: one pass, what is kept and what is forgotten, exact lengths, and rows that do not depend on each other."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core.errors import CapabilityError, ConfigError
from weft.inference.mask_predict import MaskPredict, MaskPredictOutput, mask_predict, passes, ranks, refine
from weft.models.language.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig

PAD, START, END = 0, 1, 2
V, C = 24, 14
LENGTHS = torch.tensor([9, 3, 6, 1, 9])


def model(**settings: Any) -> NonAutoregressive:
    """Random weights: positions so large, and a head of its own, that tokens differ from place to place."""
    torch.manual_seed(3)
    made = NonAutoregressiveConfig(**{"vocabulary": V, "context": C, "layers": 1, "heads": 2, "width": 16, **settings}).build().eval()
    made.positions.mul_(2)
    made.head.weight = torch.nn.Parameter(torch.randn(V, 16))
    return made


def source() -> Tensor:
    ids = torch.randint(3, V, (5, 9), generator=torch.Generator().manual_seed(0))
    return ids.masked_fill(torch.arange(9) >= LENGTHS[:, None], PAD)


def made_by(network: Any, ids: Tensor, lengths: Tensor, **settings: Any) -> list[MaskPredictOutput]:
    return mask_predict(network, ids, lengths, START, END, MaskPredict(**settings))


class Counted:
    """A model that notes what its decoder reads."""

    def __init__(self, network: NonAutoregressive):
        self.network, self.config, self.longest = network, network.config, network.longest
        self.shown: list[Tensor] = []
        self.encoded = 0

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        self.encoded += 1
        return self.network.encode(source, lengths)

    def length_logits(self, memory: Tensor, lengths: Tensor) -> Tensor:
        return self.network.length_logits(memory, lengths)

    def decode_parallel(self, target: Tensor, sizes: Tensor | None, memory: Tensor, lengths: Tensor | None = None) -> Tensor:
        self.shown.append(target)
        return self.network.decode_parallel(target, sizes, memory, lengths)

    def head(self, hidden: Tensor) -> Tensor:
        return self.network.head(hidden)


def test_one_pass_is_one_pass_whatever_the_length() -> None:
    counted = Counted(model())
    made = made_by(counted, source(), LENGTHS, iterations=1, candidates=1)
    assert counted.encoded == len(counted.shown) == 1
    assert [each.iterations for each in made] == [1] * 5
    assert all(each.stop == "length" and set(each.ids).isdisjoint({PAD, START, END}) for each in made)
    with torch.no_grad():
        memory = counted.network.encode(source(), LENGTHS)
        sizes = 1 + counted.network.length_logits(memory, LENGTHS).argmax(-1)
        assert [len(each.ids) for each in made] == sizes.tolist()
        unknown = torch.tensor([[START] * len(made[0].ids) + [END]])
        logits = counted.network.head(counted.network.decode_parallel(unknown, None, memory[:1], LENGTHS[:1]))[0, :-1]
        assert made[0].ids == (logits[:, 3:].argmax(-1) + 3).tolist()


def test_as_many_are_forgotten_as_the_passes_left_say() -> None:
    counted, sizes = Counted(model()), torch.tensor([8, 3, 1, 5, 8])
    with torch.inference_mode():
        refine(counted, counted.encode(source(), LENGTHS), LENGTHS, sizes, START, END, 4)
    unknown = [(shown == START).sum(1).tolist() for shown in counted.shown]
    assert unknown == [[int(size * left / 4) for size in sizes.tolist()] for left in (4, 3, 2, 1)]
    assert all((shown[row, size] == END) for shown in counted.shown for row, size in enumerate(sizes.tolist()))
    assert [passes(size, 4) for size in (8, 3, 1, 5)] == [4, 3, 1, 4]
    assert passes(3, 10) == 7


class Sure:
    """Says token 3 + place + 10 at the first pass and 3 + place after it, each place as surely as told; what it saw is noted."""

    config = SimpleNamespace(fixed_length=0, context=8)

    def __init__(self, sure: list[list[float]]):
        self.sure, self.shown = sure, list[list[int]]()

    def decode_parallel(self, target: Tensor, sizes: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        said = self.sure[min(len(self.shown), len(self.sure) - 1)]
        self.shown.append(target[0, :-1].tolist())
        probability = torch.full((1, target.size(1), V), 0.0)
        for place, value in enumerate(said):
            probability[0, place] = (1 - value) / (V - 4)
            probability[0, place, 3 + place + (10 if len(self.shown) == 1 else 0)] = value
        return probability

    def head(self, hidden: Tensor) -> Tensor:
        return hidden.clamp(min=1e-30).log()


def test_the_surest_tokens_are_kept() -> None:
    stub = Sure([[0.9, 0.5, 0.8, 0.6], [0.1, 0.95, 0.1, 0.7], [0.99, 0.99, 0.99, 0.99]])
    one = torch.ones(1, dtype=torch.int64)
    ids, sure = refine(stub, torch.zeros(1, 1, 1), one, torch.tensor([4]), START, END, 4)
    assert stub.shown[0] == [START] * 4
    assert stub.shown[1] == [13, START, START, START]  # the surest of the first pass is kept, three are predicted again
    assert stub.shown[2] == [13, 4, START, START]  # 0.1 and 0.7 of the second pass are the least sure of all
    assert stub.shown[3] == [START, 4, 5, 6]  # 0.9, from the first pass, is now the least sure
    assert ids.tolist() == [[3, 4, 5, 6]]
    assert sure.exp()[0].tolist() == pytest.approx([0.99, 0.95, 0.99, 0.99], abs=0.01)


@pytest.mark.parametrize("settings", [{"iterations": 1}, {"iterations": 4, "candidates": 3}, {"length_factor": 2.0}])
def test_a_target_does_not_depend_on_its_neighbours_or_on_padding(settings: dict[str, Any]) -> None:
    network, ids = model(), source()
    together = made_by(network, ids, LENGTHS, **settings)
    assert len({tuple(each.ids) for each in together}) == 5
    for row, length in enumerate(LENGTHS.tolist()):
        (alone,) = made_by(network, ids[row : row + 1, :length], LENGTHS[row : row + 1], **settings)
        assert (alone.ids, alone.iterations) == (together[row].ids, together[row].iterations)
        assert alone.score == pytest.approx(together[row].score, abs=1e-5)
    wider = torch.nn.functional.pad(ids, (0, 4), value=7)  # what is behind a source is not read, whatever it is
    assert [each.ids for each in made_by(network, wider, LENGTHS, **settings)] == [each.ids for each in together]
    order = torch.tensor([3, 1, 4, 0, 2])
    assert [each.ids for each in made_by(network, ids[order], LENGTHS[order], **settings)] == [together[i].ids for i in order]


def test_the_length_is_scaled_exactly() -> None:
    network = model()
    plain = [len(each.ids) for each in made_by(network, source(), LENGTHS, candidates=1)]
    assert len(set(plain)) > 1
    double, half = (made_by(network, source(), LENGTHS, candidates=1, length_factor=factor) for factor in (2.0, 0.5))
    assert [len(each.ids) for each in double] == [2 * length for length in plain]
    assert [len(each.ids) for each in half] == [max(1, math.floor(length / 2 + 0.5)) for length in plain]
    with pytest.raises(ConfigError, match=r"length_factor 50.0 makes \d+ tokens, of which this model can make 28"):
        made_by(network, source(), LENGTHS, length_factor=50.0)


def test_of_several_lengths_the_surest_wins_and_counts_as_a_token_itself() -> None:
    network, ids = model(), source()
    best = made_by(network, ids, LENGTHS, iterations=2, candidates=4)
    with torch.inference_mode():
        memory = network.encode(ids, LENGTHS)
        lengths = network.length_logits(memory, LENGTHS).log_softmax(-1)
        for row, found in enumerate(best):
            scores = {}
            for size in (1 + lengths[row].topk(4).indices).tolist():
                _, sure = refine(network, memory[row : row + 1], LENGTHS[row : row + 1], torch.tensor([size]), START, END, 2)
                scores[size] = float(sure.sum() + lengths[row, size - 1]) / size
            assert len(found.ids) == max(scores, key=lambda size: scores[size])
            assert found.score == pytest.approx(max(scores.values()), abs=1e-5)


def test_what_is_cut_at_end_is_what_stood_before_it() -> None:
    network, ids = model(fixed_length=12), source()
    with torch.no_grad():
        network.head.weight[END] *= 1.5  # make END likely enough to be met
        unknown = torch.full((5, 12), START)
        logits = network(ids, LENGTHS, unknown)
        logits[..., [PAD, START]] = -math.inf
        whole = logits.argmax(-1).tolist()
    made = made_by(network, ids, LENGTHS)
    for row, found in zip(whole, made, strict=True):
        assert found.ids == (row[: row.index(END) + 1] if END in row else row)
        assert found.stop == ("stop" if END in row else "length")
        assert found.iterations == 1
    assert "stop" in {found.stop for found in made}
    for row, length in enumerate(LENGTHS.tolist()):
        assert made_by(network, ids[row : row + 1, :length], LENGTHS[row : row + 1])[0].ids == made[row].ids
    with pytest.raises(ConfigError, match="cut at END makes one pass"):
        made_by(network, ids, LENGTHS, iterations=2)


def test_what_makes_no_target_is_refused() -> None:
    for settings, said in (
        ({"iterations": -1}, "iterations must be at least 1"),
        ({"candidates": 0}, "candidates must be at least 1"),
        ({"length_factor": 0.0}, "length_factor must be above 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            made_by(model(), source(), LENGTHS, **settings)
    with pytest.raises(CapabilityError, match="does not offer NonAutoregressiveDecoder"):
        mask_predict(torch.nn.Linear(1, 1), source(), LENGTHS, START, END)
    assert made_by(model(), source()[:0], LENGTHS[:0]) == []


def test_ranks() -> None:
    assert ranks(torch.tensor([[0.5, 0.1, 0.5, math.inf]])).tolist() == [[1, 0, 2, 3]]
