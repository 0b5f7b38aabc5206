"""AWD-LSTM's recipe against a plain program of the paper: nn.LSTM, the same masks, SGD and its average, step by step."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.contracts.tiny import text_file
from weft.core import config
from weft.models.language import rnn
from weft.recipes.language.rnn import ptb
from weft.runs.assemble import assemble

STEPS, SWITCH = 20, 12
"""Of training, and the first whose weights count in the mean."""
LANES, CONTEXT, WIDTH, EMBEDDING = 4, 6, 10, 8


class Masks:
    """Dropout whose masks depend only on how many there were before, in the order in which a window needs them."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, x: Tensor, share: float, training: bool = True) -> Tensor:
        self.number += 1
        kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(self.number)) >= share
        return x * kept / (1 - share)


class Plain(nn.Module):
    """Layers of nn.LSTM, whose weights are dropped by hand."""

    def __init__(self, vocabulary: int):
        super().__init__()
        sizes = [EMBEDDING, WIDTH, WIDTH, EMBEDDING]
        self.embed = nn.Embedding(vocabulary, EMBEDDING)
        self.layers = nn.ModuleList(nn.LSTM(a, b, batch_first=True) for a, b in itertools.pairwise(sizes))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, ids: Tensor, states: list[Any], drop: Masks) -> tuple[Tensor, Tensor, Tensor, list[Any]]:
        def locked(x: Tensor, share: float) -> Tensor:
            return x * drop(torch.ones(len(x), 1, x.size(2)), share)

        words = drop(torch.ones(len(self.embed.weight), 1), 0.1)
        x, after = locked(F.embedding(ids, self.embed.weight * words), 0.4), []
        for number, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            weights: Any = dict(layer.named_parameters())
            weights["weight_hh_l0"] = drop(weights["weight_hh_l0"], 0.5)
            raw, state = torch.func.functional_call(layer, weights, (x, state))
            after.append(tuple(one.detach() for one in state))
            x = locked(raw, 0.25 if number < 2 else 0.4)
        return F.linear(x, self.embed.weight, self.bias), raw, x, after


def test_the_recipe_takes_the_steps_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {
        **{"data.path": str(text_file(tmp_path)), "data.validation_path": str(text_file(tmp_path)), "data.validation_context": 64},
        **{"data.context": CONTEXT, "data.lanes": LANES, "data.shift": False, "model.width": WIDTH, "model.embedding_width": EMBEDDING},
        **{"optim.average_from": SWITCH, "train.batch": LANES, "train.steps": STEPS, "train.device": "cpu", "train.precision": "fp32"},
        **{"train.log_every": 1, "train.eval_every": STEPS, "train.eval_examples": 2, "train.save_every": STEPS},
    }
    recipe = config.override(dataclasses.replace(ptb(), name="lstm/ptb"), changes)
    run = assemble(recipe, tmp_path / "run")
    model, tokens = run.trainer.model, run.data.train.tokens.long()  # type: ignore[attr-defined]
    plain = Plain(len(model.embed.weight))  # type: ignore[arg-type]
    names = {"embed.weight": "embed.weight", "head.bias": "bias"}
    names |= {f"layers.{i}.{part}": f"layers.{i}.{part}_l0" for i in range(3) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    own = {name: value.clone() for name, value in model.state_dict().items()}
    assert own.keys() == names.keys() | {"head.weight"}
    plain.load_state_dict({theirs: own[ours] for ours, theirs in names.items()})

    monkeypatch.setattr(rnn.F, "dropout", Masks())  # type: ignore[attr-defined]
    run.trainer.fit()
    monkeypatch.undo()

    windows = (len(tokens) - 1) // (LANES * CONTEXT)
    lanes = [tokens[lane * windows * CONTEXT :][: windows * CONTEXT + 1] for lane in range(LANES)]
    optimiser = torch.optim.SGD(plain.parameters(), lr=30.0, weight_decay=1.2e-6)
    states: list[Any] = [None] * 3
    drop, mean = Masks(), {}
    for step in range(1, STEPS + 1):
        begin = (step - 1) * CONTEXT
        ids = torch.stack([lane[begin : begin + CONTEXT] for lane in lanes])
        targets = torch.stack([lane[begin + 1 : begin + CONTEXT + 1] for lane in lanes])
        logits, raw, dropped, states = plain(ids, states, drop)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss = loss + 2 * dropped.pow(2).mean() + (raw[:, 1:] - raw[:, :-1]).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.25)
        optimiser.step()
        if step >= SWITCH:
            held = {name: value.clone() for name, value in plain.state_dict().items()}
            mean = {name: mean[name] + (value - mean[name]) / (step - SWITCH + 1) if mean else value for name, value in held.items()}
    average = next(hook for hook in run.trainer.hooks if hook.name == "average").average  # type: ignore[attr-defined]
    for ours, theirs in names.items():
        torch.testing.assert_close(model.state_dict()[ours], plain.state_dict()[theirs], atol=2e-4, rtol=2e-3)
        torch.testing.assert_close(average[ours], mean[theirs], atol=2e-4, rtol=2e-3)
    moved = (model.state_dict()["embed.weight"] - own["embed.weight"]).abs().max()
    assert windows >= STEPS and moved > 0.1
