"""What each process saves of a model: together the whole, nothing twice, in every layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.training.parallel.processes import together
from tests.training.parallel.test_data_parallel import MODELS, team
from weft.objectives.language.next_token import NextTokenConfig
from weft.training.checkpoint.tensors import pack, wholes
from weft.training.parallel.team import once, saved

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
LAYOUTS = [(4, 1, 1, 1), (2, 2, 1, 1), (1, 4, 1, 1), (1, 2, 2, 1), (2, 1, 2, 1), (2, 1, 1, 2), (1, 2, 1, 2), (1, 1, 2, 2)]
"""Copies, parts, divided heads, stages."""


def parts() -> list[dict[str, Tensor]]:
    """What this process saves of a model in each layout."""
    found = []
    for layout in LAYOUTS:
        torch.manual_seed(0)
        model, own = MODELS["llama"].build(), team(layout)
        own.prepare(model, NextTokenConfig().build())
        state = once(model.state_dict(keep_vars=True), own)
        found.append({n: t.clone() for key, like in state.items() for n, t in saved(key, own.to_local(like.detach()), like, own).items()})
    return found


def test_the_pieces_of_all_processes_are_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    expected = once(MODELS["llama"].build().state_dict())
    for layout, found in zip(LAYOUTS, zip(*together(4, tmp_path, parts), strict=True), strict=True):
        whole = wholes([pack(process) for process in found], "here")
        assert whole.keys() == expected.keys(), layout
        for key, tensor in expected.items():
            assert torch.equal(whole[key], tensor), (layout, key)
        sizes = [sum(tensor.numel() for tensor in process.values()) for process in found]
        assert sum(sizes) == sum(tensor.numel() for tensor in expected.values()), "nothing is written twice"
        assert sum(size > 0 for size in sizes) == layout[1] * layout[2] * layout[3], "one copy writes, and each of its processes"
