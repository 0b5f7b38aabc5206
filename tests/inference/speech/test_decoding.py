"""What recognisers say: searches against all answers one by one, rows by themselves, a language model's opinion, and times."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.core.errors import CapabilityError, ConfigError
from weft.inference.speech.beam import Fusion, ctc_beam, prefix_beam, transducer_beam
from weft.inference.speech.greedy import collapse, ctc_greedy, transducer_greedy
from weft.inference.speech.recognise import Decoding, recognise, spoken
from weft.kernels.alignment import ctc_log_likelihood, transducer_logit_log_likelihood
from weft.models.audio import conformer, conformer_aed, las, transducer

MODULES = {"ctc": conformer, "transducer": transducer, "las": las, "aed": conformer_aed}
LENGTHS = torch.tensor([17, 9, 0])
START, END = 1, 2


def model(kind: str, **changes: Any) -> Any:
    torch.manual_seed(3)
    made = MODULES[kind].PRESETS["tiny"]
    made = dataclasses.replace(made, **changes).build()
    for parameter in made.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return made.eval()


def source() -> Tensor:
    torch.manual_seed(4)
    return torch.randn(3, 17, 8)


def test_collapse() -> None:
    assert collapse([0, 3, 3, 0, 3, 4, 4, 0]) == [3, 3, 4]
    assert collapse([]) == []


def test_prefix_beam_search_finds_the_likeliest_labels() -> None:
    log_probs = torch.randn(5, 3, dtype=torch.float64).log_softmax(-1)
    best, score = prefix_beam(log_probs.tolist(), beams=50)[0]
    frames = torch.tensor([5])
    every = [list(labels) for size in range(6) for labels in product((1, 2), repeat=size)]
    totals = [
        ctc_log_likelihood(log_probs[None], frames, torch.tensor([[*labels, 0]]), torch.tensor([len(labels)])).item() for labels in every
    ]
    assert list(best) == every[totals.index(max(totals))]
    assert score == pytest.approx(max(totals))


def test_a_language_model_changes_what_is_said() -> None:
    class Prefers(nn.Module):
        """Always token 2, whatever was before."""

        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.tensor([0.0, -5.0, 5.0]))

        def hidden(self, ids: Tensor) -> Tensor:
            return torch.zeros(*ids.shape, 1)

        def head(self, hidden: Tensor) -> Tensor:
            return self.scores.expand(*hidden.shape[:-1], 3)

    log_probs = torch.tensor([[0.1, 0.5, 0.4], [0.8, 0.1, 0.1]]).log().tolist()
    assert prefix_beam(log_probs, 5)[0][0] == (1,)
    assert prefix_beam(log_probs, 5, Fusion(Prefers(), 0.5, tokens={1: 1, 2: 2}))[0][0] == (2,)
    assert prefix_beam(log_probs, 5, Fusion(Prefers(), 0.0, tokens={1: 1, 2: 2}))[0][0] == (1,)


@pytest.mark.parametrize("kind", list(MODULES))
@pytest.mark.parametrize("beams", [1, 4])
def test_a_row_does_not_depend_on_the_others(kind: str, beams: int) -> None:
    made, frames = model(kind), source()
    together = recognise(made, frames, LENGTHS, START, END, Decoding(beams))
    assert together[2].ids == []
    for row in range(2):
        alone = recognise(made, frames[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1], START, END, Decoding(beams))
        assert alone[0].ids == together[row].ids


def test_a_transducer_says_its_likeliest_token_at_each_state() -> None:
    made, frames = model("transducer"), source()
    found = transducer_greedy(made, frames, LENGTHS, START)
    states = made.from_frame(made.encode(frames, LENGTHS))
    for row, size in enumerate(made.encoded_lengths(LENGTHS).tolist()):
        said: list[int] = []
        for state in states[row, :size]:
            for _ in range(10):
                symbols = made.from_symbols(made.predict(torch.tensor([[START, *said]]))[0][0, -1])
                token = int(made.join(state, symbols).argmax())
                if not token:
                    break
                said.append(token)
        assert found[row] == said


@pytest.mark.parametrize("predictor", ["stateless", "lstm"])
def test_a_wider_beam_finds_what_is_likelier(predictor: str) -> None:
    made, frames = model("transducer", predictor=predictor), source()
    made.joint_head.bias.data[0] += 4.0

    def likelihood(said: list[list[int]]) -> Tensor:
        longest = max(map(len, said))
        labels = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in said], dtype=torch.int64)
        logits = made(frames[:2], LENGTHS[:2], torch.cat([torch.full((2, 1), START), labels], 1))
        sizes = torch.tensor([len(ids) for ids in said])
        return transducer_logit_log_likelihood(logits, made.encoded_lengths(LENGTHS[:2]), labels, sizes)

    greedy = transducer_greedy(made, frames[:2], LENGTHS[:2], START)
    searched = transducer_beam(made, frames[:2], LENGTHS[:2], START, beams=8)
    assert (likelihood(searched) >= likelihood(greedy) - 1e-4).all()


def test_beam_search_over_prefixes_of_a_model() -> None:
    made, frames = model("ctc"), source()
    made.ctc_head.weight.data *= 20  # nearly one path, which both find
    made.ctc_head.bias.data *= 20
    assert ctc_beam(made, frames[:2], LENGTHS[:2], 8) == ctc_greedy(made, frames[:2], LENGTHS[:2])


@pytest.mark.parametrize("kind", ["ctc", "aed"])
def test_times_go_along_with_the_sound(kind: str) -> None:
    found = recognise(model(kind), source(), LENGTHS, START, END, Decoding(times=True))
    for each, frames in zip(found, LENGTHS.tolist(), strict=True):
        assert len(each.spans) in (0, len(each.ids))
        assert all(0 <= first < last <= frames for first, last in each.spans)
        assert all(one[1] <= other[0] for one, other in pairwise(each.spans))
    assert kind == "aed" or any(each.spans for each in found)


def test_cached_attention_is_the_same() -> None:
    from weft.inference.beam_models import translate

    for kind in ("las", "aed"):
        made, frames = model(kind), source()[:2]
        found = [translate(made, frames, LENGTHS[:2], START, END, beams=3, longest=6, cached=cached) for cached in (True, False)]
        for one, other in zip(*found, strict=True):
            assert [each.ids for each in one] == [each.ids for each in other]
            assert one[0].logprob == pytest.approx(other[0].logprob, abs=1e-4)


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(ConfigError, match="at least one hypothesis"):
        recognise(model("ctc"), source(), LENGTHS, START, END, Decoding(0))
    with pytest.raises(CapabilityError, match="no head for CTC"):
        recognise(model("las"), source(), LENGTHS, START, END, Decoding(times=True))
    with pytest.raises(ConfigError, match="fused with CTC"):
        recognise(model("las"), source(), LENGTHS, START, END, Decoding(fusion=Fusion(None, 1.0)))
    assert spoken([5, 6, END, 7], END) == [5, 6]
